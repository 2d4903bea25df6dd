package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// clock is the process's time. Elapsed time is monotonic: a step of the wall
// clock while this runs moves no decision.
type clock struct {
	read   func() time.Time
	anchor time.Time
}

func newClock(read func() time.Time) *clock { return &clock{read: read, anchor: read()} }

func (c *clock) now() schemas.Millis {
	return schemas.MillisOf(c.anchor.Add(c.read().Sub(c.anchor)))
}

// anew takes the wall clock as it is now.
func (c *clock) anew() { c.anchor = c.read() }

const (
	// clockTolerance is how far ahead of the broker's clock a decision may be
	// stamped (δ). Further ahead, places would stand longer than real time.
	// As far behind it, what waits would wait too long. Brokers whose clocks differ
	// by more are reported.
	clockTolerance = 2 * time.Second
	// lateMost is how long before the broker's append a decision may be stamped: the
	// time that a transaction may take. Later, a message would leave so long after its
	// place that windows no longer space messages. A loaded machine takes 1 to 2 s.
	lateMost = 5 * time.Second
	// readingHolds is how long a comparison says what a broker's clock shows.
	readingHolds = time.Minute
)

// errClockAhead aborts a transaction that was stamped too far ahead.
var errClockAhead = errors.New("this machine's clock is ahead of the broker's: nothing is decided until it is put right")

// errClockBehind aborts a transaction that was stamped too far behind.
var errClockBehind = errors.New("this machine's clock is behind the broker's: deciding again at the broker's time")

// errLate aborts a transaction that took too long to be written.
var errLate = errors.New("the broker appended decisions too long after they were taken: deciding again")

// errBrokersDiffer aborts a transaction of a partition whose leader's clock is behind
// another's.
var errBrokersDiffer = errors.New("the brokers' clocks differ: deciding again at the time of the partition's own leader")

// reading is what a comparison says of the clock of a partition's leader: it is between
// least and most ahead of this process's. The append was after the ledger's records were
// produced and before they were acknowledged, so a slow append widens the range, and
// moves nothing.
type reading struct {
	least, most time.Duration
	at          schemas.Millis // the append, by the leader's clock
	taken       schemas.Millis // by this process's
	leader      int32
}

// compare judges a partition's transaction by its leader's clock. Its decisions are
// stamped between first and last, by a clock that is lifted by lift; first is 0 if there
// are none. From the first until all was acknowledged it took so long, whatever the clock
// did meanwhile.
func (r *reading) compare(first, last schemas.Millis, lift, took time.Duration) (ahead, behind, late time.Duration) {
	ahead = last.Sub(r.at)
	if first == 0 {
		return ahead, 0, 0
	}
	// A slow write is no lag: the clock must be behind as well.
	behind = min(r.least-lift, r.at.Sub(last))
	// What was written to other topics was appended before it was acknowledged.
	late = max(r.at.Sub(first), took)
	return ahead, behind, late
}

// differ returns the partitions whose leaders' clocks differ most, and by how much at
// least. One leader alone shows nothing: ok is false.
func differ(readings map[int32]reading, now schemas.Millis) (fast, slow int32, by time.Duration, ok bool) {
	fast, slow = -1, -1
	for n, r := range readings {
		if r.taken.Add(readingHolds) < now {
			continue
		}
		ok = ok || fast >= 0 && r.leader != readings[fast].leader
		if fast < 0 || r.least > readings[fast].least {
			fast = n
		}
		if slow < 0 || r.most < readings[slow].most {
			slow = n
		}
	}
	if !ok {
		return fast, slow, 0, false
	}
	return fast, slow, max(0, readings[fast].least-readings[slow].most), true
}

// agree reports whether all clocks of which is known are the same, as far as can be told: no
// two leaders' can differ by more than the tolerance. Where a slow append leaves it open,
// clocks neither differ nor agree.
func agree(readings map[int32]reading, now schemas.Millis) bool {
	var least, most time.Duration
	first := true
	for _, r := range readings {
		if r.taken.Add(readingHolds) < now {
			continue
		}
		if first {
			least, most, first = r.least, r.most, false
		}
		least, most = min(least, r.least), max(most, r.most)
	}
	return most-least <= clockTolerance
}

// checkClock compares the times of the open transaction's decisions with the broker's
// append time of the ledger's own records, which have just been written: each partition
// with the clock of its own leader, before every commit. Outside the bounds the
// transaction is aborted. Behind that clock, or written late, it is decided again at
// once; ahead of it, the worker stalls and says so, rather than decide. Where brokers'
// clocks differ, no machine's clock is right for all: then the partition follows its
// leader's.
func (s *stage) checkClock(ctx context.Context, tx *stream.Tx) error {
	if len(s.touched) == 0 {
		return nil
	}
	ledger := s.env.names.Ledger()
	if err := tx.Flush(ctx); err != nil {
		return err
	}
	now, flushed := s.clock.now(), time.Now() // later than all of it was appended
	appended, err := tx.Appended(ctx, ledger, slices.Collect(maps.Keys(s.touched)))
	if err != nil {
		return fmt.Errorf("compare clocks: %w", err)
	}
	for n := range s.touched {
		at, ok := appended[n]
		if !ok {
			// Its broker did not say. Nothing is committed without a comparison.
			tx.Abort(fmt.Errorf("compare clocks: no append time of %s/%d", ledger, n))
			return nil
		}
		s.readings[n] = reading{least: at.Sub(now), most: at.Sub(s.parts[n].finished), at: at, taken: now, leader: tx.Leader(ledger, n)}
	}
	apart := s.brokersApart(now)
	var worst, ahead, slower, behind, late time.Duration // ahead of a clock that all leaders share; slower: of one that is behind others
	for n := range s.touched {
		p, r := s.parts[n], s.readings[n]
		a, b, l := r.compare(p.earliest, p.cur.meta.T, p.lift, flushed.Sub(p.opened))
		worst, behind, late = max(worst, a), max(behind, b), max(late, l)
		if r.least-p.lift > clockTolerance { // also where its decisions stand at the log's time
			p.lift = r.least
		}
		// No decision may be earlier than the log: if that is ahead, only time helps.
		if stood := max(p.base.meta.T, p.floor); a > clockTolerance && apart && stood.Sub(r.at) <= clockTolerance {
			p.lift, slower = r.most, max(slower, a)
		} else if a > clockTolerance {
			ahead = max(ahead, a)
		}
		p.floor = max(p.floor, r.at)
	}
	s.metrics.ahead.Set(worst.Seconds())
	switch {
	case ahead > 0:
		tx.Abort(fmt.Errorf("%w (by %v)", errClockAhead, ahead.Round(time.Millisecond)))
		s.cfg.Logger.Error("stalled: "+errClockAhead.Error(), "ahead", ahead.Round(time.Millisecond))
		s.stall()
	case slower > 0:
		tx.Abort(fmt.Errorf("%w (by %v)", errBrokersDiffer, slower.Round(time.Millisecond)))
		return nil
	case behind > clockTolerance:
		tx.Abort(fmt.Errorf("%w (by %v)", errClockBehind, behind.Round(time.Millisecond)))
		return nil
	case late > lateMost:
		tx.AbortSmaller(fmt.Errorf("%w (%v later, at most %v)", errLate, late.Round(time.Millisecond), lateMost))
		return nil
	}
	s.tellClock(ahead)
	return nil
}

// brokersApart reports whether brokers' clocks differ by more than the tolerance, and
// logs when that begins and ends.
func (s *stage) brokersApart(now schemas.Millis) bool {
	fast, slow, by, ok := differ(s.readings, now)
	if !ok {
		return s.apart
	}
	s.metrics.apart.Set(by.Seconds())
	if s.apart {
		if s.apart = !agree(s.readings, now); !s.apart {
			s.cfg.Logger.Info("the brokers' clocks agree again")
		}
		return s.apart
	}
	if s.apart = by > clockTolerance; !s.apart {
		return false
	}
	f, l := s.readings[fast], s.readings[slow]
	s.cfg.Logger.Error("the brokers' clocks differ; each partition is decided at the time of its own leader. Synchronize the brokers' clocks",
		"by_at_least", by.Round(time.Millisecond), "broker", f.leader, "clock", now.Add(f.least).Time(), "partition", fast,
		"other_broker", l.leader, "other_clock", now.Add(l.most).Time(), "other_partition", slow)
	return true
}

func (s *stage) tellClock(ahead time.Duration) {
	if s.cfg.Clock != nil {
		s.cfg.Clock(ahead)
	}
}

// stall stops reading for a while. The wall clock may be put right meanwhile,
// so it is taken anew, and what is known of the leaders' clocks is moved by as much: a
// worker that forgot it would stall again where the brokers' clocks differ, for as long as
// each transaction has decisions of one leader.
func (s *stage) stall() {
	s.stalled = time.Now().Add(stallFor)
	s.fetch.Pause(s.inputs()...)
	was := s.clock.now()
	s.clock.anew()
	step := s.clock.now().Sub(was)
	for n, r := range s.readings {
		r.least, r.most, r.taken = r.least-step, r.most-step, r.taken.Add(step)
		s.readings[n] = r
	}
	for _, p := range s.parts {
		p.lift = 0
	}
}

// stallFor is how long a stalled worker waits before it tries again.
const stallFor = time.Second

// sitOut waits until a stall is over. Reading is paused, but records that were read before are
// handed out all the same.
func (s *stage) sitOut(ctx context.Context) {
	if s.stalled.IsZero() {
		return
	}
	over := time.NewTimer(time.Until(s.stalled))
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
	}
}

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
