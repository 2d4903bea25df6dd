package limit

import (
	"runtime"

	"github.com/weirhq/weir/schemas"
)

// Take takes the places of a message that was let through elsewhere, or before:
// in the limits of s's recipient, unless s is nil, and in these wide ones, whether
// or not there is room. It leaves out the limits that skip names: what only
// observes, and was full, has no place. Of the asks that take none, passed has
// those that the rules know.
func (t *Table) Take(r *Rules, s *Subject, asks []schemas.Ask, skip func(limit string) bool, now schemas.Millis) (charges []schemas.Charge, passed []schemas.Ask) {
	defer runtime.KeepAlive(t)
	now = t.advance(now)
	t.use(r)
	t.plans = t.plans[:0]
	if s != nil {
		t.planFor(r, s)
	}
	for i := range asks {
		t.planAsk(r, &asks[i])
	}
	n := 0
	for i := range t.plans {
		p := &t.plans[i]
		if skip != nil && skip(p.l.name) {
			if p.l.wide {
				passed = append(passed, schemas.Ask{Limit: p.l.name, Scope: p.scope, Cost: p.cost})
			}
			continue
		}
		t.plans[n] = *p
		n++
	}
	t.plans = t.plans[:n]
	return t.record(now, now), passed
}
