package limit

import (
	"math"

	"github.com/weirhq/weir/schemas"
)

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
