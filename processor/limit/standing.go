package limit

import (
	"runtime"
	"strings"

	"github.com/weirhq/weir/schemas"
)

// Standing returns the places that some window of a limit per recipient may still
// see, in the scopes of s: at most so many, the latest of each limit. It has no
// places of a bucket, of a calendar window of more than 100, and of a scope that
// has more than 512 places, since none of them can be told one by one.
func (t *Table) Standing(r *Rules, s *Subject, most int, now schemas.Millis) (places []schemas.Charge) {
	defer runtime.KeepAlive(t)
	now = min(max(now, t.last), maxTime)
	t.use(r)
	t.planFor(r, s)
	for i := range t.plans {
		p := &t.plans[i]
		at := t.slotOf(p)
		if at == nil || at.long() {
			continue
		}
		st, unseen := t.open(at), t.unseen(p.l, now)
		for k := len(st.times) - 1; k >= 0 && st.times[k] > unseen && len(places) < most; k-- {
			places = append(places, schemas.Charge{Limit: p.l.name, Scope: p.scope, T: st.times[k], Cost: int64(st.costs[k])})
		}
	}
	return places
}

// Rescope returns a limit's scope of one recipient as the same limit has it of another.
func Rescope(scope, from, to string) string {
	if scope == from {
		return to
	}
	was := string(appendEscaped(nil, from))
	if rest, ok := strings.CutPrefix(scope, was); ok && rest == "" {
		return string(appendEscaped(nil, to))
	}
	if rest, ok := strings.CutPrefix(scope, "recipient="+was); ok && (rest == "" || rest[0] == ',') {
		return "recipient=" + string(appendEscaped(nil, to)) + rest
	}
	return scope
}
