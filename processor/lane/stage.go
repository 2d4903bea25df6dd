package lane

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// Bounds of a lane.
const (
	maxPerTx      = 512      // heads handled in one transaction
	pauseItems    = 8192     // records of a queue in memory: then its partition is paused
	resumeItems   = 4096     // enough to work on until a resumed partition brings more
	pauseBytes    = 16 << 20 // likewise in bytes
	resumeBytes   = 8 << 20
	pauseAhead    = 1 << 18 // records read beyond one that is not finished: a new owner keeps a mark for each
	resumeAhead   = 1 << 17
	afterAbort    = 50 * time.Millisecond
	idleWait      = 500 * time.Millisecond // how late a change of the policy is seen at most
	stoppingWait  = 20 * time.Millisecond
	staleAgain    = 100 * time.Millisecond // how soon a lane looks again whether more of what is stale may go back
	clockMistrust = 2 * time.Second
)

// lanePart is the state of one lane: one partition number of the dispatch topics
// and of the journal.
type lanePart struct {
	num      int32
	since    time.Time // when this owner took it over
	queues   [queues]*queue
	pace     pace           // of calls
	recall   recall         // of what went stale
	gave     schemas.Millis // when the last permit was given; 0: none was
	last     schemas.Millis
	slot     uint64 // permits so far
	quiet    schemas.Millis
	throttle throttle
	probe    callKey // the call that ends a silence, or begins another; zero: none is under way
	journal  int64   // offset after the last record known of the journal
	seq      int64   // number of its last record, with those of the open transaction; 0 before the first
	seqWas   int64   // and as the open transaction found it
	answered []*item // outcomes in hand
	blocked  schemas.Millis
	due      schemas.Millis // since when the pace has room for a message that waits for it; 0 when none does
	wake     schemas.Millis // when to look again; 0 when only an event changes anything
	dirty    bool           // it has records in the open transaction

	even, evenWas even // of a smooth pace; evenWas as the open transaction found it
	breaker       *breaker
	tally         tally
	told, toldWas report
	walk          walk

	lanes    int32         // the provider's number of lanes, as this one acts on it; 0 before it does
	grew     int64         // where in its journal that begins
	reach    time.Duration // the longest window that pace is complete for; -1 when for none
	joinAt   schemas.Millis
	lanesWas int32
	grewWas  int64
}

// now is the lane's time: it never goes back, not even behind another owner's.
func (l *lanePart) now(t schemas.Millis) schemas.Millis {
	l.last = max(l.last, t)
	return l.last
}

// stands reports whether a transaction of this lane has a position to commit.
func (l *lanePart) stands() bool {
	for _, q := range l.queues {
		if q.low() >= 0 {
			return true
		}
	}
	return false
}

// empty reports whether nothing that was read is unfinished.
func (l *lanePart) empty() bool {
	for _, q := range l.queues {
		if len(q.items) > 0 {
			return false
		}
	}
	return true
}

func (l *lanePart) wakeAt(t schemas.Millis) {
	if l.wake == 0 || t < l.wake {
		l.wake = t
	}
}

// stage is one provider's lanes in this process as one stream.Stage.
type stage struct {
	cfg     *Config
	calls   *calls
	metrics *metrics
	fetch   stream.Fetching
	quit    func() // ends the stream: nothing is left to do
	by      string // names this process in the positions' metadata

	rev      *schemas.Revision
	provider schemas.Provider
	known    bool          // the provider is in the policy, and its adapter open
	removed  bool          // it is not in the policy
	retain   time.Duration // the longest window of its pace so far

	callless  schemas.Millis // since when messages may be called and none is; 0 when that is not so
	called    uint64         // permits so far, of all lanes
	lanes     map[int32]*lanePart
	held      bool           // lanes are assigned here; false from Revoke to Assign
	revoked   time.Time      // when they last were not
	leaving   bool           // a rebalance waits: outcomes are committed, nothing begins
	index     map[string]int // queue by topic
	tx        transaction
	txs       int64
	notBefore time.Time
	stepped   time.Time // when the open transaction's Step began
	took      slowest
	now       func() time.Time
}

// Revoke keeps the state: most lanes come back with the next assignment, and
// Assign knows whether anyone else has had them. Until then nothing is written:
// this member is still in the group, so the group would let it commit outcomes
// for lanes that are another's.
func (s *stage) Revoke() {
	s.held, s.leaving, s.revoked = false, false, s.now()
	s.callless = 0
	s.gauge() // the next owner's to show
	s.cfg.Stream.Watch.Failing("lane "+s.cfg.Provider, time.Time{}, "")
}

// Busy reports whether calls are under way, or outcomes in hand, that can still
// be committed here: a rebalance waits for them, for a while, so that the lanes'
// next owners find nothing in doubt.
func (s *stage) Busy() bool { return s.held && !s.idle() }

// Leaving tells that a rebalance waits.
func (s *stage) Leaving(waits bool) { s.leaving = waits }

// Wait returns the time until something can be done without an event.
func (s *stage) Wait() time.Duration {
	now := s.now()
	wait := idleWait
	if s.calls.stopping.Load() {
		wait = stoppingWait
	}
	for _, l := range s.lanes {
		if !s.held {
			break
		}
		if len(l.answered) > 0 {
			wait = 0
		}
		if l.wake > 0 {
			wait = min(wait, l.wake.Time().Sub(now))
		}
	}
	return max(wait, s.notBefore.Sub(now), 0)
}

// Step commits the outcomes that have arrived and the next permits in one
// transaction.
func (s *stage) Step(ctx context.Context, tx *stream.Tx, polled []*kgo.Record) error {
	now := s.now()
	s.stepped = now
	for _, r := range polled {
		if err := s.take(r, tx.On(r)); err != nil {
			return err
		}
	}
	s.calls.collect(now, s.land)
	if s.calls.stopping.Load() && s.idle() {
		s.quit()
		return nil
	}
	defer s.backpressure()
	if !s.held || now.Before(s.notBefore) {
		return nil
	}
	s.follow()
	for _, l := range s.lanes {
		l.wake, l.dirty, l.seqWas = 0, false, l.seq
		t := l.now(schemas.MillisOf(now))
		for _, it := range l.answered {
			s.endAnswered(tx, l, it, t)
		}
		l.answered = nil
		switch {
		case s.leaving, s.calls.stopping.Load(): // what waits is left to the next owner
		case s.removed:
			s.handBack(tx, l, t, shut{all: true})
			if l.empty() {
				s.silence(tx, l)
			}
		case !s.known: // it is back, and a Run that can call is to follow
		default:
			if s.joins(ctx, tx, l, t) {
				s.advance(tx, l, t, now)
			}
			s.health(tx, l, t)
		}
		if s.pass(tx, l); l.dirty {
			s.stand(tx, l)
		}
	}
	s.gauge()
	s.watch(schemas.MillisOf(now))
	return nil
}

// follow takes up the policy's latest revision.
func (s *stage) follow() {
	rev := s.cfg.Policy.Latest()
	if s.rev != nil && s.rev.Revision == rev.Revision {
		return
	}
	p, ok := served(&rev.Policy, s.cfg.Provider)
	s.removed = !ok
	if s.known = ok && s.calls.provider != nil; s.known {
		s.provider = p
	}
	s.rev = rev
}

// take puts a record into its queue.
func (s *stage) take(r *kgo.Record, poison *stream.Poison) error {
	l, i := s.lanes[r.Partition], s.index[r.Topic]
	if l == nil {
		return fmt.Errorf("record of %s/%d, which was not assigned", r.Topic, r.Partition)
	}
	q := l.queues[i]
	it := newItem(r)
	if poison != nil && poison.Batch { // a batch that was not read
		it.foreign, it.env = poison, schemas.Envelope{}
	}
	it.prio, it.half = lineOf(i, it.env.Priority)
	if !q.push(it) {
		return nil // read again after an abort
	}
	if it.foreign != nil {
		s.putAside(l, q, it)
		return nil
	}
	now := schemas.MillisOf(s.now())
	known := it.half == returned && l.recall.arrive(it.env.ID, it.prio, now)
	it.inherited = !known && r.Timestamp.Before(l.since)
	it.overdue = it.callBy != 0 && it.callBy < now && !it.inherited
	m, ok := q.marks[r.Offset]
	if !ok {
		return nil
	}
	delete(q.marks, r.Offset)
	it.journal = m.journal
	q.seen = len(q.items)
	switch {
	case m.finished:
		q.finish(it)
		q.trim()
	case m.inDoubt:
		s.doubt(l, it, m)
	}
	return nil
}

// putAside takes up a record that is no message: it never waits for a call.
func (s *stage) putAside(l *lanePart, q *queue, it *item) {
	m, ok := q.marks[it.key.offset]
	delete(q.marks, it.key.offset)
	q.seen = len(q.items)
	if ok {
		it.journal = m.journal
	}
	if ok && m.finished {
		q.finish(it)
		q.trim()
		return
	}
	it.state = answered
	l.answered = append(l.answered, it)
}

// doubt takes up a permit without outcome. What this process knows of it is
// better than what the journal does; if nobody knows, its outcome is unknown.
func (s *stage) doubt(l *lanePart, it *item, m mark) {
	it.key.permit, it.attempt = m.permit, m.attempt
	f := s.calls.flights[it.key]
	switch {
	case f != nil && !f.answered:
		it.state = calling
		return
	case f != nil:
		it.answer = f.answer
	case s.calls.uncalled[it.key]:
		it.answer = answer{uncalled: true}
	default:
		it.answer = answer{outcome: provider.Outcome{
			Kind: provider.Unknown, MayBeReceived: true, Code: codeInDoubt,
			Text: "permitted, and then the process ended: it may or may not have been called",
		}}
	}
	it.state = answered
	l.answered = append(l.answered, it)
}

// land takes one call's outcome.
func (s *stage) land(got landed) {
	if !got.answer.uncalled {
		s.metrics.calls.WithLabelValues(s.cfg.Provider, string(got.answer.outcome.Kind)).Inc()
		s.metrics.seconds.WithLabelValues(s.cfg.Provider).Observe(got.took.Seconds())
	}
	l := s.lanes[got.key.partition]
	if l == nil {
		return
	}
	if !got.answer.uncalled {
		l.tally.anew(l.breaker.closed)
		l.tally.add(schemas.MillisOf(s.now()), got.key.permit, &got.answer.outcome)
		l.told.ended = true
	}
	it := l.queues[s.index[got.key.topic]].find(got.key.offset)
	if got.key == l.probe {
		l.probe = callKey{}
	}
	if !got.answer.uncalled && it != nil && l.throttle.answer(&got.answer.outcome, it.env.Key, got.key.permit, schemas.MillisOf(s.now())) {
		s.calls.hush(l.num, l.throttle.until)
	}
	if l.breaker.look() == schemas.BreakerOpen {
		s.calls.hush(l.num, l.breaker.probeAt)
	}
	if it == nil || it.state != calling || it.key != got.key {
		return
	}
	it.state, it.answer = answered, got.answer
	l.answered = append(l.answered, it)
}

// watch reports when messages wait that may be called, and none is: not for the pace, a
// breaker, a provider's silence, or calls under way.
func (s *stage) watch(t schemas.Millis) {
	may, called := false, uint64(0)
	for _, l := range s.lanes {
		called += l.slot
		waits := 0
		for _, q := range l.queues {
			waits += q.waits()
		}
		may = may || waits > 0 && s.known && !s.removed && !s.leaving && l.due == 0 && l.blocked == 0 &&
			t >= max(l.quiet, l.throttle.until) && s.calls.flying[l.num] == 0 && l.breaker.look() == schemas.BreakerClosed
	}
	switch {
	case !may:
		s.callless = 0
	case s.callless == 0, called != s.called:
		s.callless = t
	}
	s.called = called
	name := "lane " + s.cfg.Provider
	if s.callless == 0 {
		s.cfg.Stream.Watch.Failing(name, time.Time{}, "")
		return
	}
	s.cfg.Stream.Watch.Failing(name, s.callless.Time(), "messages wait that may be called, and no call is made")
}

// idle reports whether a stopping lane has nothing left to commit. An outcome
// in hand while the group is between two assignments is left: the next one says
// whose it is. Where none comes within a session, it is another's: a member
// without partitions hears of no assignment.
func (s *stage) idle() bool {
	for _, l := range s.lanes {
		if len(l.answered) > 0 && (s.held || s.now().Sub(s.revoked) < s.cfg.Stream.SessionTimeout) {
			return false
		}
	}
	return len(s.calls.flying) == 0
}

// backpressure pauses queues that hold enough, and resumes those that need
// more.
func (s *stage) backpressure() {
	for _, l := range s.lanes {
		for _, q := range l.queues {
			p := stream.Partition{Topic: q.topic, Partition: l.num}
			switch {
			case !q.paused && (q.waits() >= pauseItems || q.bytes >= pauseBytes || q.ahead() >= pauseAhead):
				q.paused = true
				s.fetch.Pause(p)
			case q.paused && q.waits() < resumeItems && q.bytes < resumeBytes && q.ahead() < resumeAhead:
				q.paused = false
				s.fetch.Resume(p)
			}
		}
	}
}
