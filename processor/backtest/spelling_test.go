package backtest

import (
	"slices"
	"testing"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// TestOtherSpellings: places that stood under another spelling go with the message
// that brought them to its key, and a log from before keys ignored letter case comes
// out as it was.
func TestOtherSpellings(t *testing.T) {
	const old, key = "Ann@example.com", "ann@example.com"
	policy := policyOf(t, "  - {name: a, per: [recipient, class], allow: [2/60s]}")
	for _, parts := range []int{1, 4} {
		g := newLog(parts)
		scoped := func(e *schemas.Event, to string) *schemas.Event {
			for _, cs := range [...][]schemas.Charge{e.Decision.Charges, e.Decision.Returned, e.Decision.Reinstated, e.Decision.Restored} {
				for i := range cs {
					cs[i].Scope = "recipient=" + to + ",class=" + e.Class
				}
			}
			return e
		}
		g.add(scoped(admitted(msg(1, old, "verify"), t0, "a"), old))
		on := with(msg(2, key, "verify"), t0+10*sec, "", schemas.VerdictForward)
		on.Decision.Returned = places(msg(0, old, "verify"), t0, []string{"a"})
		scoped(on, old)
		on.Decision.Reinstated = slices.Clone(on.Decision.Returned)
		on.Decision.Reinstated[0].Scope = limit.Rescope(on.Decision.Returned[0].Scope, old, key)
		g.addTo(g.home(old), on)
		came := scoped(admitted(msg(2, key, "verify"), t0+10*sec, "a"), key)
		came.Decision.Restored = slices.Clone(on.Decision.Reinstated)
		g.add(came)
		g.add(refusedBy(msg(3, key, "verify"), t0+20*sec, "a", "2/60s"))
		g.add(scoped(admitted(msg(4, old, "verify"), t0+30*sec, "a"), old)) // accepted before
		g.add(scoped(admitted(msg(5, old, "verify"), t0+40*sec, "a"), old))
		g.add(scoped(admitted(msg(6, key, "verify"), t0+60*sec, "a"), key))
		g.add(refusedBy(msg(7, key, "verify"), t0+60*sec, "a", "2/60s"))
		r, answers := (&trial{tried: policy, inForce: policy}).run(t, g)
		if len(answers) != 7 || r.Then != r.Now {
			t.Errorf("%d partitions: %d answers, then %+v, now %+v", parts, len(answers), r.Then, r.Now)
		}
		for at, a := range answers {
			if a.Then.Refused != a.Now.Refused {
				t.Errorf("%d partitions, %v at %s: refused %v, now %v", parts, at, a.T, a.Then.Refused, a.Now.Refused)
			}
		}
	}
}
