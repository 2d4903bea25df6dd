package input

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/request"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// commitEvery bounds a transaction under load. Idle, it commits at once.
const commitEvery = 100 * time.Millisecond

// stage is one input as a stream.Stage: the transaction around passing records on.
type stage struct {
	cfg     Config
	adm     *kadm.Client
	topic   string
	door    door
	metrics *metrics

	at   map[stream.Partition]*place // of what is assigned
	open map[string]int              // records of the open transaction, by why they were refused; "" passed
}

// place is where the stage stands in a partition.
type place struct {
	base int64 // as committed
	next int64 // everything below is passed on with the open transaction
	told bool  // the group has base
}

// Assign begins where the group stands, or at the start of the topic. The group
// is told of that at once: who has no position later has never been read, or its
// position is lost.
func (s *stage) Assign(ctx context.Context, committed map[stream.Partition]stream.Position) (map[stream.Partition]int64, error) {
	s.Revoke()
	s.metrics.met.Ended(false)
	starts := make(map[stream.Partition]int64)
	for tp, pos := range committed {
		if pos.Offset < 0 {
			starts[tp] = -1
		}
		s.at[tp] = &place{base: pos.Offset, next: pos.Offset, told: pos.Offset >= 0}
	}
	if len(starts) == 0 {
		return nil, nil
	}
	all, err := s.adm.ListStartOffsets(ctx, s.topic)
	if err == nil {
		err = all.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("find the start of %s: %w", s.topic, err)
	}
	for tp := range starts {
		o, ok := all.Lookup(tp.Topic, tp.Partition)
		if !ok {
			return nil, fmt.Errorf("find the start of %s/%d: the broker does not say", tp.Topic, tp.Partition)
		}
		starts[tp], s.at[tp].base, s.at[tp].next = o.Offset, o.Offset, o.Offset
	}
	return starts, nil
}

func (s *stage) Revoke() {
	s.at = make(map[stream.Partition]*place)
	clear(s.open)
	s.metrics.lag.Set(0)
}

// Wait is long: what this stage does is caused by records, but for telling the
// group where it begins.
func (s *stage) Wait() time.Duration {
	for _, p := range s.at {
		if !p.told {
			return 10 * time.Millisecond
		}
	}
	return time.Second
}

// Step passes on what was polled and, as long as more is there, goes on until it is
// time to commit.
func (s *stage) Step(_ context.Context, tx *stream.Tx, polled []*kgo.Record) error {
	if len(polled) == 0 {
		s.metrics.lag.Set(0)
	}
	pol := &s.cfg.Policy.Latest().Policy
	for began := time.Now(); len(polled) > 0; polled = tx.More() {
		now := schemas.MillisOf(s.cfg.Now())
		for _, r := range polled {
			if err := s.take(tx, r, pol, now); err != nil {
				return err
			}
		}
		if time.Since(began) >= commitEvery {
			break
		}
	}
	for tp, p := range s.at {
		if p.next = tx.Past(tp, p.next); p.next != p.base || !p.told {
			tx.Stand(tp, stream.Position{Offset: p.next})
		}
	}
	return nil
}

// take passes one record on, or ends it.
func (s *stage) take(tx *stream.Tx, r *kgo.Record, pol *schemas.Policy, now schemas.Millis) error {
	p := s.at[stream.Partition{Topic: r.Topic, Partition: r.Partition}]
	if p == nil {
		return fmt.Errorf("record of %s/%d, which was not assigned", r.Topic, r.Partition)
	}
	if r.Offset < p.next {
		return stream.Fatal(fmt.Errorf("%s/%d: offset %d came after %d", r.Topic, r.Partition, r.Offset, p.next-1))
	}
	var out []*kgo.Record
	var refused string
	switch why := tx.On(r); {
	case why == nil:
		out, refused = s.door.pass(r, pol, now)
	case why.Batch: // a batch that was not read: of its requests nothing is known
		out, refused = []*kgo.Record{request.Foreign(r, s.door.names.DLQ(), s.door.dlq, why)}, why.Reason
	default:
		out, refused = s.door.refuse(r, pol, now, why)
	}
	for _, rec := range out {
		tx.Produce(rec)
	}
	s.open[refused]++
	s.metrics.lag.Set(max(now.Sub(appended(r)), 0).Seconds())
	p.next = r.Offset + 1
	return nil
}

// Resilient: Ended goes back to where the stage stood.
func (s *stage) Resilient() {}

// Ended keeps where the stage stands; after an abort it is handed all since then
// again.
func (s *stage) Ended(committed bool) {
	for _, p := range s.at {
		if committed {
			p.base, p.told = p.next, true
		} else {
			p.next = p.base
		}
	}
	if committed {
		s.metrics.passed(s.topic, s.open)
	}
	s.metrics.met.Ended(committed)
	clear(s.open)
}
