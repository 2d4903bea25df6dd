package limit

import (
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
	// Refused has every window that is full, the one that opens last first.
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
	again   bool   // a place that is put back or moves within its attempt: no bucket is drawn from
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
	t.DecideStep(res, r, s, nil, old, nil, now)
}

func (t *Table) decide(res *Result, r *Rules, s *Subject, old []schemas.Charge, now schemas.Millis, remaining bool) {
	res.reset()
	now = t.advance(now)
	t.use(r)
	t.planFor(r, s)
	t.answer(res, r, old, nil, now, remaining)
}

// answer decides the plans, without the places of earlier attempts (old) and of this
// one (taken).
func (t *Table) answer(res *Result, r *Rules, old, taken []schemas.Charge, now schemas.Millis, remaining bool) {
	mark := len(t.undo)
	holds := len(old)+len(taken) > 0
	if holds {
		t.mark = mark
		for i := range old {
			if r.Returnable(old[i]) {
				t.moveOut(res, r, &old[i], now)
			}
		}
		for i := range taken {
			if r.kept(taken[i]) {
				t.moveOut(res, r, &taken[i], now)
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
		if holds {
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
	if holds {
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

// moveOut removes a place for which the decision takes another.
func (t *Table) moveOut(res *Result, r *Rules, c *schemas.Charge, now schemas.Millis) {
	if t.takeOut(r, c, now) {
		res.Returned = append(res.Returned, *c)
	} else {
		res.Missing = append(res.Missing, *c)
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

func (res *Result) reset() {
	res.OK, res.RetryAt = false, 0
	res.Charges, res.Returned, res.Missing = res.Charges[:0], res.Returned[:0], res.Missing[:0]
	res.Refused, res.Observed, res.Passed, res.Remaining = res.Refused[:0], res.Observed[:0], res.Passed[:0], res.Remaining[:0]
}
