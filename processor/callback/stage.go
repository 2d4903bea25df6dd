package callback

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

const (
	maxHere     = 20_000                 // callbacks in memory: what comes beyond goes away
	commitMoved = 250 * time.Millisecond // how often positions are committed when nothing else is
	commitEvery = 20 * time.Millisecond  // and when something is
	tidyEvery   = time.Minute
	idleWait    = time.Second
)

// waiter is a callback that waits here since a moment.
type waiter struct {
	job *job
	at  schemas.Millis
}

// stage is the callbacks of the partitions that this process has.
type stage struct {
	*runner
	parts   map[int32]*part
	pool    *pool
	targets *targets
	held    bool // partitions are assigned here; false from Revoke to Assign
	leaving bool

	here   []waiter      // in the order in which they came: those that wait too long go away
	count  int           // of those that are neither told nor away
	out    []*kgo.Record // to be committed
	sent   int           // of out, with the open transaction
	stands map[int32]meta
	txAt   time.Time
	tx     *stream.Tx // the open one
	tidied time.Time
	told   time.Time
}

func newStage(r *runner) *stage {
	s := &stage{runner: r, parts: make(map[int32]*part), targets: &targets{getenv: r.cfg.Getenv, secrets: r.cfg.Secrets}}
	s.begin()
	return s
}

// begin forgets endpoints and calls.
func (s *stage) begin() {
	s.renew()
	s.pool = newPool(s.call)
	s.here, s.count, s.out, s.sent = nil, 0, nil, 0
}

// Revoke drops what is under way: nothing of it is committed, so the next owner reads it
// again.
func (s *stage) Revoke() {
	s.held, s.leaving = false, false
	s.begin()
	clear(s.parts)
	s.gauge()
}

// Busy reports whether calls are under way whose outcomes can still be committed here.
func (s *stage) Busy() bool { return s.held && (s.pool.flying > 0 || len(s.out) > 0) }

// Leaving tells that a rebalance waits: nothing new is called.
func (s *stage) Leaving(waits bool) { s.leaving = waits }

// Wait is the time until something is to be done without an event.
func (s *stage) Wait() time.Duration {
	now := s.cfg.Now()
	wait := idleWait
	if len(s.here) > 0 {
		wait = min(wait, s.here[0].at.Add(queueFor).Sub(schemas.MillisOf(now)))
	}
	switch {
	case len(s.out) > 0:
		wait = min(wait, commitEvery-now.Sub(s.txAt))
	case s.moved():
		wait = min(wait, commitMoved-now.Sub(s.txAt))
	}
	if s.stopping.Load() {
		wait = min(wait, commitEvery)
	}
	return max(wait, 0)
}

func (s *stage) moved() bool {
	for _, p := range s.parts {
		if p.meta() != p.stood {
			return true
		}
	}
	return false
}

// Step takes what came and what ended, and commits what came of it.
func (s *stage) Step(_ context.Context, tx *stream.Tx, polled []*kgo.Record) error {
	s.tx = tx
	s.pass(tx) // of what was read before
	if s.turn(polled) {
		s.pass(tx)
		s.commit(tx)
	}
	return nil
}

// on names the callback that is handled now, so that a panic is of its record; nil is none.
func (s *stage) on(j *job) {
	switch {
	case s.tx == nil:
	case j == nil:
		s.tx.On(nil)
	default:
		topic := s.cfg.Names.Callbacks()
		if j.from == j.part.status {
			topic = s.cfg.Names.Status()
		}
		s.tx.On(&kgo.Record{Topic: topic, Partition: j.part.num, Offset: j.offset})
	}
}

// pass lets partitions that are read to their end stand behind the markers there.
func (s *stage) pass(tx *stream.Tx) {
	for n, p := range s.parts {
		p.status.next = tx.Past(stream.Partition{Topic: s.cfg.Names.Status(), Partition: n}, p.status.next)
		p.callbacks.next = tx.Past(stream.Partition{Topic: s.cfg.Names.Callbacks(), Partition: n}, p.callbacks.next)
	}
}

// turn takes what came and what ended, and starts what may be called. It reports whether
// something is to be committed.
func (s *stage) turn(polled []*kgo.Record) bool {
	clock := s.cfg.Now()
	now := schemas.MillisOf(clock)
	s.targets.follow(s.cfg.Policy(), clock)
	for _, l := range s.collect() {
		s.land(l, now)
	}
	s.take(polled, now)
	s.on(nil)
	s.late(now)
	if !s.held {
		return false
	}
	stopping := s.stopping.Load()
	if !stopping && !s.leaving {
		s.pool.run(now, func(j *job) *target { return s.find(j, now) }, func(j *job, e *endpoint) { s.tryLater(j, now) })
	}
	s.tidy(clock, now)
	s.on(nil)
	for _, p := range s.parts {
		for k := range p.book.changed {
			s.save(p, waitKind, k, p.book.state(k))
		}
		clear(p.book.changed)
	}
	s.gauge()
	if stopping && s.pool.flying == 0 && len(s.out) == 0 && !s.moved() {
		s.quit()
		return false
	}
	since := clock.Sub(s.txAt)
	return len(s.out) > 0 && (since >= commitEvery || stopping || s.leaving) || s.moved() && (since >= commitMoved || stopping)
}

// commit puts all that is to be written into the transaction, and where all partitions
// stand.
func (s *stage) commit(tx *stream.Tx) {
	s.prepare()
	s.on(nil)
	for _, r := range s.out {
		again := *r // the client keeps what it is given; after an abort it is given once more
		tx.Produce(&again)
	}
	for n, m := range s.stands {
		tx.Stand(stream.Partition{Topic: s.cfg.Names.Status(), Partition: n}, stream.Position{Offset: m.Status})
		tx.Stand(stream.Partition{Topic: s.cfg.Names.Callbacks(), Partition: n}, stream.Position{Offset: m.Callbacks})
	}
}

// prepare notes what the open transaction has.
func (s *stage) prepare() {
	s.sent = len(s.out)
	s.stands = make(map[int32]meta, len(s.parts))
	for n, p := range s.parts {
		s.stands[n] = p.meta()
	}
}

// Ended keeps what was committed; else it is written once more. What was read stays
// read: records that are read again are known by their offsets.
func (s *stage) Ended(committed bool) {
	s.txAt = s.cfg.Now()
	if !committed {
		s.sent = 0
		return
	}
	s.out = slices.Delete(s.out, 0, s.sent)
	s.sent = 0
	for n, m := range s.stands {
		if p := s.parts[n]; p != nil {
			p.stood = m
		}
	}
}

// save writes a record of the state; nil is a tombstone.
func (s *stage) save(p *part, kind byte, k messageKey, value []byte) {
	s.out = append(s.out, &kgo.Record{Topic: s.cfg.Names.CallbackState(), Partition: p.num, Key: stateKeyOf(kind, k), Value: value})
}

// tidy forgets what is over, and notes how far the stage is, now and then.
func (s *stage) tidy(clock time.Time, now schemas.Millis) {
	for _, p := range s.parts {
		if !p.known {
			p.noted, p.known = p.meta(), true
			s.out = append(s.out, s.metaRecord(p))
		}
	}
	if clock.Sub(s.tidied) < tidyEvery {
		return
	}
	s.tidied = clock
	s.pool.sweep(now)
	for _, p := range s.parts {
		for k, o := range p.own {
			if o.Until <= now {
				delete(p.own, k)
				s.save(p, ownKind, k, nil)
			}
		}
		if m := p.meta(); m != p.noted {
			p.noted = m
			s.out = append(s.out, s.metaRecord(p))
		}
	}
}

func (s *stage) metaRecord(p *part) *kgo.Record {
	return &kgo.Record{Topic: s.cfg.Names.CallbackState(), Partition: p.num, Key: []byte(metaKey), Value: encode(p.noted)}
}

// gauge shows how it is, and says so to who lists endpoints.
func (s *stage) gauge() {
	now := s.cfg.Now()
	if now.Sub(s.told) < time.Second {
		return
	}
	s.told = now
	r := Report{At: schemas.MillisOf(now), Slot: s.cfg.Slot, Waiting: make(map[string]int)}
	total := 0
	for _, p := range s.parts {
		for tenant, n := range p.book.away {
			r.Waiting[tenant] += n
			total += n
		}
	}
	s.metrics.waiting.Set(float64(total))
	states := map[string]int{}
	for _, e := range s.pool.all {
		state := e.state().String()
		states[state]++
		if len(r.Endpoints) < maxReported {
			r.Endpoints = append(r.Endpoints, EndpointState{Tenant: e.tenant, Host: e.host, State: state, Queued: len(e.queue), Calling: e.flying, Last: e.last})
		}
	}
	for _, state := range endpointStates {
		s.metrics.endpoints.WithLabelValues(state).Set(float64(states[state]))
	}
	s.metrics.endpoints.WithLabelValues(stateDisabled).Set(float64(s.notes.count(schemas.MillisOf(now))))
	s.report(r)
}
