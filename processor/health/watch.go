package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/schemas"
)

const (
	patience = 3 * time.Second // for the topic's end at the start: then it is followed from behind
	stepping = time.Second     // how often time alone moves what is concluded
	errorGap = 10 * time.Second
)

// Watcher follows weir.health. Now may be called from any goroutine.
type Watcher struct {
	cl     *kgo.Client
	topic  string
	logger *slog.Logger
	clock  func() time.Time

	// Of the goroutine in Watch, then Run.
	standings map[string]route.Standing
	next      int64
	complain  time.Time // not before

	now atomic.Pointer[route.Health]
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
		kgo.KeepControlRecords(), // the last record is a transaction's marker, as a rule: to see that it was reached
	)...)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", topic, err)
	}
	w := &Watcher{cl: cl, topic: topic, logger: logger, clock: time.Now, standings: make(map[string]route.Standing)}
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
			// What is left may have been compacted away.
			break
		}
	}
	if err != nil {
		logger.Warn("the providers' health is not known yet: all count as well", "topic", topic, "error", err)
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

// Now returns what is known. It must not be written to.
func (w *Watcher) Now() route.Health { return *w.now.Load() }

// poll takes what is there, or waits a moment for it, and concludes.
func (w *Watcher) poll(ctx context.Context) {
	waiting, cancel := context.WithTimeout(ctx, stepping)
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
		if now := w.clock(); !now.Before(w.complain) {
			w.complain = now.Add(errorGap)
			w.logger.Warn("reading the providers' health failed; what is known stays", "topic", w.topic, "error", err)
		}
	})
	now := schemas.MillisOf(w.clock())
	stepped := make(map[string]bool)
	fetches.EachRecord(func(r *kgo.Record) {
		w.next = r.Offset + 1
		if r.Attrs.IsControl() {
			return
		}
		h, err := decode(r)
		if err != nil {
			w.logger.Warn("a record of the providers' health is left out", "topic", w.topic, "offset", r.Offset, "error", err)
			return
		}
		was := w.standings[h.Provider]
		w.step(h.Provider, route.Take(was.Lanes, h, now), now)
		stepped[h.Provider] = true
	})
	for name, s := range w.standings {
		if !stepped[name] {
			w.step(name, s.Lanes, now)
		}
	}
	w.publish()
	if failed {
		<-waiting.Done() // no faster than the clock
	}
}

func (w *Watcher) step(name string, lanes []schemas.Health, now schemas.Millis) {
	was := w.standings[name]
	next := route.Step(was, lanes, now)
	if a, b := was.Best(now), next.Best(now); a != b || was.Degraded != next.Degraded {
		calls, failures := next.Figures(now)
		w.logger.Info("a provider's share of its weight changes", "provider", name, "was", a.String(), "is", b.String(), "degraded", next.Degraded, "calls", calls, "failures", failures)
	}
	if len(lanes) == 0 {
		delete(w.standings, name)
		return
	}
	w.standings[name] = next
}

func (w *Watcher) publish() {
	h := route.Health(maps.Clone(w.standings))
	w.now.Store(&h)
}

// decode reads a record; of a tombstone only the key.
func decode(r *kgo.Record) (schemas.Health, error) {
	if len(r.Value) > 0 {
		return schemas.DecodeHealth(r.Value)
	}
	name, lane, ok := cutLast(string(r.Key), "/")
	n, err := strconv.ParseInt(lane, 10, 32)
	if !ok || err != nil {
		return schemas.Health{}, fmt.Errorf("a tombstone's key %q names no provider and lane", r.Key)
	}
	return schemas.Health{Provider: name, Lane: int32(n)}, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
