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
	maxHold       = time.Minute // how long a throttled lane stays silent at most
	defaultHold   = time.Second // when the provider does not say
	afterAbort    = 50 * time.Millisecond
	idleWait      = time.Second
	stoppingWait  = 20 * time.Millisecond
	againAtLeast  = 64 // stale ones go back while fewer than this, or than concurrency, wait on again
	clockMistrust = 2 * time.Second
)

// lanePart is the state of one lane: one partition number of the dispatch topics
// and of the journal.
type lanePart struct {
	num      int32
	queues   [queues]*queue
	pace     pace // of calls
	back     pace // of stale ones given back: the same windows, counted apart, so that they cost no call its turn
	last     schemas.Millis
	slot     uint64 // permits so far
	quiet    schemas.Millis
	hold     schemas.Millis
	journal  int64   // offset after the last record known of the journal
	answered []*item // outcomes in hand
	blocked  schemas.Millis
	wake     schemas.Millis // when to look again; 0 when only an event changes anything
}

// now is the lane's time: it never goes back, not even behind another owner's.
func (l *lanePart) now(t schemas.Millis) schemas.Millis {
	l.last = max(l.last, t)
	return l.last
}

func (l *lanePart) wakeAt(t schemas.Millis) {
	if l.wake == 0 || t < l.wake {
		l.wake = t
	}
}

// ended is an item whose end is in the open transaction.
type ended struct {
	lane  *lanePart
	item  *item
	event schemas.Event // zero for what has no status
}

// transaction is what the open one holds, to be kept or undone.
type transaction struct {
	permits []permitted
	ended   []ended
	journal []journalled
	stood   []stood
	back    map[*lanePart]int
}

type permitted struct {
	lane    *lanePart
	item    *item
	expires time.Time
}

type journalled struct {
	lane *lanePart
	rec  *kgo.Record
}

type stood struct {
	queue    *queue
	at       int64
	metadata string
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
	known    bool          // the provider is in the policy
	retain   time.Duration // the longest window of its pace so far

	lanes     map[int32]*lanePart
	held      bool           // lanes are assigned here; false from Revoke to Assign
	index     map[string]int // queue by topic
	tx        transaction
	txs       int64
	notBefore time.Time
	now       func() time.Time
}

// Revoke keeps the state: most lanes come back with the next assignment, and
// Assign knows whether anyone else has had them. Until then nothing is written:
// this member is still in the group, so the group would let it commit outcomes
// for lanes that are another's.
func (s *stage) Revoke() { s.held = false }

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
func (s *stage) Step(_ context.Context, tx *stream.Tx, polled []*kgo.Record) error {
	now := s.now()
	for _, r := range polled {
		if err := s.take(r); err != nil {
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
		l.wake = 0
		before := len(s.tx.journal)
		t := l.now(schemas.MillisOf(now))
		for _, it := range l.answered {
			s.endAnswered(tx, l, it, t)
		}
		l.answered = nil
		if s.known && !s.calls.stopping.Load() {
			s.advance(tx, l, t, now)
		}
		if len(s.tx.journal) > before {
			s.stand(tx, l)
		}
	}
	return nil
}

// follow takes up the policy's latest revision.
func (s *stage) follow() {
	rev := s.cfg.Policy.Latest()
	if s.rev != nil && s.rev.Revision == rev.Revision {
		return
	}
	p, ok := rev.Policy.Provider(s.cfg.Provider)
	if s.known = ok; ok {
		s.provider = p
	}
	s.rev = rev
}

// take puts a record into its queue.
func (s *stage) take(r *kgo.Record) error {
	l, i := s.lanes[r.Partition], s.index[r.Topic]
	if l == nil {
		return fmt.Errorf("record of %s/%d, which was not assigned", r.Topic, r.Partition)
	}
	q := l.queues[i]
	it, err := newItem(r)
	if err != nil {
		return stream.Fatal(fmt.Errorf("%s/%d offset %d: %w", r.Topic, r.Partition, r.Offset, err))
	}
	if !q.push(it) {
		return nil // read again after an abort
	}
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
	if o := got.answer.outcome; o.Kind == provider.Throttled {
		hold := min(o.RetryAfter, maxHold)
		if hold <= 0 {
			hold = defaultHold
		}
		l.hold = max(l.hold, schemas.MillisOf(s.now()).Add(hold))
	}
	it := l.queues[s.index[got.key.topic]].find(got.key.offset)
	if it == nil || it.state != calling || it.key != got.key {
		return
	}
	it.state, it.answer = answered, got.answer
	l.answered = append(l.answered, it)
}

// idle reports whether a stopping lane has nothing left to commit. An outcome
// in hand while the group is between two assignments is left: the next one says
// whose it is.
func (s *stage) idle() bool {
	for _, l := range s.lanes {
		if len(l.answered) > 0 {
			return false
		}
	}
	return s.calls.flying == 0
}

// endAnswered writes an outcome and what follows from it.
func (s *stage) endAnswered(tx *stream.Tx, l *lanePart, it *item, t schemas.Millis) {
	it.state = ending
	if it.answer.uncalled {
		s.outcome(tx, l, it, outcomeExpiredPermit, "", t)
		s.tx.ended = append(s.tx.ended, ended{lane: l, item: it})
		return
	}
	o := it.answer.outcome
	it.read(s.rev, s.cfg.Provider)
	v := settle(o, s.rev.Policy.Class(it.event.Class), it.attempt, it.env.Taint)
	e := it.event
	e.Status, e.At, e.Reason, e.Attempt = v.status, t, v.reason, it.attempt
	e.ProviderMessageID, e.ErrorCode, e.Error = o.ProviderMessageID, o.Code, o.Text
	switch v.status {
	case schemas.StatusRetrying:
		e.RetryAt = t.Add(v.wait)
		s.retry(tx, it, v, e.RetryAt, o.Code)
	case schemas.StatusFailed, schemas.StatusUnknown:
		s.close(tx, it, it.attempt, v, o.Code, o.Text)
	default: // sent
	}
	s.status(tx, it, e)
	s.outcome(tx, l, it, string(o.Kind), o.Code, t)
	s.tx.ended = append(s.tx.ended, ended{l, it, e})
}

// endUncalled ends an item without a call.
func (s *stage) endUncalled(tx *stream.Tx, l *lanePart, it *item, what string, t schemas.Millis) {
	var e schemas.Event
	switch what {
	case outcomeStale:
		s.stale(tx, it)
	default:
		status, reason, text := schemas.StatusExpired, reasonExpired, ""
		if what == outcomeContent {
			status, reason, text = schemas.StatusFailed, reasonContent, it.bad.Error()
		}
		v := end(status, reason, it.env.Taint)
		e = it.event
		e.Status, e.At, e.Reason, e.Attempt, e.Error = v.status, t, v.reason, it.env.Attempt, text
		s.close(tx, it, it.env.Attempt, v, it.env.LastError, text)
		s.status(tx, it, e)
	}
	it.state = ending
	s.outcome(tx, l, it, what, "", t)
	s.tx.ended = append(s.tx.ended, ended{l, it, e})
}

// advance gives the permits that pace and concurrency allow, and ends at the
// heads of the queues what needs no call.
func (s *stage) advance(tx *stream.Tx, l *lanePart, t schemas.Millis, now time.Time) {
	windows := share(s.provider.Pace, s.provider.Lanes, l.num)
	// A window that was shortened may be lengthened again.
	s.retain = max(s.retain, longest(windows))
	l.pace.trim(s.retain, t)
	l.back.trim(s.retain, t)
	budget := maxPerTx
	for {
		var ready [queues]bool
		for i, q := range l.queues {
			ready[i] = s.callable(tx, l, i, q, windows, t, &budget)
		}
		if budget <= 0 {
			l.wakeAt(t)
			return
		}
		i := choose(l.slot, ready)
		if i < 0 {
			l.blocked = 0
			return
		}
		if s.calls.flying+len(s.tx.permits) >= s.provider.Concurrency {
			return // an outcome wakes it
		}
		paced := l.pace.next(windows, t)
		if at := max(paced, l.quiet, l.hold); at > t {
			if paced > t && l.blocked == 0 {
				l.blocked = t
			}
			l.wakeAt(at)
			return
		}
		s.permit(tx, l, l.queues[i].head(), t, now)
		budget--
	}
}

// callable reports whether the head of a queue may be called, after ending
// before it what need not be: what expired, what cannot be rendered, and, no
// faster than the pace, what went stale.
func (s *stage) callable(tx *stream.Tx, l *lanePart, i int, q *queue, windows []schemas.Window, t schemas.Millis, budget *int) bool {
	for *budget > 0 {
		it := q.head()
		if it == nil {
			return false
		}
		it.read(s.rev, s.cfg.Provider)
		switch {
		case it.env.ExpiresAt != 0 && it.env.ExpiresAt <= t:
			s.endUncalled(tx, l, it, outcomeExpired, t)
		case it.bad != nil:
			s.endUncalled(tx, l, it, outcomeContent, t)
		case it.env.DecidedAt != 0 && t.Sub(it.env.DecidedAt) > time.Duration(s.rev.Policy.Class(it.event.Class).StaleAfter):
			// As long as enough have come back, more would only grow stale
			// again where they wait.
			if i != again && l.queues[again].waits() >= max(againAtLeast, s.provider.Concurrency) {
				return false
			}
			if at := l.back.next(windows, t); at > t {
				l.wakeAt(at)
				return false
			}
			l.back.add(t)
			if s.tx.back == nil {
				s.tx.back = make(map[*lanePart]int)
			}
			s.tx.back[l]++
			s.endUncalled(tx, l, it, outcomeStale, t)
		default:
			return true
		}
		*budget--
	}
	return false
}

// permit journals that an item may be called. The call starts when the
// transaction has committed.
func (s *stage) permit(tx *stream.Tx, l *lanePart, it *item, t schemas.Millis, now time.Time) {
	if l.blocked > 0 {
		s.metrics.paceWait.WithLabelValues(s.cfg.Provider).Observe(t.Sub(l.blocked).Seconds())
		l.blocked = 0
	} else if len(s.provider.Pace) > 0 {
		s.metrics.paceWait.WithLabelValues(s.cfg.Provider).Observe(0)
	}
	it.state, it.key.permit, it.attempt = permitting, t, it.env.Attempt+1
	it.call.Attempt = it.attempt
	l.pace.add(t)
	l.slot++
	e := it.event
	e.Status, e.At, e.Attempt = schemas.StatusSending, t, it.attempt
	s.status(tx, it, e)
	s.journal(tx, l, it, entry{Kind: kindPermit, ID: it.env.ID, Attempt: it.attempt, T: t})
	s.tx.permits = append(s.tx.permits, permitted{l, it, now.Add(s.cfg.PermitLife)})
	s.calls.open = append(s.calls.open, it.key)
}

func (s *stage) outcome(tx *stream.Tx, l *lanePart, it *item, what, code string, t schemas.Millis) {
	s.journal(tx, l, it, entry{Kind: kindOutcome, ID: it.env.ID, Attempt: it.attempt, T: t, Permit: it.key.permit, Outcome: what, Code: code})
}

func (s *stage) journal(tx *stream.Tx, l *lanePart, it *item, e entry) {
	e.Topic, e.Partition, e.Offset = it.key.topic, it.key.partition, it.key.offset
	if it.journal < 0 {
		it.journal = l.journal // where it will stand, or a little before
	}
	rec := &kgo.Record{Topic: s.cfg.Names.Journal(s.cfg.Provider), Partition: l.num, Value: e.encode()}
	s.tx.journal = append(s.tx.journal, journalled{l, rec})
	tx.Produce(rec)
}

// stand sets the positions of all queues of a lane: each at its low-water mark,
// with where to read the journal from.
func (s *stage) stand(tx *stream.Tx, l *lanePart) {
	from := l.journal
	for _, q := range l.queues {
		from = min(from, q.journal(q.low(), l.journal))
	}
	s.txs++
	metadata := standing{journal: from, by: s.by, n: s.txs}.String()
	for _, q := range l.queues {
		if at := q.low(); at >= 0 {
			tx.Stand(stream.Partition{Topic: q.topic, Partition: l.num}, stream.Position{Offset: at, Metadata: metadata})
			s.tx.stood = append(s.tx.stood, stood{q, at, metadata})
		}
	}
}

// Ended starts the calls whose permits are committed, or undoes everything.
func (s *stage) Ended(committed bool) {
	tx := s.tx
	s.tx = transaction{}
	if !committed {
		s.undo(tx)
		return
	}
	s.calls.open = s.calls.open[:0]
	for _, j := range tx.journal {
		j.lane.journal = max(j.lane.journal, j.rec.Offset+1)
	}
	for _, st := range tx.stood {
		st.queue.at, st.queue.stood = st.at, st.metadata
	}
	for _, e := range tx.ended {
		q := e.lane.queues[s.index[e.item.key.topic]]
		s.calls.forget(e.item.key)
		if e.item.answer.uncalled {
			q.requeue(e.item)
			e.lane.wakeAt(e.lane.last)
			continue
		}
		if e.event.Status == schemas.StatusFailed { // its bytes are in the DLQ
			s.metrics.dead.WithLabelValues(e.event.Reason).Inc()
		}
		if e.event.Status == schemas.StatusSent && e.event.AcceptedAt > 0 {
			s.metrics.sent.WithLabelValues(classLabel(&s.rev.Policy, e.event.Class)).Observe(e.event.At.Sub(e.event.AcceptedAt).Seconds())
		}
		q.finish(e.item)
	}
	for _, e := range tx.ended {
		e.lane.queues[s.index[e.item.key.topic]].trim()
	}
	for _, p := range tx.permits {
		p.item.state = calling
		s.calls.start(p.item, p.expires, time.Duration(s.provider.Timeout), s.now)
	}
	if len(tx.ended) > 0 { // slots are free, or more heads are
		for _, l := range s.lanes {
			l.wakeAt(l.last)
		}
	}
}

// undo takes an aborted transaction back: its permits were never used, its
// outcomes are still in hand.
func (s *stage) undo(tx transaction) {
	s.calls.open = s.calls.open[:0]
	s.notBefore = s.now().Add(afterAbort)
	for _, p := range tx.permits {
		p.lane.pace.undo(1)
		p.lane.queues[s.index[p.item.key.topic]].requeue(p.item)
		p.lane.wakeAt(p.lane.last)
	}
	for l, n := range tx.back {
		l.back.undo(n)
	}
	for _, e := range tx.ended {
		if e.item.key.permit == 0 {
			e.lane.queues[s.index[e.item.key.topic]].requeue(e.item)
			e.lane.wakeAt(e.lane.last)
			continue
		}
		e.item.state = answered
		e.lane.answered = append(e.lane.answered, e.item)
	}
}

// backpressure pauses queues that hold enough, and resumes those that need
// more.
func (s *stage) backpressure() {
	for _, l := range s.lanes {
		for _, q := range l.queues {
			p := stream.Partition{Topic: q.topic, Partition: l.num}
			switch {
			case !q.paused && (q.waits() >= pauseItems || q.bytes >= pauseBytes):
				q.paused = true
				s.fetch.Pause(p)
			case q.paused && q.waits() < resumeItems && q.bytes < resumeBytes:
				q.paused = false
				s.fetch.Resume(p)
			}
		}
	}
}
