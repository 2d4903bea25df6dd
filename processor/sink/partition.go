package sink

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// phase is where a partition stands between two confirmations.
type phase string

const (
	gathering phase = "gathering" // nothing is planned
	rereading phase = "rereading" // a former owner's plan is known, and its records are being read again
	planning  phase = "planning"  // a plan is made and not yet committed: nothing may be inserted
	inserting phase = "inserting" // the plan is committed, the insert is under way or will be tried again
)

// limits says when a range is cut and how long its plan holds.
type limits struct {
	rows   int
	bytes  int
	linger time.Duration // after the first record of a range
	every  time.Duration // between two ranges of a partition
	life   time.Duration // of a plan: until then its token is sure to be remembered
	grace  time.Duration // after a plan's end, until no insert of it can be under way any more
}

// partition is what the sink knows of one partition. Its methods decide and do
// no IO; the caller says what the time is.
type partition struct {
	id    int32
	topic string // the topic's id
	lim   limits

	phase phase
	from  int64 // everything below is in ClickHouse
	dirty bool  // from is not committed yet
	doubt bool  // rows at or above from may be in ClickHouse though no plan says so

	plan Plan
	rows []*kgo.Record // of the plan

	rowsBytes int

	next      []*kgo.Record // read, not planned
	nextBytes int
	read      int64 // the offset after the last record read
	arrived   time.Time
	cut       time.Time // when the last range was

	running  bool // an insert is under way
	failures int
	retryAt  time.Time
}

// newPartition is a partition just assigned. A plan without a range is a
// confirmation; doubt says that the group did not know where it stood.
func newPartition(topic string, plan Plan, doubt bool, lim limits) *partition {
	p := &partition{
		id: plan.Partition, topic: topic, lim: lim, phase: gathering,
		from: plan.From, read: plan.From, doubt: doubt,
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

// reread goes on with a former owner's plan, all of whose records are there.
func (p *partition) reread(now time.Time) {
	n := 0
	for n < len(p.next) && p.next[n].Offset < p.plan.To {
		n++
	}
	p.take(n, now)
	p.phase = inserting
	if p.plan.Encoder != EncoderVersion {
		// The same token must not carry other rows.
		p.replan(schemas.MillisOf(now))
	}
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
		return time.Time{}, true
	}
	at := p.arrived.Add(p.lim.linger)
	if next := p.cut.Add(p.lim.every); next.After(at) {
		at = next
	}
	return at, true
}

// makePlan cuts a range if one is due, or if pressed because memory is short.
func (p *partition) makePlan(now time.Time, pressed bool) {
	at, ok := p.due()
	if !ok || at.After(now) && !pressed {
		return
	}
	n, bytes := 0, 0
	for n < len(p.next) && n < p.lim.rows && (n == 0 || bytes < p.lim.bytes) {
		bytes += size(p.next[n])
		n++
	}
	p.plan = Plan{
		Topic: p.topic, Partition: p.id, From: p.from, To: p.next[n-1].Offset + 1,
		Encoder: EncoderVersion, Expires: schemas.MillisOf(now.Add(p.lim.life)),
	}
	if p.doubt {
		p.plan.Try = 1
	}
	p.take(n, now)
	p.cut = now
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

// replan makes the plan's next try, which inserts only what ClickHouse lacks.
func (p *partition) replan(now schemas.Millis) {
	p.plan.Try++
	p.plan.Encoder = EncoderVersion
	p.plan.Expires = now.Add(p.lim.life)
	p.phase = planning
}

// expire replaces a plan whose token may have been forgotten, once no insert of
// it can be under way.
func (p *partition) expire(now time.Time) {
	if p.phase == inserting && !p.running && schemas.MillisOf(now) >= p.plan.Expires.Add(p.lim.grace) {
		p.replan(schemas.MillisOf(now))
	}
}

// position is what to commit, if anything.
func (p *partition) position() (Plan, bool) {
	switch p.phase {
	case planning:
		return p.plan, true
	case gathering:
		return Plan{Topic: p.topic, Partition: p.id, From: p.from, To: p.from}, p.dirty
	case rereading, inserting:
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

// wants is when the next insert is to be tried; false when there is none to try.
func (p *partition) wants(now time.Time) (time.Time, bool) {
	if p.phase != inserting || p.running {
		return time.Time{}, false
	}
	if schemas.MillisOf(now) >= p.plan.Expires {
		// Wait until it can be planned anew.
		return time.Time{}, false
	}
	return p.retryAt, true
}

// wakes is when something is to be done although nothing happens; false when
// nothing is.
func (p *partition) wakes(now time.Time) (time.Time, bool) {
	if p.phase == inserting && !p.running && schemas.MillisOf(now) >= p.plan.Expires {
		return p.plan.Expires.Add(p.lim.grace).Time(), true
	}
	if at, ok := p.wants(now); ok {
		return at, true
	}
	return p.due()
}

// inserted is told that every row of the plan is in ClickHouse. clear says that
// ClickHouse has nothing at or above the plan's end.
func (p *partition) inserted(clear bool) {
	p.from = p.plan.To
	p.rows, p.rowsBytes, p.plan = nil, 0, Plan{}
	p.phase, p.dirty = gathering, true
	p.failures, p.retryAt = 0, time.Time{}
	if clear {
		p.doubt = false
	}
}

// failed is told that an insert failed, or may have.
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
