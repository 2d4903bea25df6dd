package limit

import (
	"math"

	"github.com/weirhq/weir/schemas"
)

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
		if p.cost <= w.n-count || p.again && w.bucket() {
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
		if retry > res.RetryAt { // the event names the window that opens last
			res.RetryAt = retry
			copy(res.Refused[1:], res.Refused)
			res.Refused[0] = e
		}
	}
}
