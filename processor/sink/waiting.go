package sink

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/schemas"
)

// When it is said that the sink waits at its start, and for what: a statement that runs
// on a cluster without Keeper, or without one of its replicas, answers after minutes.
const (
	waitFirst = 10 * time.Second // after this
	waitEvery = time.Minute      // and then so often
)

// What the sink waits for at its start.
const (
	stepMigrate = "ClickHouse to bring its tables up to date"
	onCluster   = ", for which Keeper and every replica must answer"
	stepOpen    = "ClickHouse to answer"
	stepCheck   = "ClickHouse to say what its tables are like"
)

// wait watches one try to begin. It speaks for the sink while that goes on: nobody else
// says anything to the reporter until end has returned.
type wait struct {
	step atomic.Pointer[string]
	over chan struct{}
	done sync.WaitGroup
	said bool
}

func watchWait(log *slog.Logger, reporter *reporter) *wait {
	w := &wait{over: make(chan struct{})}
	began := time.Now()
	w.done.Go(func() {
		for next := waitFirst; ; next = waitEvery {
			select {
			case <-w.over:
				return
			case <-time.After(next):
			}
			what := w.what()
			log.Warn("the sink waits at its start; nothing is lost: what is to be loaded stands in Kafka", "for", what, "since", began)
			reporter.say(schemas.SinkReport{Failing: "the sink waits at its start for " + what})
			w.said = true
		}
	})
	return w
}

// begin says what is waited for from now on.
func (w *wait) begin(step string) { w.step.Store(&step) }

// what is waited for.
func (w *wait) what() string {
	if p := w.step.Load(); p != nil {
		return *p
	}
	return stepOpen
}

// end reports whether it took so long that something was said.
func (w *wait) end() bool {
	close(w.over)
	w.done.Wait()
	return w.said
}
