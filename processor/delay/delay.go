// Package delay lets records wait. Each delay topic is one tier: whatever is
// appended to it returns exactly the tier's time after its append. So the head
// of a partition is always the next one due, and one timer a partition is all
// the state there is: a partition whose head must wait is paused. Longer waits
// are hops through several tiers, chosen by weir-due-at; they cost one write a
// hop and no memory. docs/delay.md says how late what returns can be, and how
// many writes a wait costs.
//
// Nothing returns before it is due by the broker's clock: see keepTime.
//
// It never looks at what waits, and decides nothing: whatever is due goes back
// to the topic that its header names.
package delay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/request"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Config is what the delay stage needs to run.
type Config struct {
	Stream          stream.Config // brokers, transactional id; topics and group are set here
	Names           topics.Names
	Partitions      int32 // N, of weir.readmit
	DelayPartitions int32 // of each delay topic
	DLQPartitions   int32
	// Returns are the topics that take what waited, with their partitions, beside
	// weir.readmit.
	Returns map[string]int32
	Now     func() time.Time
	Logger  *slog.Logger
	Metrics prometheus.Registerer // nil: not counted
}

// Group is the consumer group of the delay stage under a prefix.
func Group(names topics.Names) string { return names.Delay("all") }

// fetchBytes bounds what is read ahead of a partition's timer, and so the
// memory of the stage whatever waits.
const fetchBytes = 256 << 10

// fetchWait bounds how long a resumed partition waits for the fetch that was
// under way without it, and so how late a record can be for that.
const fetchWait = 50 * time.Millisecond

// readAhead is how long before the last of what is held is due its partition is
// read on. A fetch that begins only when all has returned would be late for what
// comes next. Under a steady flow it is that much more that is held.
const readAhead = 250 * time.Millisecond

// holdFor is how much longer than its tier a record may be held at the head of its
// partition when that spares it another hop, and so how late it makes what is
// behind it. A clock that is a little ahead where the record was written would
// otherwise cost a write and a second.
const holdFor = 50 * time.Millisecond

// maxWait is longer than anything waits: requests are scheduled for 31 days at most,
// and no window is longer than a year.
const maxWait = 400 * 24 * time.Hour

// commitEvery bounds a transaction while a backlog is returned.
const commitEvery = 100 * time.Millisecond

// Run returns what is due until ctx ends.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Stream.Group = Group(cfg.Names)
	cfg.Stream.Topics = nil
	for _, t := range topics.Tiers {
		cfg.Stream.Topics = append(cfg.Stream.Topics, cfg.Names.Delay(t.Name))
	}
	cfg.Stream.FetchMaxPartitionBytes = fetchBytes
	cfg.Stream.FetchMaxWait = fetchWait
	cfg.Stream.Logger = cfg.Logger
	m, at := newMetrics(cfg.Metrics), new(places)
	var counting sync.WaitGroup
	defer counting.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if cfg.Metrics != nil {
		counting.Go(func() { m.count(ctx, cfg, at) })
	}
	if err := stream.Run(ctx, cfg.Stream, nil, func(f stream.Fetching) stream.Stage {
		return newStage(cfg, f, m, at)
	}); err != nil {
		return fmt.Errorf("delay: %w", err)
	}
	return nil
}

// queue is one partition of one tier: what was read of it and waits.
type queue struct {
	wait   time.Duration
	held   []held // in append order, so the first is the next due
	next   int64  // offset to read next
	base   int64  // committed: everything below has returned
	done   int64  // everything below returns with the open transaction
	paused bool
	empty  schemas.Millis // since when nothing is held; 0 when something is
}

// last is when the last of what is held is due; 0 when nothing is.
func (q *queue) last() schemas.Millis {
	if len(q.held) == 0 {
		return 0
	}
	return q.held[len(q.held)-1].due
}

// held is a record that waits.
type held struct {
	rec *kgo.Record
	due schemas.Millis // of this hop
	key string
	to  string         // the topic to which it returns
	end schemas.Millis // when it is to return
	err error          // why it is no record of Weir's
}

type stage struct {
	cfg      Config
	fetching stream.Fetching
	metrics  *metrics
	places   *places
	queues   map[stream.Partition]*queue
	clock    *clock
	known    bool                      // whether the clock was compared
	checked  schemas.Millis            // when it was last, by itself
	pushed   time.Duration             // by how much it was moved forward since, for what was read
	apart    time.Duration             // how far a broker that is written to was found to be behind one that is read
	wrote    map[stream.Partition]bool // by the latest release of the open transaction
	wroteAt  schemas.Millis            // when that was, by the clock
	placed   schemas.Millis            // when places were last handed over
	aside    []*kgo.Record             // put aside by the open transaction
}

func newStage(cfg Config, f stream.Fetching, m *metrics, at *places) *stage {
	return &stage{cfg: cfg, fetching: f, metrics: m, places: at, clock: newClock(cfg.Now),
		queues: make(map[stream.Partition]*queue), wrote: make(map[stream.Partition]bool)}
}

// Assign begins anew: nothing but the group's offsets is state here.
func (s *stage) Assign(_ context.Context, committed map[stream.Partition]stream.Position) (map[stream.Partition]int64, error) {
	s.clear()
	for tp, pos := range committed {
		tier, ok := s.cfg.Names.TierOf(tp.Topic)
		if !ok {
			return nil, fmt.Errorf("%s is no delay topic", tp.Topic)
		}
		s.queues[tp] = &queue{wait: tier.Wait, next: pos.Offset, base: pos.Offset, done: pos.Offset, empty: s.clock.now()}
		s.fetching.Resume(tp)
	}
	return nil, nil
}

func (s *stage) Revoke() { s.clear() }

// clear forgets all that is held, and takes the machine's clock as it is now: it
// may have been put right meanwhile.
func (s *stage) clear() {
	clear(s.queues)
	s.places.set(nil)
	s.clock, s.known, s.placed = newClock(s.cfg.Now), false, 0
	s.pushed, s.apart = 0, 0
	s.metrics.moved.Set(0)
	s.metrics.lag.Set(0)
}

// Wait lasts until the next head is due, or a partition is to be read on.
func (s *stage) Wait() time.Duration {
	wait := time.Second
	now := s.clock.now()
	for _, q := range s.queues {
		if len(q.held) > 0 {
			wait = min(wait, q.held[0].due.Add(margin).Sub(now))
			if q.paused {
				wait = min(wait, q.last().Add(-readAhead).Sub(now))
			}
		}
	}
	return max(wait, 0)
}

// Step returns whatever is due.
func (s *stage) Step(ctx context.Context, tx *stream.Tx, polled []*kgo.Record) error {
	clear(s.wrote)
	s.aside = nil // of a step without a transaction
	late := time.Duration(0)
	for began := time.Now(); ; polled = tx.More() {
		s.take(polled)
		l, err := s.release(tx)
		if err != nil {
			return err
		}
		late = max(late, l)
		if len(polled) == 0 || !s.known || time.Since(began) > commitEvery {
			break
		}
	}
	s.metrics.lag.Set(late.Seconds())
	now := s.clock.now()
	for tp, q := range s.queues {
		switch enough := q.last().Add(-readAhead) > now; {
		case enough && !q.paused:
			s.fetching.Pause(tp)
			q.paused = true
		case !enough && q.paused:
			s.fetching.Resume(tp)
			q.paused = false
		}
	}
	s.place()
	return s.keepTime(ctx, tx)
}

// place hands over where the stage stands, once a second.
func (s *stage) place() {
	now := s.clock.now()
	if s.placed != 0 && s.placed <= now && now.Sub(s.placed) < time.Second {
		return
	}
	s.placed = now
	at := make(map[stream.Partition]place, len(s.queues))
	for tp, q := range s.queues {
		at[tp] = place{at: max(q.done, 0), empty: q.empty}
	}
	s.places.set(at)
}

// take queues what was read. After an abort the client reads again what it
// had already handed over.
func (s *stage) take(polled []*kgo.Record) {
	for _, r := range polled {
		q := s.queues[stream.Partition{Topic: r.Topic, Partition: r.Partition}]
		if q == nil || r.Offset < q.next {
			continue
		}
		if q.base < 0 {
			q.base, q.done = r.Offset, r.Offset
		}
		env, err := s.envelope(r)
		appended := schemas.MillisOf(r.Timestamp)
		// It was appended before it was read. Where its broker is ahead of one to which
		// things return, going by it would have them return early, again and again.
		if behind := appended.Sub(s.clock.now()) - s.apart; behind > 0 {
			s.move(behind, false)
			s.pushed += behind
		}
		due := dueOf(appended, q.wait, env.DueAt)
		q.held = append(q.held, held{rec: r, due: due, key: env.Key, to: env.Return, end: env.DueAt, err: err})
		q.next, q.empty = r.Offset+1, 0
	}
}

// dueOf returns when a hop ends that began with the append to a tier: after the
// tier's wait, or at the time that the record itself is due if that is just
// after.
func dueOf(appended schemas.Millis, wait time.Duration, due schemas.Millis) schemas.Millis {
	end := appended.Add(wait)
	if due > end && due <= end.Add(holdFor) {
		return due
	}
	return end
}

// release sends every record whose time has come, and returns by how much the
// latest of them is late. While the clock was never compared it sends one.
func (s *stage) release(tx *stream.Tx) (late time.Duration, err error) {
	now := s.clock.now()
	for tp, q := range s.queues {
		n := 0
		for ; n < len(q.held) && (s.known || len(s.wrote) == 0); n++ {
			h := &q.held[n]
			if now < h.due.Add(margin) {
				break
			}
			late = max(late, now.Sub(h.due))
			if why := tx.On(h.rec); why != nil {
				h.err = why
			}
			out := s.onward(h, now)
			if now != s.wroteAt {
				clear(s.wrote)
				s.wroteAt = now
			}
			s.wrote[stream.Partition{Topic: out.Topic, Partition: out.Partition}] = true
			tx.Produce(out)
			q.done = h.rec.Offset + 1
		}
		if n == 0 && len(q.held) > 0 {
			continue
		}
		rest := copy(q.held, q.held[n:])
		clear(q.held[rest:]) // or their batches stay in memory
		q.held = q.held[:rest]
		if rest == 0 {
			if n > 0 {
				q.empty = now
			}
			q.done = tx.Past(tp, q.done)
			q.next = max(q.next, q.done)
		}
		if q.done != q.base {
			tx.Stand(tp, stream.Position{Offset: q.done})
		}
	}
	return late, nil
}

// envelope reads of a record's headers when and where to it returns.
func (s *stage) envelope(r *kgo.Record) (env schemas.Envelope, err error) {
	for _, h := range r.Headers {
		switch h.Key {
		case schemas.HeaderReturn, schemas.HeaderDueAt, schemas.HeaderKey:
			if err := env.Set(h.Key, string(h.Value)); err != nil {
				return env, err
			}
		}
	}
	if _, ok := s.cfg.Returns[env.Return]; !ok && env.Return != s.cfg.Names.Readmit() {
		return env, fmt.Errorf("returns to %.200q, which is no topic that takes what waited", env.Return)
	}
	if wait := env.DueAt.Sub(schemas.MillisOf(r.Timestamp)); wait > maxWait {
		return env, fmt.Errorf("waits until %s: nothing waits for more than %d days", env.DueAt, maxWait/(24*time.Hour))
	}
	return env, nil
}

// onward makes the record's next hop, or sends it back where it came from.
// It is never early: while any of its time is left it takes another hop. One that
// does not say where to it returns is no record of Weir's, and goes to the DLQ.
func (s *stage) onward(h *held, now schemas.Millis) *kgo.Record {
	if h.err != nil {
		if _, ours := errors.AsType[*stream.Poison](h.err); !ours {
			s.aside = append(s.aside, h.rec)
		}
		return request.Foreign(h.rec, s.cfg.Names.DLQ(), max(s.cfg.DLQPartitions, 1), h.err)
	}
	out := &kgo.Record{Key: h.rec.Key, Value: h.rec.Value, Headers: h.rec.Headers}
	if left := h.end.Sub(now); left > -margin {
		out.Topic = s.cfg.Names.Delay(topics.TierFor(left).Name)
		out.Partition = schemas.PartitionOf(h.key, s.cfg.DelayPartitions)
		return out
	}
	partitions, ok := s.cfg.Returns[h.to]
	if !ok {
		partitions = s.cfg.Partitions // of weir.readmit
	}
	out.Topic, out.Partition = h.to, schemas.PartitionOf(h.key, partitions)
	return out
}

// Ended keeps what returned, or goes back to what the group has committed.
func (s *stage) Ended(committed bool) {
	for _, r := range s.aside {
		if !committed {
			break
		}
		s.metrics.dead.WithLabelValues(schemas.ReasonForeignRecord).Inc()
		s.metrics.foreign.Met(s.cfg.Logger, "a record that Weir did not write is put aside; its bytes are in the DLQ. Let no one else write to this topic",
			"topic", r.Topic, "partition", r.Partition, "offset", r.Offset)
	}
	s.aside = nil
	back := make(map[stream.Partition]int64)
	for tp, q := range s.queues {
		if committed {
			q.base = q.done
			continue
		}
		if q.base >= 0 {
			back[tp] = q.base
		}
		q.held, q.next, q.done, q.empty = nil, q.base, q.base, s.clock.now()
		if q.paused {
			s.fetching.Resume(tp)
			q.paused = false
		}
	}
	if len(back) > 0 {
		s.fetching.Rewind(back)
	}
}
