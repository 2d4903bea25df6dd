package audit

import (
	"slices"
	"strings"

	"github.com/weirhq/weir/schemas"
)

// A limit whose per has no recipient is wide. Its places stand in the partition
// that owns the scope, whoever the message is for; a message goes round the
// owners, and comes home to the partition of its recipient.

// isWide reports whether a scope's text is that of a wide limit. A recipient has
// no "=" in a scope's text.
func isWide(scope string) bool {
	return scope == "" || strings.Contains(scope, "=") && !strings.HasPrefix(scope, "recipient=")
}

// standsAt is the partition in whose log a place of a message to someone stands.
func (b *bounds) standsAt(scope, to string) int32 {
	if isWide(scope) {
		to = scope
	}
	return schemas.PartitionOf(to, b.partitions)
}

// fits reports whether a scope's text is one of a wide limit's: what it counts
// by, in order. Another revision's may be another.
func (l *limit) fits(scope string) bool {
	if !l.wide {
		return false
	}
	if scope == "" {
		return len(l.dims) == 0
	}
	parts := strings.Split(scope, ",")
	if len(parts) != len(l.dims) {
		return false
	}
	for i, part := range parts {
		if name, _, ok := strings.Cut(part, "="); !ok || name != escaped(l.dims[i]) {
			return false
		}
	}
	return true
}

// stop is a limit that applies to a message, where the message comes by: at home,
// or at the owner of a wide limit's scope.
type stop struct {
	l     *limit
	scope string
	cost  int64
	here  bool
}

func (s *stop) at(c *schemas.Charge) bool { return c.Limit == s.l.Name && c.Scope == s.scope }

// plan returns what applies to a message at its home, in the policy's order;
// the recipient's limits together, where the first of them stands. A message that
// lacks what a wide limit counts by is not counted by it.
func (p *partition) plan(s *subject) []stop {
	out := p.stops[:0]
	own := -1 // behind the recipient's limits
	for i := range p.rules.limits {
		l := &p.rules.limits[i]
		if !l.matches(s) || l.wide && slices.ContainsFunc(l.dims, func(d string) bool { return l.value(s, d) == "" }) {
			continue
		}
		st := stop{l: l, scope: l.scope(s), cost: l.cost(s), here: true}
		switch {
		case l.wide:
			st.here = p.standsAt(st.scope, "") == p.num
			out = append(out, st)
		case own < 0 || own == len(out):
			out = append(out, st)
			own = len(out)
		default:
			out = slices.Insert(out, own, st)
			own++
		}
	}
	p.stops = out
	return out
}

// trip is what a message brought to a decision.
type trip struct {
	old   []schemas.Charge // places of an earlier attempt, as far as they were not moved on this round
	round schemas.Round
	on    bool // it is on a round
}

func tripOf(env *schemas.Envelope) (t trip) {
	if env == nil {
		return t
	}
	if env.Round == nil {
		t.old = env.Place
		return t
	}
	t.round, t.on = *env.Round, env.Reason == schemas.ReadmitCharge || env.Reason == schemas.ReadmitCharged
	t.old, _ = minus(env.Place, t.round.Moved)
	return t
}

// minus takes some places out of all, one for one, and returns what is left of
// both.
func minus(all, some []schemas.Charge) (left, foreign []schemas.Charge) {
	if len(some) == 0 {
		return all, nil
	}
	left = slices.Clone(all)
	for i := range some {
		if k := slices.Index(left, some[i]); k >= 0 {
			left = slices.Delete(left, k, k+1)
		} else {
			foreign = append(foreign, some[i])
		}
	}
	return left, foreign
}

func joinCharges(all ...[]schemas.Charge) []schemas.Charge {
	var only []schemas.Charge
	for _, cs := range all {
		switch {
		case len(cs) == 0:
		case only == nil:
			only = cs[:len(cs):len(cs)]
		default:
			only = append(only, cs...)
		}
	}
	return only
}

// split parts places into those that stand here and those of other partitions.
func (p *partition) split(cs []schemas.Charge) (here, away []schemas.Charge) {
	for i := range cs {
		if p.standsAt(cs[i].Scope, p.to) == p.num {
			here = append(here, cs[i])
		} else {
			away = append(away, cs[i])
		}
	}
	return here, away
}

// asked reports whether a limit has answered on this round: with a place, or
// without. The recipient's answer together, and anew under another revision.
func (p *partition) asked(st *stop) bool {
	r := &p.trip.round
	if !st.l.wide {
		return r.Home && !p.anew()
	}
	return slices.ContainsFunc(r.Taken, func(c schemas.Charge) bool { return st.at(&c) && c.Cost == st.cost }) ||
		slices.ContainsFunc(r.Passed, func(a schemas.Ask) bool { return a.Limit == st.l.Name && a.Scope == st.scope && a.Cost == st.cost })
}

// anew reports whether home's revision has changed since the recipient's limits
// were asked.
func (p *partition) anew() bool {
	return p.trip.round.Home && p.trip.round.HomeRevision != p.e.Decision.Revision
}

// visited reports whether the round has been where a place of an earlier attempt
// stands. Then it was moved, or it was not there.
func (p *partition) visited(c *schemas.Charge) bool {
	r := &p.trip.round
	if !isWide(c.Scope) {
		return r.Home
	}
	return slices.ContainsFunc(r.Taken, func(n schemas.Charge) bool { return n.Limit == c.Limit && n.Scope == c.Scope }) ||
		slices.ContainsFunc(r.Passed, func(a schemas.Ask) bool { return a.Limit == c.Limit && a.Scope == c.Scope })
}

// foundBefore is the evidence of limits that observe which a round brought home.
// Home's own are asked anew under another revision, if they are asked at all.
func (p *partition) foundBefore(plan []stop, own []bool) []schemas.Evidence {
	r := &p.trip.round
	if r.Refused {
		return nil
	}
	if !p.anew() || !asksHome(plan, own) {
		return r.Evidence
	}
	return slices.DeleteFunc(slices.Clone(r.Evidence), func(v schemas.Evidence) bool { return !isWide(v.Scope) })
}

// asksHome reports whether a step asks the recipient's limits.
func asksHome(plan []stop, own []bool) bool {
	for i := range plan {
		if own[i] && !plan[i].l.wide {
			return true
		}
	}
	return false
}

// step is what home is to do now, of a plan: to answer for its own limits that
// come first of those that were not asked, and then to send the message to the
// owners of those that follow, up to the next of its own. Where no owner follows,
// home answers again for its own limits, in which it took places before now. own says
// which of the plan it answers for; it is valid until the next step.
func (p *partition) step(plan []stop) (own []bool, asks []schemas.Ask) {
	own = append(p.own[:0], make([]bool, len(plan))...)
	p.own = own
	for i := range plan {
		st := &plan[i]
		switch {
		case p.asked(st):
		case st.here && len(asks) == 0:
			own[i] = true
		case st.here:
			return own, asks
		default:
			asks = append(asks, schemas.Ask{Limit: st.l.Name, Scope: st.scope, Cost: st.cost})
		}
	}
	d, r := p.e.Decision, &p.trip.round
	if len(asks) > 0 || !r.Home || p.anew() {
		return own, asks
	}
	for i := range plan {
		st := &plan[i]
		own[i] = own[i] || !st.l.wide && slices.ContainsFunc(r.Taken, func(c schemas.Charge) bool {
			return st.at(&c) && c.Cost == st.cost && p.late(c) && !slices.Contains(d.Carried, c)
		})
		p.again = p.again || own[i] && !st.l.wide
	}
	return own, asks
}

// late reports whether a place in a limit of the recipient was taken before this
// decision. Nobody is left to be asked: then the message leaves with places of now, and
// what it has is left out of the counts. What was drawn from a bucket alone is drawn.
func (p *partition) late(c schemas.Charge) bool {
	l := p.rules.byName[c.Limit]
	return !isWide(c.Scope) && c.T != p.e.Decision.T && (l == nil || !l.drains)
}

// mine parts what an owner is asked into what it must answer in this step and
// what others are asked after it.
func (p *partition) mine(asks []schemas.Ask) (own, rest []schemas.Ask) {
	n := 0
	for n < len(asks) && p.standsAt(asks[n].Scope, "") == p.num {
		n++
	}
	return asks[:n], asks[n:]
}
