package delay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// clock is this machine's time, put right by the broker's. Elapsed time is
// monotonic: a step of the wall clock moves nothing.
type clock struct {
	read   func() time.Time
	anchor time.Time
	moved  time.Duration // by how much it was put right; below zero it was ahead
}

func newClock(read func() time.Time) *clock { return &clock{read: read, anchor: read()} }

func (c *clock) now() schemas.Millis {
	return schemas.MillisOf(c.anchor.Add(c.read().Sub(c.anchor)).Add(c.moved))
}

const (
	// margin is by how much everything is released after it is due, and by how
	// much the clock may be ahead of the broker's: so nothing that returns is
	// appended before it was due.
	margin = 5 * time.Millisecond
	// clockEvery is how often the clocks are compared under load.
	clockEvery = time.Second
	// speaksFrom is how far the clock must be moved to be worth a warning.
	speaksFrom = 100 * time.Millisecond
)

// errClockAhead aborts a transaction that returned something early.
var errClockAhead = errors.New("this machine's clock is ahead of the broker's: what waits is held by the difference")

// comparison is what one append says of two clocks: at, by the broker's, lies
// between before and after, by this machine's.
type comparison struct{ before, at, after schemas.Millis }

// compare says by how much to move the clock, and whether something was released
// early by the broker's. That the clock is ahead by before-at is certain; that it
// is ahead by after-at at most is, too. One that was never compared is set
// back by the latter, and never ahead from then on; when a later comparison finds
// it further behind for certain, it moves forward. Of several brokers, the one
// furthest behind counts.
func compare(known bool, all []comparison) (move time.Duration, early bool) {
	least, most := all[0].before.Sub(all[0].at), all[0].after.Sub(all[0].at)
	for _, c := range all[1:] {
		least, most = max(least, c.before.Sub(c.at)), max(most, c.after.Sub(c.at))
	}
	early = least > margin
	if early || !known && most > margin || most < 0 {
		move = -most
	}
	return move, early
}

// keepTime compares the clock by which the open transaction released with the
// broker's time of the append of what it wrote (KIP-734). What was early by that
// must not commit: it waits by the difference. Until the first comparison of an
// assignment one record is released, no more.
func (s *stage) keepTime(ctx context.Context, tx *stream.Tx) error {
	if len(s.wrote) == 0 || s.vouched() {
		return nil
	}
	topic := s.comparable()
	appended, err := s.appended(ctx, tx, topic)
	if err != nil {
		return fmt.Errorf("compare clocks: %w", err)
	}
	after := s.clock.now()
	var all []comparison
	for tp := range s.wrote {
		if at, ok := appended[tp.Partition]; ok && tp.Topic == topic {
			all = append(all, comparison{s.wroteAt, at, after})
		}
	}
	if len(all) == 0 {
		// Its broker did not say. Nothing is returned without a comparison.
		tx.Abort(fmt.Errorf("compare clocks: no append time of %s", topic))
		return nil
	}
	move, early := compare(s.known, all)
	s.move(move, early)
	if early {
		s.apart += min(s.pushed, -move)
	}
	s.known, s.checked, s.pushed = true, s.clock.now(), 0
	if early {
		tx.Abort(fmt.Errorf("%w (by %v)", errClockAhead, -move))
	}
	return nil
}

// appended returns an append time of each partition of topic that was written to
// last: the latest, or where its broker does not say, the first since that release,
// or since further back. What is only found further back was early.
func (s *stage) appended(ctx context.Context, tx *stream.Tx, topic string) (map[int32]schemas.Millis, error) {
	var wrote []int32
	for tp := range s.wrote {
		if tp.Topic == topic {
			wrote = append(wrote, tp.Partition)
		}
	}
	times, err := tx.Appended(ctx, topic, wrote)
	if err != nil {
		return nil, err
	}
	for back := margin; back < time.Hour; back = max(time.Second, 2*back) { // no further than needed: others wrote before
		missing := false
		for tp := range s.wrote {
			if _, ok := times[tp.Partition]; !ok && tp.Topic == topic {
				missing = true
			}
		}
		if !missing {
			break
		}
		since, err := tx.AppendedSince(ctx, topic, s.wroteAt.Add(-back))
		if err != nil {
			return nil, err
		}
		for p, at := range since {
			if _, ok := times[p]; !ok {
				times[p] = at
			}
		}
	}
	return times, nil
}

// comparable is a topic that the open transaction wrote to.
func (s *stage) comparable() (topic string) {
	for tp := range s.wrote {
		if topic = tp.Topic; topic == s.cfg.Names.Readmit() {
			break
		}
	}
	return topic
}

// move puts the clock right. That it is set back because a slow append did not tell
// closely is not worth a warning.
func (s *stage) move(by time.Duration, early bool) {
	s.clock.moved += by
	s.metrics.moved.Set(s.clock.moved.Seconds())
	switch {
	case early && by <= -speaksFrom:
		s.cfg.Logger.Warn(errClockAhead.Error(), "ahead", -by)
	case by >= speaksFrom:
		s.cfg.Logger.Warn("this machine's clock is behind the broker's: going by the broker's", "behind", by)
	}
}

// vouched reports whether the last comparison still speaks for the clock. It
// asks the clock that releases, so that a step of it ends what it is good for.
func (s *stage) vouched() bool {
	now := s.clock.now()
	return s.known && s.checked <= now && now < s.checked.Add(clockEvery)
}
