package backtest

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/weirhq/weir/schemas"
)

// together replays all partitions in one order: by time, but no step before the
// one that caused it. Partitions' clocks differ by up to two seconds, so an
// owner's answer may have an earlier time than its question.
func (x *engine) together(ctx context.Context, feeds []feed) error {
	g, gctx := errgroup.WithContext(ctx)
	queues := make([]*queue, len(feeds))
	for n, f := range feeds {
		q := &queue{in: make(chan []step, 2)}
		queues[n] = q
		g.Go(func() error {
			defer close(q.in)
			var chunk []step
			hand := func() error {
				if len(chunk) == 0 {
					return nil
				}
				select {
				case q.in <- chunk:
					chunk = make([]step, 0, chunkSteps)
					return nil
				case <-gctx.Done():
					return context.Cause(gctx)
				}
			}
			err := f(gctx, func(s *step) error {
				if chunk = append(chunk, *s); len(chunk) >= chunkSteps {
					return hand()
				}
				return nil
			})
			return errors.Join(err, hand())
		})
	}
	g.Go(func() error {
		m := merger{x: x, queues: queues, caused: make(map[effect]struct{})}
		return m.run(gctx)
	})
	return g.Wait()
}

// chunkSteps is how many steps a partition reads ahead at once.
const chunkSteps = 512

// queue is what was read of a partition and is not replayed yet.
type queue struct {
	in    chan []step
	chunk []step
	over  bool
	first *step // the next one, once it was looked at
	free  bool  // it waits for no other
}

// head returns the next step; nil at the end.
func (q *queue) head(ctx context.Context) (*step, error) {
	for len(q.chunk) == 0 && !q.over {
		select {
		case c, ok := <-q.in:
			q.chunk, q.over = c, !ok
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if q.over {
		return nil, nil
	}
	return &q.chunk[0], nil
}

// merger chooses whose step is next.
type merger struct {
	x      *engine
	queues []*queue
	caused map[effect]struct{} // the next steps of rounds, whose cause was replayed
}

// effect is a step that another one causes: of a message, in a partition.
type effect struct {
	key  messageKey
	part int32
}

// skew is more than the times of two partitions differ. What has not been caused
// so long after its own time was caused by what is not there.
const skew = 5000 // ms

func (m *merger) run(ctx context.Context) error {
	for {
		next, blocked := -1, -1
		var at, blockedAt schemas.Millis
		for n, q := range m.queues {
			s := q.first
			if s == nil && !q.over {
				var err error
				if s, err = q.head(ctx); err != nil {
					return err
				}
				q.first, q.free = s, false
			}
			if s == nil {
				continue
			}
			if !q.free {
				q.free = m.free(s)
			}
			switch {
			case !q.free:
				if blocked < 0 || s.t < blockedAt {
					blocked, blockedAt = n, s.t
				}
			case next < 0 || s.t < at:
				next, at = n, s.t
			}
		}
		if blocked >= 0 && (next < 0 || blockedAt+skew < at) {
			next = blocked
		}
		if next < 0 {
			return nil
		}
		q := m.queues[next]
		m.effects(q.first)
		if err := m.x.parts[next].take(q.first); err != nil {
			return err
		}
		q.chunk, q.first = q.chunk[1:], nil
	}
}

// free reports whether what caused a step has been replayed.
func (m *merger) free(s *step) bool {
	switch s.kind {
	case stepOwner, stepRecordOwner:
		_, is := m.caused[effect{s.key, s.part}]
		return is
	case stepOwed:
		l := m.x.parts[s.home].lives.find(s.key)
		return l == nil || l.path != pathSame || l.owes(s.part) || !l.asking && !l.stands(s.part, int32(len(m.queues)))
	case stepAsk, stepOnward, stepPark, stepEnd:
		l := m.x.parts[s.home].lives.find(s.key)
		if l == nil || !l.asking {
			return true
		}
		_, is := m.caused[effect{s.key, s.part}] // it is on its way round
		return is
	case stepNothing, stepGiveBack, stepDone, stepRecord, stepMarker, stepLeave:
	}
	return true
}

// effects notes what a step that is replayed now causes elsewhere.
func (m *merger) effects(s *step) {
	if s.kind == stepOnward || s.kind == stepOwner || s.kind == stepAsk || s.kind == stepPark || s.kind == stepEnd || s.kind == stepRecordOwner {
		delete(m.caused, effect{s.key, s.part})
	}
	if s.onward >= 0 {
		m.caused[effect{s.key, s.onward}] = struct{}{}
	}
}
