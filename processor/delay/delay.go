// Package delay lets records wait. Each delay topic is one tier: whatever is
// appended to it returns exactly the tier's time after its append. So the head
// of a partition is always the next one due, and one timer a partition is all
// the state there is: a partition whose head must wait is paused. Longer waits
// are hops through several tiers, chosen by weir-due-at; they cost one write a
// hop and no memory.
//
// It never looks at what waits, and decides nothing: whatever is due goes back
// to the topic that its header names.
package delay

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

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
	Now             func() time.Time
	Logger          *slog.Logger
}

// Group is the consumer group of the delay stage under a prefix.
func Group(names topics.Names) string { return names.Delay("all") }

// fetchBytes bounds what is read ahead of a partition's timer, and so the
// memory of the stage whatever waits.
const fetchBytes = 256 << 10

// fetchWait bounds how long a resumed partition waits for the fetch that was
// under way without it, and so how late a record can be for that.
const fetchWait = 50 * time.Millisecond

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
	if err := stream.Run(ctx, cfg.Stream, nil, func(f stream.Fetching) stream.Stage {
		return &stage{cfg: cfg, fetching: f, queues: make(map[stream.Partition]*queue)}
	}); err != nil {
		return fmt.Errorf("delay: %w", err)
	}
	return nil
}

// queue is one partition of one tier: what was read of it and waits.
type queue struct {
	wait    time.Duration
	records []*kgo.Record // in append order, so the first is the next due
	next    int64         // offset to read next
	base    int64         // committed: everything below has returned
	done    int64         // everything below returns with the open transaction
	paused  bool
}

// due returns when the head returns.
func (q *queue) due() time.Time { return q.records[0].Timestamp.Add(q.wait) }

type stage struct {
	cfg      Config
	fetching stream.Fetching
	queues   map[stream.Partition]*queue
}

// Assign begins anew: nothing but the group's offsets is state here.
func (s *stage) Assign(_ context.Context, committed map[stream.Partition]stream.Position) (map[stream.Partition]int64, error) {
	clear(s.queues)
	for tp, pos := range committed {
		tier, ok := s.cfg.Names.TierOf(tp.Topic)
		if !ok {
			return nil, fmt.Errorf("%s is no delay topic", tp.Topic)
		}
		s.queues[tp] = &queue{wait: tier.Wait, next: pos.Offset, base: pos.Offset, done: pos.Offset}
		s.fetching.Resume(tp)
	}
	return nil, nil
}

func (s *stage) Revoke() { clear(s.queues) }

// Wait lasts until the next head is due.
func (s *stage) Wait() time.Duration {
	wait := time.Second
	now := s.cfg.Now()
	for _, q := range s.queues {
		if len(q.records) > 0 {
			wait = min(wait, q.due().Sub(now))
		}
	}
	return max(wait, 0)
}

// Step returns whatever is due.
func (s *stage) Step(_ context.Context, tx *stream.Tx, polled []*kgo.Record) error {
	for began := time.Now(); ; polled = tx.More() {
		s.take(polled)
		if err := s.release(tx); err != nil {
			return err
		}
		if len(polled) == 0 || time.Since(began) > commitEvery {
			break
		}
	}
	for tp, q := range s.queues {
		switch waiting := len(q.records) > 0; {
		case waiting && !q.paused:
			s.fetching.Pause(tp)
			q.paused = true
		case !waiting && q.paused:
			s.fetching.Resume(tp)
			q.paused = false
		}
	}
	return nil
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
		q.records = append(q.records, r)
		q.next = r.Offset + 1
	}
}

// release sends every record whose time has come.
func (s *stage) release(tx *stream.Tx) error {
	now := s.cfg.Now()
	for tp, q := range s.queues {
		n := 0
		for ; n < len(q.records); n++ {
			r := q.records[n]
			if now.Before(r.Timestamp.Add(q.wait)) {
				break
			}
			out, err := s.onward(r, schemas.MillisOf(now))
			if err != nil {
				return stream.Fatal(fmt.Errorf("%s/%d offset %d: %w", r.Topic, r.Partition, r.Offset, err))
			}
			tx.Produce(out)
			q.done = r.Offset + 1
		}
		if n > 0 {
			q.records = append(q.records[:0], q.records[n:]...)
			tx.Stand(tp, stream.Position{Offset: q.done})
		}
	}
	return nil
}

// onward makes the record's next hop, or sends it back where it came from.
// It is never early: while any of its time is left it takes another hop.
func (s *stage) onward(r *kgo.Record, now schemas.Millis) (*kgo.Record, error) {
	var env schemas.Envelope
	for _, h := range r.Headers {
		switch h.Key {
		case schemas.HeaderReturn, schemas.HeaderDueAt, schemas.HeaderKey:
			if err := env.Set(h.Key, string(h.Value)); err != nil {
				return nil, err
			}
		}
	}
	if env.Return != s.cfg.Names.Readmit() {
		return nil, fmt.Errorf("returns to %q, which is no topic that takes what waited", env.Return)
	}
	out := &kgo.Record{Key: r.Key, Value: r.Value, Headers: r.Headers}
	if left := env.DueAt.Sub(now); left > 0 {
		out.Topic = s.cfg.Names.Delay(topics.TierFor(left).Name)
		out.Partition = schemas.PartitionOf(env.Key, s.cfg.DelayPartitions)
		return out, nil
	}
	out.Topic = env.Return
	out.Partition = schemas.PartitionOf(env.Key, s.cfg.Partitions)
	return out, nil
}

// Ended keeps what returned, or goes back to what the group has committed.
func (s *stage) Ended(committed bool) {
	back := make(map[stream.Partition]int64)
	for tp, q := range s.queues {
		if committed {
			q.base = q.done
			continue
		}
		if q.base >= 0 {
			back[tp] = q.base
		}
		q.records, q.next, q.done = nil, q.base, q.base
		if q.paused {
			s.fetching.Resume(tp)
			q.paused = false
		}
	}
	if len(back) > 0 {
		s.fetching.Rewind(back)
	}
}
