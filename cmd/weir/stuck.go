package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/report"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// stuckEvery is how often a process looks for stages that are stuck, and reports them
// while there are any.
const stuckEvery = 10 * time.Second

// reportStuck writes to weir.reports which stages of this process are stuck, for the
// alert stage.stuck and the console, until ctx ends.
func reportStuck(ctx context.Context, cl *kgo.Client, topic, slot string, stuck func() []stream.Stuck, logger *slog.Logger) error {
	tick := time.NewTicker(stuckEvery)
	defer tick.Stop()
	said := false
	for {
		r := schemas.StuckReport{Stages: []schemas.StuckStage{}}
		for _, s := range stuck() {
			r.Stages = append(r.Stages, schemas.StuckStage{Stage: s.Stage, Since: schemas.MillisOf(s.Since), Why: s.Why})
		}
		if said || len(r.Stages) > 0 {
			within, cancel := context.WithTimeout(ctx, 5*time.Second)
			err := report.Write(within, cl, topic, schemas.ReportKeyStuck(slot), schemas.Report{At: schemas.MillisOf(time.Now()), By: "slot " + slot, Stuck: &r})
			cancel()
			switch {
			case err == nil:
				said = len(r.Stages) > 0
			case ctx.Err() == nil:
				logger.Warn("which stages are stuck was not reported; trying again in 10 s", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
