package limit

import (
	"math"
	"runtime"
	"slices"

	"github.com/weirhq/weir/schemas"
)

// Result is what a decision said and did.
type Result struct {
	OK       bool
	Charges  []schemas.Charge // the places taken
	Returned []schemas.Charge // the old places removed; only if OK
	Missing  []schemas.Charge // old places that do not stand; only if OK

	// RetryAt is the earliest moment at which the same decision passes if
	// nothing else happens; 0 if it passed, or never will.
	RetryAt schemas.Millis
	// Refused has every window that is full.
	Refused []schemas.Evidence
	// Observed has every window that is full of the limits that only observe.
	// They refuse nobody: who passes takes no place in a limit that is named
	// here, and gives up the one it held there.
	Observed []schemas.Evidence
	// Passed has what was asked of a wide limit that takes no place: the rules have
	// none of that name and scope, or it only observes and is full.
	Passed []schemas.Ask
	// Remaining has every window of every limit that applies, after the
	// decision; DecideInto leaves it out. A refused message's own old places are not counted in it.
	Remaining []Remaining
}

// Remaining is what is left in one window.
type Remaining struct {
	Limit  string
	Window string // as in the policy: 5/1h
	N      int64
	Left   int64
	// Reset is when more is left: the oldest place that counts leaves, the
	// calendar's next period begins, or a bucket has one token more. 0 if a
	// rolling window counts nothing, or a bucket is full.
	Reset schemas.Millis
}

// plan is one limit that applies to the subject of a decision.
type plan struct {
	l       *rule
	windows []window
	cost    int64
	key     [2]uint64
	scope   string
	slot    *slot  // key's, or nil; if found is right
	at      uint32 // where key's slot was when it was last looked for
	found   uint64 // Table.moves when slot was; 0 if it never was
	skip    bool   // it only observes, and is full
	again   bool   // an old place put back: no bucket is drawn from
}

// Decide answers all limits that apply to s at once, all or nothing. old are
// the places that the message holds from earlier attempts: they are removed and
// the decision is taken without them in one step, and if it is refused they
// stay. Places in limits that count attempts are left alone, and so is what was
// drawn from a bucket: there every attempt draws.
func (t *Table) Decide(r *Rules, s *Subject, old []schemas.Charge, now schemas.Millis) Result {
	var res Result
	t.decide(&res, r, s, old, now, true)
	runtime.KeepAlive(t)
	return res
}

// DecideInto is Decide without what remains, into a result whose slices are
// used again: for many decisions of which nobody asks that. Peek tells it.
func (t *Table) DecideInto(res *Result, r *Rules, s *Subject, old []schemas.Charge, now schemas.Millis) {
	t.DecideStep(res, r, s, nil, old, now)
}

func (t *Table) decide(res *Result, r *Rules, s *Subject, old []schemas.Charge, now schemas.Millis, remaining bool) {
	res.reset()
	now = t.advance(now)
	t.use(r)
	t.planFor(r, s)
	t.answer(res, r, old, now, remaining)
}

// answer decides the plans.
func (t *Table) answer(res *Result, r *Rules, old []schemas.Charge, now schemas.Millis, remaining bool) {
	mark := len(t.undo)
	if len(old) > 0 {
		t.mark = mark
		for i := range old {
			if !r.Returnable(old[i]) {
				continue
			}
			if t.takeOut(r, &old[i], now) {
				res.Returned = append(res.Returned, old[i])
			} else {
				res.Missing = append(res.Missing, old[i])
			}
		}
	}
	for i := range t.plans {
		p := &t.plans[i]
		if !t.passes(p, now) {
			t.evaluate(res, p, now)
		}
		if remaining {
			t.remaining(res, p, now)
		}
	}
	if len(res.Refused) > 0 {
		if len(old) > 0 {
			t.undoTo(mark)
			t.mark = -1
			res.Returned, res.Missing = res.Returned[:0], res.Missing[:0]
		}
		if res.RetryAt == never {
			res.RetryAt = 0
		}
		res.Passed = res.Passed[:0]
		return
	}
	res.OK = true
	if len(old) > 0 {
		t.mark = -1
		t.keepFrom(mark)
	}
	left := res.Remaining // one for each window, in their order; or none
	for i := range t.plans {
		p := &t.plans[i]
		if !p.skip {
			t.place(p, now, now)
			var c *schemas.Charge
			res.Charges, c = extend(res.Charges)
			c.Limit, c.Scope, c.T, c.Cost = p.l.name, p.scope, now, p.cost
		} else if p.l.wide {
			res.Passed = append(res.Passed, schemas.Ask{Limit: p.l.name, Scope: p.scope, Cost: p.cost})
		}
		if !remaining {
			continue
		}
		for j := range p.windows {
			if !p.skip {
				left[j].take(&p.windows[j], p.cost, now)
			}
		}
		left = left[len(p.windows):]
	}
}

// take counts a place that was just taken; a window that begins in this very
// millisecond does not see it.
func (m *Remaining) take(w *window, cost int64, now schemas.Millis) {
	if w.since >= now {
		return
	}
	m.Left -= cost
	switch {
	case m.Reset != 0:
	case w.bucket(): // it was full
		m.Reset = now + w.wait(w.parts)
	default:
		m.Reset = now + w.length
	}
}

// Record takes the places of a message that was sent elsewhere at the given
// time, whether or not they are free: at is not later than now, and old places
// count as far as a window still sees them.
func (t *Table) Record(r *Rules, s *Subject, at, now schemas.Millis) []schemas.Charge {
	defer runtime.KeepAlive(t)
	now = t.advance(now)
	at = max(min(at, now), 1)
	t.use(r)
	t.planFor(r, s)
	return t.record(at, now)
}

// record takes the places of the plans as of at.
func (t *Table) record(at, now schemas.Millis) (charges []schemas.Charge) {
	for i := range t.plans {
		p := &t.plans[i]
		p.cost = min(p.cost, maxCount)
		t.place(p, at, now)
		charges = append(charges, schemas.Charge{Limit: p.l.name, Scope: p.scope, T: at, Cost: p.cost})
	}
	return charges
}

// Peek returns what is left for s without taking anything.
func (t *Table) Peek(r *Rules, s *Subject, now schemas.Millis) []Remaining {
	defer runtime.KeepAlive(t)
	now = min(max(now, t.last), maxTime)
	t.use(r)
	t.planFor(r, s)
	var res Result
	for i := range t.plans {
		t.remaining(&res, &t.plans[i], now)
	}
	return res.Remaining
}

// GiveBack removes exactly these places, by limit, scope, time and cost, and
// says which of them stood. One of a former calendar period leaves the count of
// the running one as it is. Only a place that no rolling window sees any more
// and that a calendar window of more than 100 counts is taken at its word: of
// those the count is kept, not the places. A bucket never gets anything back.
// Places in limits that count attempts, or have only buckets, are never given
// back, and are in neither list.
func (t *Table) GiveBack(r *Rules, charges []schemas.Charge, now schemas.Millis) (returned, missing []schemas.Charge) {
	defer runtime.KeepAlive(t)
	now = t.advance(now)
	t.use(r)
	for i := range charges {
		switch {
		case !r.Returnable(charges[i]):
		case t.takeOut(r, &charges[i], now):
			returned = append(returned, charges[i])
		default:
			missing = append(missing, charges[i])
		}
	}
	return returned, missing
}

// planFor sets Table.plans to the limits that apply to s.
func (t *Table) planFor(r *Rules, s *Subject) {
	t.plans = t.plans[:0]
	for i := range r.limits {
		l := &r.limits[i]
		if l.wide || !l.applies(s) {
			continue
		}
		var p *plan
		t.plans, p = extend(t.plans)
		p.l, p.windows, p.cost, p.scope, p.found, p.skip, p.again = l, l.windowsFor(s.Recipient), l.cost(s), s.Recipient, 0, false, false
		var ok bool
		if p.key, p.at, ok = t.ahead.plain(l, s); ok {
			continue
		}
		t.named = l.text(t.named[:0], s)
		p.key = t.ahead.of(t.named)
		if scope := t.named[len(l.prefix):]; string(scope) != s.Recipient { // so it costs no memory as a rule
			p.scope = string(scope)
		}
	}
}

// slotOf returns the slot of a plan's key, or nil.
func (t *Table) slotOf(p *plan) *slot {
	if p.found != t.moves {
		t.findAgain(p)
	}
	return p.slot
}

func (t *Table) findAgain(p *plan) {
	p.slot, p.at = t.again(p.key, p.at)
	p.found = t.moves
}

// extend returns s with one more, and that one, which still has what was there:
// a composite literal would be made elsewhere and copied, and copying is a tenth
// of a decision.
func extend[T any](s []T) ([]T, *T) {
	n := len(s)
	s = slices.Grow(s, 1)[:n+1]
	return s, &s[n]
}

// never is a retry-at that no other exceeds.
const never = schemas.Millis(math.MaxInt64)

// passes reports whether every window of p has room for it: almost every
// decision asks no more. Of a rolling window that is one look, at the place
// that must have left.
func (t *Table) passes(p *plan, now schemas.Millis) bool {
	s := t.slotOf(p)
	if s == nil || s.flags&flagWeighted != 0 || s.long() {
		return t.roomy(s, p, now)
	}
	ring, origin := t.ring(s), s.origin()
	for i := range p.windows {
		w := &p.windows[i]
		if w.calendar || w.bucket() {
			if count, _, _ := t.count(s, p.l, w, now); p.cost > w.n-count {
				return false
			}
			continue
		}
		if p.cost > w.n {
			return false
		}
		// This many places, the latest, may not all count.
		if k := len(ring) - int(w.n-p.cost+1); k >= 0 && origin+schemas.Millis(ring[k]) > w.opens(now) {
			return false
		}
	}
	return true
}

// roomy is passes for slots whose places are to be added up.
func (t *Table) roomy(s *slot, p *plan, now schemas.Millis) bool {
	for i := range p.windows {
		if count, _, _ := t.count(s, p.l, &p.windows[i], now); p.cost > p.windows[i].n-count {
			return false
		}
	}
	return true
}

// count returns what window w of limit l counts in s, which may be nil: of a
// rolling window also the index of the first place that it counts, of a bucket
// its level in parts.
func (t *Table) count(s *slot, l *rule, w *window, now schemas.Millis) (count int64, first int, level int64) {
	switch {
	case w.bucket():
		level = w.n * w.parts
		if s != nil {
			level = w.level(t.tokens(s), l.changed, now)
		}
		count = w.n - level/w.parts
	case s == nil:
	case w.calendar:
		if c, ok := s.counter(int(w.unit)); ok && s.origin()+schemas.Millis(s.w[c]) >= t.from(l, int(w.unit), now) {
			count = int64(s.w[c+1])
		}
	default:
		first = t.after(s, w.opens(now))
		count = t.sum(s, first)
	}
	return count, first, level
}

// remaining adds what is left in p's windows to res.
func (t *Table) remaining(res *Result, p *plan, now schemas.Millis) {
	s := t.slotOf(p)
	for i := range p.windows {
		w := &p.windows[i]
		count, first, level := t.count(s, p.l, w, now)
		m := Remaining{Limit: p.l.name, Window: w.text, N: w.n, Left: max(w.n-count, 0)}
		switch {
		case w.bucket():
			if left := level / w.parts; left < w.n {
				m.Reset = now + w.wait((left+1)*w.parts-level)
			}
		case w.calendar:
			m.Reset = t.period(p.l, int(w.unit), now).end
		case count > 0:
			m.Reset = t.nth(s, first, 1) + w.length
		}
		res.Remaining = append(res.Remaining, m)
	}
}

// evaluate adds the windows of p that are full to res.
func (t *Table) evaluate(res *Result, p *plan, now schemas.Millis) {
	s := t.slotOf(p)
	for i := range p.windows {
		w := &p.windows[i]
		count, first, level := t.count(s, p.l, w, now)
		if p.cost <= w.n-count {
			continue
		}
		e := schemas.Evidence{Limit: p.l.name, Scope: p.scope, Window: w.text, N: w.n, Cost: p.cost, Since: w.since, Count: count}
		switch {
		case w.calendar:
			e.Start = t.period(p.l, int(w.unit), now).start
		case !w.bucket() && count > 0:
			e.Oldest = t.nth(s, first, 1)
		}
		if p.l.observe {
			p.skip = true
			res.Observed = append(res.Observed, e)
			continue
		}
		res.Refused = append(res.Refused, e)
		retry := never
		switch {
		case p.cost > w.n:
		case w.calendar:
			retry = t.period(p.l, int(w.unit), now).end
		case w.bucket():
			retry = now + w.wait(p.cost*w.parts-level)
		default:
			// So much must leave; a place leaves a window's length after it was taken.
			retry = t.nth(s, first, p.cost+count-w.n) + w.length
		}
		res.RetryAt = max(res.RetryAt, retry)
	}
}

// place writes a place of p at the given time.
func (t *Table) place(p *plan, at, now schemas.Millis) {
	l, cost := p.l, uint32(p.cost)
	s := t.slotOf(p)
	if s == nil {
		s = t.touchNew(p.key)
	} else {
		t.touch(s, p.at)
	}
	s.limit = l.hash
	unseen := t.unseen(l, now)
	if l.rolls && cost == 1 && s.push(at, unseen, now) {
		return
	}
	t.dropOldest(s, t.after(s, unseen))
	if s.long() {
		t.shorten(s, now)
	}
	ringed := at > unseen // else only a counter may see it
	var bucket tokens
	if p.again {
		bucket = t.tokens(s)
	} else if w := bucketOf(p.windows); w != nil {
		was := t.tokens(s)
		if w.level(was, l.changed, now) == w.n*w.parts {
			was = tokens{} // full, and perhaps swept: what is recorded as of before then counts the same in both
		}
		if bucket = w.spend(was, l.changed, at, p.cost); bucket.t+schemas.Millis(bucket.fill) <= now {
			bucket = tokens{} // recorded long ago: full again
		}
	}
	if s.flags&flagUnits != l.units || (s.flags&flagBucket != 0) != (bucket.parts > 0) || !s.fits(now+1) || ringed && !t.room(s, cost) {
		st := t.open(s)
		for u := range unitCount {
			if l.units&(1<<u) == 0 {
				st.from[u], st.count[u] = 0, 0
			} else if st.units&(1<<u) == 0 {
				st.from[u], st.count[u] = t.from(l, u, now), 0
			}
		}
		st.units, st.bucket = l.units, bucket
		if ringed && !st.long {
			st.insert(at, cost)
			ringed = false
		}
		t.build(s, st, now)
	} else if bucket.parts > 0 {
		t.keep(s, bucket)
	}
	if ringed {
		t.insert(s, at, cost)
	}
	for u := range unitCount {
		c, ok := s.counter(u)
		if !ok {
			continue
		}
		from := t.from(l, u, now)
		if s.origin()+schemas.Millis(s.w[c]) < from {
			s.w[c], s.w[c+1] = uint32(from-s.origin()), 0
		}
		if at >= s.origin()+schemas.Millis(s.w[c]) {
			s.w[c+1] = uint32(min(uint64(s.w[c+1])+uint64(cost), math.MaxUint32))
		}
	}
}

// takeOut removes one place, if it stands.
func (t *Table) takeOut(r *Rules, c *schemas.Charge, now schemas.Millis) bool {
	s, at := t.locate(t.keyOf(c.Limit, c.Scope))
	if s == nil || c.Cost < 1 || c.Cost > maxCount {
		return false
	}
	l := r.byName[c.Limit]
	index := t.placed(s, c.T, c.Cost)
	if index < 0 && (l == nil || c.T > rolledOut(l, now)) {
		return false
	}
	counted := uint8(0)
	for u := range unitCount {
		k, ok := s.counter(u)
		if !ok || l != nil && l.units&(1<<u) == 0 {
			continue
		}
		from, count := s.origin()+schemas.Millis(s.w[k]), int64(s.w[k+1])
		if l != nil && from < t.from(l, u, now) {
			continue // of a former period
		}
		// Where all that is counted is here by name, it would have been found.
		stands := index >= 0 || t.sum(s, t.after(s, from-1)) < count
		if stands && c.T >= from && count >= c.Cost {
			counted |= 1 << u
		}
	}
	if index < 0 && counted == 0 {
		return false
	}
	t.touch(s, at)
	if index >= 0 {
		t.dropAt(s, index)
		if s.long() {
			t.shorten(s, now)
		}
	}
	for u := range unitCount {
		if counted&(1<<u) != 0 {
			k, _ := s.counter(u)
			s.w[k+1] -= uint32(c.Cost)
		}
	}
	return true
}

func (res *Result) reset() {
	res.OK, res.RetryAt = false, 0
	res.Charges, res.Returned, res.Missing = res.Charges[:0], res.Returned[:0], res.Missing[:0]
	res.Refused, res.Observed, res.Passed, res.Remaining = res.Refused[:0], res.Observed[:0], res.Passed[:0], res.Remaining[:0]
}
