package sink

import (
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// phase is where a partition stands between two confirmations.
type phase string

const (
	gathering phase = "gathering" // nothing is planned
	rereading phase = "rereading" // a former owner's plan is known, and its records are being read again
	renewing  phase = "renewing"  // a plan is over: ClickHouse is asked whether it still remembers the token
	looking   phase = "looking"   // rows of a range may be in ClickHouse though no token would say so: it is asked
	planning  phase = "planning"  // a plan is made and not yet committed: nothing may be inserted
	inserting phase = "inserting" // the plan is committed, the insert is under way or will be tried again
)

// limits says when a range is cut and how long its plan holds.
type limits struct {
	rows   int
	bytes  int
	linger time.Duration // after the first record of a range
	every  time.Duration // between two ranges of a partition
	day    time.Duration // after a range, for each day that its rows are of: a table remembers parts, and has one for each day of an insert
	life   time.Duration // of a plan: until then its token is sure to be remembered
	grace  time.Duration // after a plan's end, until no insert of it can be under way any more
}

const (
	unknown = math.MaxInt64 // a doubt: nobody knows what ClickHouse has of the partition
	atStart = -1            // a from: where the log begins
)

// partition is what the sink knows of one partition. Its methods decide and do
// no IO; the caller says what the time is.
type partition struct {
	id    int32
	topic string // the topic's id
	lim   limits

	phase phase
	from  int64 // everything below is in ClickHouse; or atStart
	first bool  // nothing was ever loaded
	dirty bool  // from is not committed yet
	doubt int64 // rows below it may be in ClickHouse already: look before planning; or unknown

	settled time.Time // before it, an insert that was planned by others may be under way

	plan Plan
	rows []*kgo.Record // of the plan

	rowsBytes int

	next      []*kgo.Record // read, not planned
	nextBytes int
	read      int64 // the offset after the last record read
	arrived   time.Time
	cut       time.Time // when the last range was
	days      int       // that the rows of the last range were of

	running  bool // an insert is under way
	failures int
	retryAt  time.Time
}

// newPartition is a partition just assigned. A plan without a range is a
// confirmation.
func newPartition(topic string, plan Plan, lim limits) *partition {
	p := &partition{
		id: plan.Partition, topic: topic, lim: lim, phase: gathering,
		from: plan.From, first: plan.From == atStart || plan.First, read: plan.From, doubt: plan.Doubt,
	}
	if plan.planned() {
		p.plan, p.phase = plan, rereading
	}
	return p
}

// add takes a record that was read. One that was read before is ignored.
func (p *partition) add(r *kgo.Record, now time.Time) {
	if r.Offset < p.read {
		return
	}
	if p.from == atStart {
		p.from = r.Offset
	}
	if len(p.next) == 0 {
		p.arrived = now
	}
	p.read = r.Offset + 1
	p.next = append(p.next, r)
	p.nextBytes += size(r)
	if p.phase == rereading && p.read >= p.plan.To {
		p.reread(now)
	}
}

// pass takes the marker of a transaction, which is no row. Where nothing but markers
// was read since the last row that ClickHouse has, the group is to stand behind them:
// retention deletes them one day, and what stands before them would then seem to lack
// what was deleted.
func (p *partition) pass(offset int64, now time.Time) {
	if offset < p.read {
		return
	}
	p.read = offset + 1
	if p.phase == rereading && p.read >= p.plan.To {
		p.reread(now)
	}
	p.rest()
}

// rest moves the confirmation to where everything was read.
func (p *partition) rest() {
	if p.phase == gathering && len(p.next) == 0 && p.from != atStart && p.from < p.read {
		p.from, p.dirty = p.read, true
	}
}

// reread goes on with a former owner's plan, all of whose records are there.
func (p *partition) reread(now time.Time) {
	n := 0
	for n < len(p.next) && p.next[n].Offset < p.plan.To {
		n++
	}
	p.take(n, now)
	p.phase = inserting
	if n == 0 {
		p.look(now)
	}
}

// insertable reports whether the plan's rows can be made, and until its end may
// be sent: the same token must not carry other rows. A plan that is not is waited
// out, since its former owner's insert may be under way.
func (p *partition) insertable(now time.Time) bool {
	return encodes(p.plan.Encoder) && schemas.MillisOf(now) < p.plan.Expires
}

// full reports that no more should be read for now.
func (p *partition) full() bool {
	return p.phase != rereading && (len(p.next) >= p.lim.rows || p.nextBytes >= p.lim.bytes)
}

// due is when the records read become a range, and false when there are none or
// a plan stands already.
func (p *partition) due() (time.Time, bool) {
	if p.phase != gathering || len(p.next) == 0 {
		return time.Time{}, false
	}
	if p.full() {
		return p.rests(), true
	}
	at := p.arrived.Add(p.lim.linger)
	for _, next := range []time.Time{p.cut.Add(p.lim.every), p.rests()} {
		if next.After(at) {
			at = next
		}
	}
	return at, true
}

// usualDays is of how many days the rows of a range may be for which limits.every is enough.
const usualDays = 2

// rests is until when no range may follow one of many days, also if memory is short; zero when one may.
func (p *partition) rests() time.Time {
	if p.days <= usualDays {
		return time.Time{}
	}
	return p.cut.Add(time.Duration(p.days) * p.lim.day)
}

// makePlan cuts a range if one is due, or if pressed because memory is short.
func (p *partition) makePlan(now time.Time, pressed bool) {
	at, ok := p.due()
	if !ok || at.After(now) && !pressed || p.rests().After(now) {
		return
	}
	// Rows are of the day of their append, or of the week before it: so a range is of nine days at most.
	n, bytes := 0, 0
	for n < len(p.next) && n < p.lim.rows && (n == 0 || bytes < p.lim.bytes && p.next[n].Timestamp.Sub(p.next[0].Timestamp) < 24*time.Hour) {
		bytes += size(p.next[n])
		n++
	}
	to := p.next[n-1].Offset + 1
	p.take(n, now)
	p.cut = now
	if p.from < p.doubt {
		p.look(now)
		return
	}
	p.planTo(to, 0, now)
}

// planTo plans the rows taken. With a try of its own a token is another one.
func (p *partition) planTo(to, try int64, now time.Time) {
	p.plan = Plan{
		Topic: p.topic, Partition: p.id, From: p.from, To: to, Encoder: EncoderVersion,
		Made: schemas.MillisOf(now), Expires: schemas.MillisOf(now.Add(p.lim.life)), Try: try, Doubt: p.doubt, First: p.first,
	}
	p.phase = planning
}

// take moves the first n records read into the plan.
func (p *partition) take(n int, now time.Time) {
	p.rows = p.next[:n:n]
	p.next = append([]*kgo.Record(nil), p.next[n:]...)
	p.rowsBytes, p.nextBytes = p.nextBytes, 0
	for _, r := range p.next {
		p.nextBytes += size(r)
	}
	p.rowsBytes -= p.nextBytes
	p.arrived = now
}

// settle waits until no insert of a plan that is given up can be under way, before
// ClickHouse is asked for anything.
func (p *partition) settle(now time.Time) { p.settled = now.Add(p.lim.life + p.lim.grace) }

// look asks ClickHouse, at a time, before anything is planned. What is committed
// stays: a new owner comes to the same question.
func (p *partition) look(at time.Time) {
	if at.Before(p.settled) {
		at = p.settled
	}
	p.doubt = max(p.doubt, p.plan.To)
	p.plan = Plan{}
	p.phase = looking
	p.failures, p.retryAt = 0, at
}

// looked is told which offsets of the rows taken ClickHouse has, and up to where it
// may have others. Leading rows that are there are confirmed; a leading run
// of rows that are not becomes a plan, so that a token always stands for every
// record of its range; the rest is looked at again. It returns how many records
// were confirmed.
func (p *partition) looked(present map[int64]struct{}, doubt int64, now time.Time) int {
	there := func(i int) bool { _, ok := present[p.rows[i].Offset]; return ok }
	n := 0
	for n < len(p.rows) && there(n) == there(0) {
		n++
	}
	p.doubt = doubt
	p.failures, p.retryAt = 0, time.Time{}
	p.giveBack(n)
	if n == 0 || there(0) {
		if n > 0 {
			p.from, p.first = p.rows[n-1].Offset+1, false
		}
		p.rows, p.rowsBytes = nil, 0
		p.phase, p.dirty = gathering, true
		p.cut = time.Time{}
		p.rest()
		return n
	}
	// The time makes the token a new one. It is part of the plan, so whoever
	// goes on with the plan has the same.
	p.planTo(p.rows[n-1].Offset+1, now.UnixMilli(), now)
	return 0
}

// giveBack returns all rows taken but the first n to those that are not planned.
func (p *partition) giveBack(n int) {
	back := p.rows[n:]
	p.next = append(append(make([]*kgo.Record, 0, len(back)+len(p.next)), back...), p.next...)
	p.rows = p.rows[:n:n]
	for _, r := range back {
		p.rowsBytes -= size(r)
		p.nextBytes += size(r)
	}
}

// expire leaves a plan whose token may have been forgotten. An insert that broke off
// may have filled some tables and not others, which only the same token can mend: so
// it is asked first whether that is still remembered.
func (p *partition) expire(now time.Time) {
	if p.phase != inserting || p.running || schemas.MillisOf(now) < p.plan.Expires {
		return
	}
	if !encodes(p.plan.Encoder) || p.plan.Made == 0 {
		p.abandon(now)
		return
	}
	p.phase = renewing
	p.failures, p.retryAt = 0, time.Time{}
}

// overdue reports whether an insert is under way that must not be any more. Plans end by the wall
// clock: a timer does not go on while a machine is suspended.
func (p *partition) overdue(now time.Time) bool {
	return p.phase == inserting && p.running && schemas.MillisOf(now) >= p.plan.Expires
}

// renew is told whether ClickHouse is sure to remember the plan's token. Then the
// plan is made once more, with its token and its rows: an insert of it that is still
// under way does no harm.
func (p *partition) renew(remembered bool, now time.Time) {
	if !remembered {
		p.abandon(now)
		return
	}
	p.plan.Expires = schemas.MillisOf(now.Add(p.lim.life))
	p.phase = planning
	p.failures, p.retryAt = 0, time.Time{}
}

// abandon looks for the rows of a plan, once no insert of it can be under way, which
// would land after the answer. Whoever made the plan may have another clock: so all of
// its life is waited by this process's own.
func (p *partition) abandon(now time.Time) {
	p.settle(now)
	p.look(now)
}

// position is what to commit, if anything.
func (p *partition) position() (Plan, bool) {
	switch p.phase {
	case planning:
		return p.plan, true
	case gathering:
		return Plan{Topic: p.topic, Partition: p.id, From: p.from, To: p.from, Doubt: p.doubt, First: p.first}, p.dirty
	case rereading, renewing, looking, inserting:
		return Plan{}, false
	}
	return Plan{}, false
}

// committed is told that what position returned stands.
func (p *partition) committed() {
	p.dirty = false
	if p.phase == planning {
		p.phase = inserting
	}
}

// wants is when ClickHouse is to be asked, or sent the plan's rows, next; false
// when it is not.
func (p *partition) wants(now time.Time) (time.Time, bool) {
	if (p.phase == looking || p.phase == renewing) && !p.running {
		return p.retryAt, true
	}
	if p.phase != inserting || p.running || !p.insertable(now) {
		return time.Time{}, false
	}
	return p.retryAt, true
}

// wakes is when something is to be done although nothing happens; false when
// nothing is.
func (p *partition) wakes(now time.Time) (time.Time, bool) {
	if p.phase == inserting && !p.running && !p.insertable(now) {
		return p.plan.Expires.Time(), true
	}
	if at, ok := p.wants(now); ok {
		return at, true
	}
	return p.due()
}

// inserted is told that every row of the plan is in ClickHouse.
func (p *partition) inserted() {
	p.from, p.first = p.plan.To, false
	p.rows, p.rowsBytes, p.plan = nil, 0, Plan{}
	p.phase, p.dirty = gathering, true
	p.failures, p.retryAt = 0, time.Time{}
	p.rest()
}

// failed is told that an insert failed, or may have, or that there was no answer.
func (p *partition) failed(retryAt time.Time) {
	p.failures++
	p.retryAt = retryAt
}

// skipped is told that Kafka deleted everything below start before it was
// loaded.
func (p *partition) skipped(start int64, now time.Time) {
	p.read = max(p.read, start)
	if p.phase == rereading {
		// The range's rows are other ones now: ask what is there.
		p.plan.Encoder = 0
		if p.read >= p.plan.To {
			p.reread(now)
		}
	}
}

// oldest is the append time of the oldest record that is not yet confirmed.
func (p *partition) oldest() (time.Time, bool) {
	switch {
	case len(p.rows) > 0:
		return p.rows[0].Timestamp, true
	case len(p.next) > 0:
		return p.next[0].Timestamp, true
	}
	return time.Time{}, false
}

// held is the bytes of the records in memory.
func (p *partition) held() int { return p.rowsBytes + p.nextBytes }

// size is what a record takes in memory, roughly: what surrounds it too.
func size(r *kgo.Record) int { return len(r.Key) + len(r.Value) + 200 }
