package report

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

const (
	patience = 3 * time.Second // for the topic's end at the start: then it is followed from behind
	turn     = time.Second     // of one wait for what is new
	errorGap = 10 * time.Second
)

// Watcher follows weir.reports. Now may be called from any goroutine.
type Watcher struct {
	cl     *kgo.Client
	topic  string
	logger *slog.Logger

	// Of the goroutine in Watch, then Run.
	known    map[string]schemas.Report
	next     int64
	complain time.Time // not before

	now atomic.Pointer[map[string]schemas.Report]
}

// Watch reads topic up to its end as of now and returns a watcher that Run
// keeps up to date. When that cannot be done soon it says so in the log, and
// Run goes on. opts reach the brokers; they must name no group. The error is one
// of opts.
func Watch(ctx context.Context, topic string, logger *slog.Logger, opts ...kgo.Opt) (*Watcher, error) {
	cl, err := kgo.NewClient(append(opts,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), // a topic that was made anew is read anew
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(time.Second), kgo.KeepRetryableFetchErrors(),
		kgo.KeepControlRecords(), // the last record may be a transaction's marker: to see that it was reached
	)...)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", topic, err)
	}
	w := &Watcher{cl: cl, topic: topic, logger: logger, known: make(map[string]schemas.Report)}
	w.publish()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	end, _ := ends.Lookup(topic, 0)
	for err == nil && w.next < end.Offset {
		before := w.next
		w.poll(ctx)
		if err = ctx.Err(); err == nil && w.next == before {
			break // what is left may have been compacted away
		}
	}
	if err != nil {
		logger.Warn("what sinks and audits said of their work is not known yet", "topic", topic, "error", err)
	}
	return w, nil
}

// Run follows the topic until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.cl.Close()
	for ctx.Err() == nil {
		w.poll(ctx)
	}
	return nil
}

// Close ends a watcher that Run was never called for.
func (w *Watcher) Close() { w.cl.Close() }

// Now returns the latest report of each key, at most a second or two late. It
// must not be written to.
func (w *Watcher) Now() map[string]schemas.Report { return *w.now.Load() }

// poll takes what is there, or waits a moment for it.
func (w *Watcher) poll(ctx context.Context) {
	waiting, cancel := context.WithTimeout(ctx, turn)
	defer cancel()
	fetches := w.cl.PollFetches(waiting)
	if ctx.Err() != nil {
		return
	}
	failed := false
	fetches.EachError(func(_ string, _ int32, err error) {
		if errors.Is(err, context.DeadlineExceeded) && waiting.Err() != nil {
			return // nothing new
		}
		failed = true
		if now := time.Now(); !now.Before(w.complain) {
			w.complain = now.Add(errorGap)
			w.logger.Warn("reading the reports failed; what is known stays", "topic", w.topic, "error", err)
		}
	})
	changed := false
	fetches.EachRecord(func(r *kgo.Record) {
		w.next = r.Offset + 1
		if !r.Attrs.IsControl() && w.take(r) {
			changed = true
		}
	})
	if changed {
		w.publish()
	}
	if failed {
		<-waiting.Done() // no faster than the clock
	}
}

// take reports whether the record changed what is known.
func (w *Watcher) take(r *kgo.Record) bool {
	key := string(r.Key)
	if len(r.Value) == 0 {
		delete(w.known, key)
		return true
	}
	said, err := schemas.DecodeReport(r.Value)
	if err == nil && key == "" {
		err = errors.New("it has no key")
	}
	if err != nil {
		w.logger.Warn("a report is left out", "topic", w.topic, "offset", r.Offset, "error", err)
		return false
	}
	w.known[key] = said
	return true
}

func (w *Watcher) publish() {
	m := maps.Clone(w.known)
	w.now.Store(&m)
}
