package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// clock is the process's time. Elapsed time is monotonic: a step of the wall
// clock while this runs moves no decision.
type clock struct {
	read   func() time.Time
	anchor time.Time
	lifted time.Duration // by which it was found to be behind the broker's
}

func newClock(read func() time.Time) *clock { return &clock{read: read, anchor: read()} }

func (c *clock) now() schemas.Millis {
	return schemas.MillisOf(c.anchor.Add(c.read().Sub(c.anchor)).Add(c.lifted))
}

// lift moves the clock forward, until it is taken anew.
func (c *clock) lift(by time.Duration) { c.lifted += by }

// anew takes the wall clock as it is now.
func (c *clock) anew() { c.anchor, c.lifted = c.read(), 0 }

const (
	// clockTolerance is how far ahead of the broker's clock a decision may be
	// stamped (δ). Further ahead, places would stand longer than real time.
	// As far behind it, what waits would wait too long.
	clockTolerance = 2 * time.Second
	// clockEvery is how often the two clocks are compared under load; the first
	// transaction after an assignment is always checked.
	clockEvery = time.Second
)

// errClockAhead aborts a transaction that was stamped too far ahead.
var errClockAhead = errors.New("this machine's clock is ahead of the broker's: nothing is decided until it is put right")

// errClockBehind aborts a transaction that was stamped too far behind.
var errClockBehind = errors.New("this machine's clock is behind the broker's: deciding again at the broker's time")

// checkClock compares the time of the open transaction's decisions with the
// broker's append time of the ledger's own records, which have just been
// written. Behind it, a partition moves forward; by more than the tolerance, the
// clock does, and the transaction is aborted and decided again. Ahead of it by
// more than the tolerance, the transaction must not commit: checkClock aborts it,
// and the worker stalls and says so, rather than decide.
func (s *stage) checkClock(ctx context.Context, tx *stream.Tx) error {
	latest := schemas.Millis(0) // decision of the transaction
	for n := range s.touched {
		latest = max(latest, s.parts[n].cur.meta.T)
	}
	if s.vouched(latest) {
		return nil
	}
	appended, err := tx.Appended(ctx, s.env.names.Ledger())
	if err != nil {
		return fmt.Errorf("compare clocks: %w", err)
	}
	var (
		now        = s.clock.now() // later than all of it was appended
		worst, lag time.Duration   // of decisions
		last       schemas.Millis
	)
	for n := range s.touched {
		p := s.parts[n]
		at, ok := appended[n]
		if !ok {
			// Its broker did not say. Nothing is committed without a comparison.
			tx.Abort(fmt.Errorf("compare clocks: no append time of %s/%d", s.env.names.Ledger(), n))
			return nil
		}
		p.floor, last = max(p.floor, at), max(last, at)
		worst = max(worst, p.cur.meta.T.Sub(at))
		// A slow write is no lag: the clock must be behind as well.
		lag = max(lag, min(at.Sub(now), at.Sub(p.cur.meta.T)))
	}
	s.metrics.ahead.Set(worst.Seconds())
	// Also where these decisions are right because their partitions stand at the
	// log's time: another partition, without a log yet, would stand at the clock's.
	if behind := last.Sub(now); behind > clockTolerance {
		s.clock.lift(behind)
		now = now.Add(behind)
	}
	if lag > clockTolerance {
		tx.Abort(fmt.Errorf("%w (by %v)", errClockBehind, lag.Round(time.Millisecond)))
		return nil
	}
	if worst <= clockTolerance {
		// It may have stepped after the decisions: what speaks for later ones is
		// what was compared.
		s.checked, s.latest = now, latest
		s.tellClock(0)
		return nil
	}
	tx.Abort(fmt.Errorf("%w (by %v)", errClockAhead, worst.Round(time.Millisecond)))
	s.cfg.Logger.Error("stalled: "+errClockAhead.Error(), "ahead", worst.Round(time.Millisecond))
	s.stall()
	s.tellClock(worst)
	return nil
}

func (s *stage) tellClock(ahead time.Duration) {
	if s.cfg.Clock != nil {
		s.cfg.Clock(ahead)
	}
}

// vouched reports whether the last comparison still speaks for a transaction whose
// latest decision is stamped t. It asks the clock that stamps, so that a step of it
// in either direction ends what the comparison is good for.
func (s *stage) vouched(t schemas.Millis) bool {
	const every = schemas.Millis(clockEvery / time.Millisecond)
	now := s.clock.now()
	return s.checked != 0 && s.checked <= now && now < s.checked+every && t < s.latest+every
}

// stall stops reading for a while. The wall clock may be put right meanwhile,
// so it is taken anew.
func (s *stage) stall() {
	s.stalled = time.Now().Add(stallFor)
	s.fetch.Pause(s.inputs()...)
	s.clock.anew()
}

// stallFor is how long a stalled worker waits before it tries again.
const stallFor = time.Second

// resume reads on after a stall.
func (s *stage) resume() {
	if s.stalled.IsZero() || time.Now().Before(s.stalled) {
		return
	}
	s.stalled = time.Time{}
	s.fetch.Resume(s.inputs()...)
}

// inputs are the partitions that are read.
func (s *stage) inputs() (all []stream.Partition) {
	for n := range s.parts {
		all = append(all, s.requests(n), s.readmit(n))
	}
	return all
}
