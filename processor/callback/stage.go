package callback

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const (
	maxHere     = 20_000                 // callbacks in memory: what comes beyond goes away
	commitMoved = 250 * time.Millisecond // how often positions are committed when nothing else is
	commitEvery = 20 * time.Millisecond  // and when something is
	tidyEvery   = time.Minute
	ownFor      = keepTrying // how long a message's own address is kept for receipts after it was sent
	maxOwn      = 200_000    // of them, of a partition
	idleWait    = time.Second
)

// intake is one partition of one topic that is read: what came of it is told, or waits,
// up to low.
type intake struct {
	next int64
	open []int64 // read and neither told nor away, in order
	done map[int64]bool
}

func newIntake(at int64) *intake { return &intake{next: at, done: make(map[int64]bool)} }

func (i *intake) begin(offset int64) { i.open = append(i.open, offset) }

func (i *intake) end(offset int64) {
	i.done[offset] = true
	n := 0
	for n < len(i.open) && i.done[i.open[n]] {
		delete(i.done, i.open[n])
		n++
	}
	i.open = slices.Delete(i.open, 0, n)
}

// low is the first offset that is not finished.
func (i *intake) low() int64 {
	if len(i.open) > 0 {
		return i.open[0]
	}
	return i.next
}

// part is one partition number.
type part struct {
	num       int32
	salt      string // a key whose partition is this one
	status    *intake
	callbacks *intake
	book      *book
	own       map[messageKey]own
	early     []*job // came back before the statuses were read again up to them
	stood     meta   // as last committed
	noted     meta   // as the state's topic has it
}

func (p *part) meta() meta { return meta{p.status.low(), p.callbacks.low()} }

// waiter is a callback that waits here since a moment.
type waiter struct {
	job *job
	at  schemas.Millis
}

// landed is a call's end.
type landed struct {
	job    *job
	target *target
	end    *endpoint
	done   func(error)
	what   verdict
	after  time.Duration
	why    string // for people, without address or body
	life   int    // of the stage that called
	took   time.Duration
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
	tidied time.Time
	told   time.Time
}

func newStage(r *runner) *stage {
	s := &stage{runner: r, parts: make(map[int32]*part), targets: &targets{getenv: r.cfg.Getenv}}
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
	if s.turn(polled) {
		s.commit(tx)
	}
	return nil
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
	s.late(now)
	if !s.held {
		return false
	}
	stopping := s.stopping.Load()
	if !stopping && !s.leaving {
		s.pool.run(now, func(j *job) *target { return s.find(j, now) }, func(j *job, e *endpoint) { s.tryLater(j, now) })
	}
	s.tidy(clock, now)
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

// take takes in what was read.
func (s *stage) take(polled []*kgo.Record, now schemas.Millis) {
	oldest := now
	status := s.cfg.Names.Status()
	for _, r := range polled {
		p := s.parts[r.Partition]
		if p == nil {
			continue
		}
		oldest = min(oldest, schemas.MillisOf(r.Timestamp))
		if r.Topic == status {
			if r.Offset >= p.status.next {
				p.status.next = r.Offset + 1
				s.takeStatus(p, r, now)
			}
			continue
		}
		if r.Offset < p.callbacks.next {
			continue
		}
		p.callbacks.next = r.Offset + 1
		j, err := readJob(r)
		if err != nil {
			s.cfg.Logger.Warn("a record of the callbacks' topic is left out", "partition", r.Partition, "offset", r.Offset, "error", err)
			continue
		}
		if j.hop == 0 {
			if o, ok := p.own[liveKey(j.Of)]; ok && j.URL == "" && o.Until > now {
				j.URL = o.URL
			}
			if !s.targets.wants(j.tenant, j.Status, j.URL) {
				continue
			}
		}
		s.open(j, p, p.callbacks, now)
		if j.hop > 0 && !j.Replay && j.seq >= p.status.next {
			p.early = append(p.early, j)
			continue
		}
		s.arrive(j, now)
	}
	for _, p := range s.parts {
		early := p.early
		p.early = nil
		for _, j := range early {
			if j.seq >= p.status.next {
				p.early = append(p.early, j)
				continue
			}
			s.arrive(j, now)
		}
	}
	s.metrics.lag.Set(now.Sub(oldest).Seconds())
}

// takeStatus takes in a record of weir.status.
func (s *stage) takeStatus(p *part, r *kgo.Record, now schemas.Millis) {
	if len(s.targets.of) == 0 || len(r.Value) < len(kindField) || string(r.Value[:len(kindField)]) != string(kindField) {
		return
	}
	e, err := s.reader.Read(string(r.Value))
	if err != nil || e.Kind != schemas.KindStatus {
		return // the sink keeps what cannot be read as a row
	}
	tenant := cmp.Or(e.Tenant, schemas.DefaultTenant)
	if s.targets.of[tenant] == nil {
		return
	}
	key := keyOf(tenant, e.MessageID, e.To, false)
	address := s.address(p, key, e, now)
	if !s.targets.wants(tenant, e.Status, address) {
		return
	}
	j := &job{
		note: note{ID: ID(e), Status: e.Status, URL: address},
		key:  key, tenant: tenant, message: e.MessageID, body: Body(e), seq: r.Offset, offset: r.Offset,
	}
	s.open(j, p, p.status, now)
	s.arrive(j, now)
}

// address is the request's own callback_url. Receipts do not know it, so it is kept for
// them when the message is sent.
func (s *stage) address(p *part, k messageKey, e *schemas.Event, now schemas.Millis) string {
	if e.CallbackURL == "" {
		if o, ok := p.own[k]; ok && o.Until > now {
			return o.URL
		}
		return ""
	}
	switch e.Status {
	case schemas.StatusSent, schemas.StatusUnknown:
		if len(p.own) < maxOwn {
			o := own{URL: e.CallbackURL, Until: now.Add(ownFor)}
			p.own[k] = o
			s.save(p, ownKind, k, encode(o))
		}
	default: // what follows has it still
	}
	return e.CallbackURL
}

func (s *stage) open(j *job, p *part, in *intake, now schemas.Millis) {
	j.part, j.from, j.arrived = p, in, now
	in.begin(j.offset)
	s.count++
}

// close notes that a record is finished.
func (s *stage) close(j *job) {
	j.from.end(j.offset)
	s.count--
}

// arrive says what becomes of a callback.
func (s *stage) arrive(j *job, now schemas.Millis) {
	j.arrived = now
	switch what, until := j.part.book.arrive(j); what {
	case known:
		s.close(j)
	case behind:
		s.leave(j, tierFrom(max(until.Sub(now), time.Second)).Wait, 0, now)
	case next:
		if s.count > maxHere {
			s.leave(j, nextRoom(j.age(now)), 0, now)
			return
		}
		s.here = append(s.here, waiter{j, now})
	case first:
		s.submit(j, now)
	}
}

// age is for how long a callback could not be told.
func (j *job) age(now schemas.Millis) time.Duration {
	if j.Since == 0 {
		return 0
	}
	return now.Sub(j.Since)
}

// submit puts a callback that may be told into its endpoint's queue.
func (s *stage) submit(j *job, now schemas.Millis) {
	t := s.find(j, now)
	if t == nil {
		return
	}
	e := s.pool.of(j.tenant, t)
	ok, down := e.room(now)
	switch {
	case down:
		s.tryLater(j, now)
	case !ok || s.count > maxHere:
		s.leave(j, nextRoom(j.age(now)), 0, now)
	default:
		j.arrived = now
		s.here = append(s.here, waiter{j, now})
		s.pool.enqueue(e, j)
	}
}

// find returns whom to call for a callback; nil where it ended, or went away, because
// there is nobody.
func (s *stage) find(j *job, now schemas.Millis) *target {
	t := s.targets.find(j.tenant, j.URL)
	switch {
	case t == nil:
		s.finish(j, outcomeWithdrawn, now)
		return nil
	case t.err != nil:
		s.complain(j, t.host, t.err.Error())
		s.tryLater(j, now)
		return nil
	case s.notes.disabled(t.print, now):
		s.finish(j, outcomeDisabled, now)
		return nil
	}
	return t
}

// tryLater lets a callback wait that could not be told, or gives it up.
func (s *stage) tryLater(j *job, now schemas.Millis) { s.tryAfter(j, 0, now) }

func (s *stage) tryAfter(j *job, asked time.Duration, now schemas.Millis) {
	age := j.age(now)
	if age >= keepTrying {
		s.cfg.Logger.Warn("a callback is given up: nobody took it for three days; weir callbacks replay makes it again", "tenant", j.tenant, "message_id", j.message, "status", string(j.Status))
		s.finish(j, outcomeGivenUp, now)
		return
	}
	wait := min(nextTry(age), max(keepTrying-age, time.Second))
	switch {
	case asked > wait:
		s.leave(j, topics.TierFor(asked).Wait, now.Add(asked), now)
	case wait < nextTry(age): // to the end of three days
		s.leave(j, topics.TierFor(wait).Wait, now.Add(wait), now)
	default:
		s.leave(j, wait, 0, now)
	}
}

// leave sends a callback, and what is here behind it, to a delay topic: for the time of a
// tier, or until due.
func (s *stage) leave(j *job, wait time.Duration, due, now schemas.Millis) {
	p := j.part
	back := due
	if back == 0 {
		back = now.Add(wait)
	}
	for _, x := range p.book.leave(j, back) {
		if x.Since == 0 {
			x.Since = now
		}
		topic := s.cfg.Names.Delay(tierFrom(wait).Name)
		s.out = append(s.out, x.waits(topic, schemas.PartitionOf(p.salt, s.cfg.DelayPartitions), p.salt, s.cfg.Names.Callbacks(), due))
		s.close(x)
	}
}

// finish ends a callback, told or not, and goes on to the next of its message.
func (s *stage) finish(j *job, outcome string, now schemas.Millis) {
	s.metrics.callbacks.WithLabelValues(outcome).Inc()
	s.close(j)
	if then := j.part.book.end(j); then != nil {
		s.submit(then, now)
	}
}

// late sends away what has waited too long here for its turn.
func (s *stage) late(now schemas.Millis) {
	n := 0
	for ; n < len(s.here); n++ {
		j := s.here[n].job
		if j.entry.job != j || j.entry.place != waiting || j.arrived != s.here[n].at {
			continue
		}
		if now.Sub(j.arrived) < queueFor {
			break
		}
		s.leave(j, nextRoom(j.age(now)), 0, now)
	}
	s.here = slices.Delete(s.here, 0, n)
}

// save writes a record of the state; nil is a tombstone.
func (s *stage) save(p *part, kind byte, k messageKey, value []byte) {
	s.out = append(s.out, &kgo.Record{Topic: s.cfg.Names.CallbackState(), Partition: p.num, Key: stateKeyOf(kind, k), Value: value})
}

// tidy forgets what is over, and notes how far the stage is, now and then.
func (s *stage) tidy(clock time.Time, now schemas.Millis) {
	for _, p := range s.parts {
		if p.noted == (meta{}) {
			p.noted = p.meta()
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

// land takes a call's end.
func (s *stage) land(l landed, now schemas.Millis) {
	s.pool.landed(l.end, l.what, l.done)
	s.metrics.seconds.Observe(l.took.Seconds())
	l.end.used, l.end.last = now, l.why
	j := l.job
	switch l.what {
	case taken:
		s.finish(j, string(taken), now)
	case gone:
		s.disable(j, l.target, now)
		s.finish(j, outcomeDisabled, now)
	case failed, refused:
		s.metrics.callbacks.WithLabelValues(string(l.what)).Inc()
		s.complain(j, l.target.host, l.why)
		if l.after > 0 {
			l.end.hold = max(l.end.hold, now.Add(l.after))
		}
		s.tryAfter(j, l.after, now)
	}
}

// disable notes that an endpoint wants no more.
func (s *stage) disable(j *job, t *target, now schemas.Millis) {
	n := Note{Tenant: j.tenant, Host: t.host, Since: now, Own: t.own}
	s.cfg.Logger.Warn("a callback's endpoint answered 410: it is disabled until its address or secret changes, or weir callbacks enable", "tenant", j.tenant, "host", t.host)
	s.notes.set(t.print, n)
	s.out = append(s.out, &kgo.Record{Topic: s.cfg.Names.Endpoints(), Partition: 0, Key: []byte(noteKey(t.print)), Value: encode(n)})
}

// complain logs that callbacks of a tenant fail, at most once a minute for each host.
func (s *stage) complain(j *job, host, why string) {
	k := endpointKey{j.tenant, host}
	now := s.cfg.Now()
	if now.Sub(s.complained[k]) < tidyEvery {
		return
	}
	if len(s.complained) > 10_000 {
		clear(s.complained)
	}
	s.complained[k] = now
	s.cfg.Logger.Warn("callbacks fail; they are tried for three days", "tenant", j.tenant, "host", host, "error", why)
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

// saltOf returns a key whose partition of n is num: what waits comes back to where its
// state is, whatever its recipient's partition is.
func saltOf(num, n int32) string {
	for i := 0; ; i++ {
		if k := fmt.Sprintf("callbacks-%d", i); schemas.PartitionOf(k, n) == num {
			return k
		}
	}
}
