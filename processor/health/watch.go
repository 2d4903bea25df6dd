package health

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// Watcher follows weir.health. Now may be called from any goroutine.
type Watcher struct {
	*stream.Advice
	clock func() time.Time

	standings map[string]route.Standing
	stepped   map[string]bool // in this turn, by a record

	now atomic.Pointer[route.Health]
}

// Watch reads topic up to its end as of now and returns a watcher that Run
// keeps up to date. When that cannot be done soon it says so in the log, and
// Run goes on: all providers count as well. opts reach the brokers; they must name
// no group. The error is one of opts.
func Watch(ctx context.Context, topic string, logger *slog.Logger, opts ...kgo.Opt) (*Watcher, error) {
	w := &Watcher{clock: time.Now, standings: make(map[string]route.Standing), stepped: make(map[string]bool)}
	w.publish()
	w.Advice = &stream.Advice{Topic: topic, What: "the providers' health", Logger: logger, Take: w.take, Turned: w.turn}
	return w, w.Open(ctx, opts...)
}

// Now returns what is known. It must not be written to.
func (w *Watcher) Now() route.Health { return *w.now.Load() }

func (w *Watcher) take(r *kgo.Record) {
	h, err := decode(r)
	if err != nil {
		w.Logger.Warn("a record of the providers' health is left out", "topic", w.Topic, "offset", r.Offset, "error", err)
		return
	}
	now := schemas.MillisOf(w.clock())
	w.step(h.Provider, route.Take(w.standings[h.Provider].Lanes, h, now), now)
	w.stepped[h.Provider] = true
}

// turn concludes what follows from time alone.
func (w *Watcher) turn() {
	now := schemas.MillisOf(w.clock())
	for name, s := range w.standings {
		if !w.stepped[name] {
			w.step(name, s.Lanes, now)
		}
	}
	clear(w.stepped)
	w.publish()
}

func (w *Watcher) step(name string, lanes []schemas.Health, now schemas.Millis) {
	was := w.standings[name]
	next := route.Step(was, lanes, now)
	if a, b := was.Best(now), next.Best(now); a != b || was.Degraded != next.Degraded {
		calls, failures := next.Figures(now)
		w.Logger.Info("a provider's share of its weight changes", "provider", name, "was", was.Word(now), "is", next.Word(now), "degraded", next.Degraded, "calls", calls, "failures", failures)
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
