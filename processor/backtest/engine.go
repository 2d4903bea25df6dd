package backtest

import (
	"sync/atomic"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// engine is one backtest under way: the policy, and a replay for each partition.
type engine struct {
	rules  *limit.Rules
	needs  needs
	from   schemas.Millis
	until  schemas.Millis
	each   func(Answer)
	joined *requests // nil unless the policy asks for what only a request has
	wide   bool      // some limit of the policy is wide: partitions depend on each other
	known  map[string]bool
	guests *counter // wide limits that the log does not have
	parts  []*replay
	tried  *schemas.Policy
	force  *schemas.Revision
	most   int64
	kept   atomic.Int64
}

// newEngine prepares a backtest over n partitions. A wide limit is known if the
// policy in force counts the same by its name: then the log says when each of its
// owners was asked.
func newEngine(n int32, rules *limit.Rules, tried *schemas.Policy, inForce *schemas.Revision, from, until schemas.Millis, most int64) *engine {
	x := &engine{
		rules: rules, needs: needsOf(tried), from: from, until: until, wide: rules.Wide(), known: knownLimits(tried, &inForce.Policy),
		most: most, tried: tried, force: inForce,
	}
	span := max(longest(tried), 3*day) // until no window sees a place, and none waits as a rule
	for i := range n {
		x.parts = append(x.parts, &replay{num: i, x: x, counter: counter{limit.NewTable(), rules}, lives: newLives(span), tally: newTally()})
	}
	if x.wide {
		x.guests = &counter{limit.NewTable(), rules}
	}
	return x
}

func (x *engine) close() {
	for _, r := range x.parts {
		r.table.Close()
	}
	if x.guests != nil {
		x.guests.table.Close()
	}
}

// counter is a table with the rules that it is asked under.
type counter struct {
	table *limit.Table
	rules *limit.Rules
}

func (n *counter) giveUp(c schemas.Charge, unwinding bool, t schemas.Millis) {
	if unwinding {
		n.table.Unwind(n.rules, []schemas.Charge{c}, t)
	} else {
		n.table.GiveBack(n.rules, []schemas.Charge{c}, t)
	}
}

func (n *counter) putBack(c schemas.Charge, t schemas.Millis) {
	n.table.Restore(n.rules, []schemas.Charge{c}, t)
}
