package main

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/report"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
)

// TestStuckIsReported: what is stuck is reported every ten seconds, once more when it is
// over, and nothing before or after.
func TestStuckIsReported(t *testing.T) {
	streamtest.Simulated(t, func(t *testing.T, _ *kfake.Cluster, broker []kgo.Opt) {
		const topic = "weir.reports"
		cl := streamtest.Client(t, broker...)
		streamtest.Create(t, cl, topic)
		w, err := report.Watch(t.Context(), topic, slog.New(slog.DiscardHandler), broker...)
		if err != nil {
			t.Fatal(err)
		}
		streamtest.Run(t, w)
		var stuck atomic.Pointer[stream.Stuck]
		look := func() []stream.Stuck {
			if s := stuck.Load(); s != nil {
				return []stream.Stuck{*s}
			}
			return nil
		}
		ended := make(chan error)
		go func() { ended <- reportStuck(t.Context(), cl, topic, "3", look, slog.New(slog.DiscardHandler)) }()
		t.Cleanup(func() {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		last := func() schemas.Report { return w.Now()[schemas.ReportKeyStuck("3")] }

		time.Sleep(time.Minute)
		if len(w.Now()) != 0 {
			t.Fatalf("reported while all is well: %+v", w.Now())
		}
		since := time.Now()
		stuck.Store(&stream.Stuck{Stage: "delay", Since: since, Why: "no leader"})
		time.Sleep(13 * time.Second)
		first := last()
		if first.Stuck == nil || len(first.Stuck.Stages) != 1 || first.Stuck.Stages[0] != (schemas.StuckStage{Stage: "delay", Since: schemas.MillisOf(since), Why: "no leader"}) {
			t.Fatalf("%+v", first)
		}
		time.Sleep(10 * time.Second)
		if again := last(); again.At.Sub(first.At) != stuckEvery {
			t.Errorf("reported at %v and %v", first.At, again.At)
		}
		stuck.Store(nil)
		time.Sleep(13 * time.Second)
		over := last()
		if over.Stuck == nil || len(over.Stuck.Stages) != 0 {
			t.Fatalf("%+v", over)
		}
		time.Sleep(time.Minute)
		if last().At != over.At {
			t.Error("reported again after it was over")
		}
	})
}
