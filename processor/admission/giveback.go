package admission

import (
	"slices"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// giveBack returns the places of a message that ended without possibly having
// been received, or that a round took for one that does not go on. A lane asks
// the message's home, and home the owners. One that finds nothing is a logged
// no-op.
func (p *partition) giveBack(in *input) (outcome, error) {
	home := schemas.PartitionOf(in.env.Key, p.env.partitions)
	if home != p.num { // an owner is asked for what it owns, and for nothing else
		for _, c := range slices.Concat(in.env.Place, in.env.Restore) {
			owner := home
			if isWide(c) {
				owner = limit.Owner(c.Scope, p.env.partitions)
			}
			if owner != p.num {
				return p.misrouted(in, owner), nil
			}
		}
	}
	m := p.read(in)
	m.event.Kind, m.event.Tenant, m.event.Provider = schemas.KindDecision, in.env.Tenant, in.env.Provider
	m.event.Decision = p.stamp(schemas.VerdictGiveBack, &m.source)
	o := outcome{event: m.event}
	if home == p.num {
		p.letGo(&o, &m.env, in.env.Place, nil, false)
		return o, nil
	}
	p.letGo(&o, &m.env, in.env.Place, in.env.Restore, in.env.Reason == schemas.ReadmitUnwind)
	return o, nil
}

// letGo returns places, here and at their owners, and puts old ones back. Under
// unwinding they were taken for a message that did not go on: then limits that
// count attempts give back too.
func (p *partition) letGo(o *outcome, env *schemas.Envelope, places, restore []schemas.Charge, unwinding bool) {
	if len(places)+len(restore) == 0 {
		return
	}
	d, home := o.event.Decision, schemas.PartitionOf(env.Key, p.env.partitions)
	owner := func(c *schemas.Charge) int32 {
		if isWide(*c) {
			return limit.Owner(c.Scope, p.env.partitions)
		}
		return home
	}
	type share struct{ places, restore []schemas.Charge }
	shares, order := make(map[int32]*share), []int32(nil)
	of := func(c *schemas.Charge) *share {
		n := owner(c)
		if shares[n] == nil {
			shares[n] = &share{}
			order = append(order, n)
		}
		return shares[n]
	}
	for i := range places {
		if unwinding || p.cur.rules.Returnable(places[i]) {
			s := of(&places[i])
			s.places = append(s.places, places[i])
		}
	}
	for i := range restore {
		s := of(&restore[i])
		s.restore = append(s.restore, restore[i])
	}
	for _, n := range order {
		s := shares[n]
		if n == p.num {
			back := p.table.GiveBack
			if unwinding {
				back = p.table.Unwind
			}
			returned, missing := back(p.cur.rules, s.places, d.T)
			restored := p.table.Restore(p.cur.rules, s.restore, d.T)
			d.Returned, d.Missing, d.Restored = append(d.Returned, returned...), append(d.Missing, missing...), append(d.Restored, restored...)
			// A limit that is gone has no place to put back, and one that has only
			// a bucket by now none to return.
			for _, c := range slices.Concat(without(s.places, returned, missing), without(s.restore, restored)) {
				d.Passed = append(d.Passed, schemas.Ask{Limit: c.Limit, Scope: c.Scope, Cost: c.Cost, T: c.T})
			}
			continue
		}
		d.Released, d.Reinstated = append(d.Released, s.places...), append(d.Reinstated, s.restore...)
		asked := schemas.Envelope{
			ID: env.ID, Key: env.Key, Tenant: env.Tenant, Origin: env.Origin, Provider: env.Provider,
			Reason: schemas.ReadmitGiveBack, DecidedAt: d.T, Place: s.places, Restore: s.restore,
		}
		if unwinding {
			asked.Reason = schemas.ReadmitUnwind
		}
		o.send = append(o.send, send{topic: p.env.names.Readmit(), partition: n, env: asked, bare: true})
	}
}

// unwind returns what a round has taken so far. Where the message goes on holding
// what it held before, that is put back.
func (p *partition) unwind(m *message, o *outcome, keeps bool) {
	var restore []schemas.Charge
	if keeps {
		restore = m.round.Moved
	}
	p.letGo(o, &m.env, m.round.Taken, restore, true)
}

// without returns the charges of all that are in none of these.
func without(all []schemas.Charge, done ...[]schemas.Charge) []schemas.Charge {
	return slices.DeleteFunc(slices.Clone(all), func(c schemas.Charge) bool {
		return slices.ContainsFunc(done, func(d []schemas.Charge) bool { return slices.Contains(d, c) })
	})
}

func isWide(c schemas.Charge) bool { return limit.Wide(c.Scope) }
