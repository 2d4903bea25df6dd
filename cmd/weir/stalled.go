package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/report"
	"github.com/weirhq/weir/schemas"
)

// clockTeller says in weir.reports that this process's clock stalls its admission,
// for the alert clock.stall.
type clockTeller struct {
	cl     *kgo.Client
	topic  string
	slot   string
	logger *slog.Logger
	now    func() time.Time   // the clock that was found ahead
	found  chan time.Duration // the latest; what nobody has taken is replaced
}

// clockEvery is how often a stall is said while it lasts.
const clockEvery = 10 * time.Second

func newClockTeller(cl *kgo.Client, topic, slot string, now func() time.Time, logger *slog.Logger) *clockTeller {
	return &clockTeller{cl: cl, topic: topic, slot: slot, logger: logger, now: now, found: make(chan time.Duration, 1)}
}

// tell takes what admission found. It does not block, and has one caller.
func (c *clockTeller) tell(ahead time.Duration) {
	select {
	case <-c.found:
	default:
	}
	c.found <- ahead
}

func (c *clockTeller) run(ctx context.Context) error {
	var (
		stalled bool
		at      time.Time // of the last report of it
	)
	for {
		var ahead time.Duration
		select {
		case <-ctx.Done():
			return nil
		case ahead = <-c.found:
		}
		if ahead == 0 && !stalled || ahead > 0 && stalled && time.Since(at) < clockEvery {
			continue
		}
		stalled, at = ahead > 0, time.Now()
		r := schemas.Report{At: schemas.MillisOf(c.now().Add(-ahead)), By: c.slot, Clock: &schemas.ClockReport{AheadMillis: ahead.Milliseconds()}}
		within, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := report.Write(within, c.cl, c.topic, schemas.ReportKeyClock(c.slot), r)
		cancel()
		if err != nil && ctx.Err() == nil {
			c.logger.Warn("a stall of the clock could not be told", "error", err)
		}
	}
}
