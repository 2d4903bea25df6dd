package audit

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// charge judges that home took its own places and sent the message on to the
// owner of the next limit: those of its own limits that come next, with room in
// every window, and then everyone who is to be asked before it comes home again.
func (p *partition) charge(in *kgo.Record, env *schemas.Envelope) {
	e, d, r := p.e, p.e.Decision, &p.trip.round
	p.counts.Charged += p.one()
	if e.Kind != schemas.KindDecision {
		p.fault(KindOrder, "sent on to an owner, and said as status %s: it has none yet", e.Status)
	}
	p.learn(in, env)
	p.setOut()

	// Old places are moved here, in this step; elsewhere by their owners, if they
	// are asked. What the round took and no longer applies is given up.
	drawn, passed := drawn(d.Passed)
	gave := joinCharges(d.Returned, d.Missing, d.Released, drawn)
	taken, rest := minus(r.Taken, gave)
	old, foreign := minus(p.trip.old, rest)
	dropped, _ := minus(r.Taken, taken)
	for i := range drawn {
		if l := p.rules.byName[drawn[i].Limit]; p.revision >= 0 && (l == nil || !l.drains) {
			p.fault(KindPassed, "it says that %s gives nothing back, which has more than a bucket", drawn[i].Limit)
		}
	}
	moved, _ := minus(p.trip.old, old)
	moved, _ = minus(moved, d.Missing)
	p.giveUp()
	if !p.blind {
		for i := range foreign {
			p.fault(KindReturned, "it gives up a place in %s, which it does not hold", foreign[i].Limit)
		}
		p.oldOnes(old, func(c *schemas.Charge) bool {
			return slices.ContainsFunc(d.Charges, func(n schemas.Charge) bool { return n.Limit == c.Limit && n.Scope == c.Scope })
		})
	}
	if p.blind { // what it returned was an earlier attempt's, as far as can be told
		moved = d.Returned
	}
	p.moves(moved)

	if p.revision < 0 {
		p.cannotTell("decisions under a revision that is not known")
		return
	}
	s, sure := p.subject(in)
	if !sure || p.blind {
		p.cannotTell("decisions by metadata, content or parts whose request is gone")
		p.believe()
		return
	}
	if r.Refused {
		p.fault(KindCarried, "it goes on, though an owner refused it")
	}
	plan := p.plan(s)
	own, asks := p.step(plan)
	for i := range dropped {
		c := &dropped[i]
		k := slices.IndexFunc(plan, func(st stop) bool { return st.at(c) && c.Cost == st.cost })
		if k >= 0 && !own[k] {
			p.fault(KindReturned, "it gives up its place in %s, which applies", c.Limit)
		}
	}
	out := schemas.Round{
		For: p.why, Revision: d.Revision, Home: r.Home || asksHome(plan, own), Ask: asks, Taken: joinCharges(taken, d.Charges), Moved: joinCharges(r.Moved, moved),
		Passed: slices.Concat(r.Passed, passed), Evidence: slices.Concat(p.foundBefore(plan, own), d.Evidence), HomeRevision: r.HomeRevision,
	}
	if asksHome(plan, own) {
		out.HomeRevision = d.Revision
	}
	full, whole := p.takes(plan, own)
	for i := range full {
		passed = slices.DeleteFunc(passed, func(a schemas.Ask) bool { return a.Limit == full[i].l.Name && a.Scope == full[i].scope })
	}
	for i := range passed {
		p.fault(KindPassed, "%s passed it, which does not only observe and is full", passed[i].Limit)
	}
	if whole {
		p.evidence(full, nil)
	}
	if len(asks) == 0 {
		p.fault(KindOwner, "sent on, and nobody is left to be asked")
		return
	}
	p.goesTo(p.standsAt(asks[0].Scope, ""))
	p.sends(env, p.standsAt(asks[0].Scope, ""), &out)
}

// drawn parts what a decision says was passed: with a time it is what an earlier step
// of the round drew from a bucket that is asked anew.
func drawn(said []schemas.Ask) (drawn []schemas.Charge, passed []schemas.Ask) {
	for _, a := range said {
		if a.T == 0 {
			passed = append(passed, a)
		} else {
			drawn = append(drawn, schemas.Charge{Limit: a.Limit, Scope: a.Scope, T: a.T, Cost: a.Cost})
		}
	}
	return drawn, passed
}

// begunFor is the reason under which the round began that the decision goes on
// with.
func (p *partition) begunFor(env *schemas.Envelope) string {
	switch {
	case p.trip.on:
		return p.trip.round.For
	case env != nil:
		return env.Reason
	}
	return ""
}

// goesTo judges where a decision sent its message.
func (p *partition) goesTo(partition int32) {
	switch to := p.e.Decision.Onward; {
	case to == nil:
		p.fault(KindOwner, "it does not say that it sends the message on to partition %d", partition)
	case *to != partition:
		p.fault(KindOwner, "sent on to partition %d; it should go to %d", *to, partition)
	}
}

// setOut notes that a message is on its way round the owners. Its first decision
// is no status, and from it on it is known.
func (p *partition) setOut() {
	m, there := p.messages[p.key]
	switch {
	case there && !m.state().End():
	case there && p.t-m.first < unique:
		return // what it becomes is a second end
	case p.trip.on && p.cut, p.blind: // it began before the log
	default:
		m = message{first: p.t, expires: p.expires}
		p.counts.Messages += p.one()
		there = true
	}
	if there {
		m.flags |= flagRound
		p.messages[p.key] = m
	}
}

// comesHome notes that a message is back from the owners.
func (p *partition) comesHome(env *schemas.Envelope) {
	if env == nil || env.Reason != schemas.ReadmitCharged {
		return
	}
	if env.Round == nil {
		p.fault(KindOwner, "it is back from the owners, and says nothing of its round")
	}
	if m := p.messages[p.key]; m.flags&flagRound != 0 {
		m.flags &^= flagRound
		p.messages[p.key] = m
	}
}

// oldOnes judges which places of an earlier attempt a step left standing here:
// none where it asked.
func (p *partition) oldOnes(left []schemas.Charge, asked func(*schemas.Charge) bool) {
	for i := range left {
		c := &left[i]
		if l := p.rules.byName[c.Limit]; l != nil && l.keeps || p.visited(c) || p.standsAt(c.Scope, p.to) != p.num {
			continue
		}
		if asked(c) {
			p.fault(KindReturned, "it takes a new place in %s, and keeps the old one", c.Limit)
		}
	}
}

// relayed holds home's refusal to that of the owner who refused.
func (p *partition) relayed(env *schemas.Envelope) {
	e, d, r := p.e, p.e.Decision, &p.trip.round
	p.saysRefused(env, env.DecidedAt, r.Evidence, 1)
	if !slices.Equal(d.Evidence, r.Evidence) {
		p.fault(KindEvidence, "it is not the evidence of the owner who refused")
	}
	if len(d.Evidence) > 0 && (e.Limit != d.Evidence[0].Limit || e.Window != d.Evidence[0].Window) {
		p.fault(KindEvidence, "refused by %s %s, which is not its first evidence", e.Limit, e.Window)
	}
	// What becomes of it is home's to say, by its own revision.
	defers := !slices.ContainsFunc(r.Evidence, func(v schemas.Evidence) bool {
		return !slices.ContainsFunc(p.rules.policy.Limits, func(l schemas.Limit) bool { return l.Name == v.Limit && l.OnRefusal == schemas.RefusalDefer })
	})
	p.endsOrWaits(defers, r.RetryAt, p.repeated())
}

// saysRefused counts a refusal by an owner, as the owner and as home have it.
func (p *partition) saysRefused(env *schemas.Envelope, t schemas.Millis, evidence []schemas.Evidence, n int64) {
	if !p.judged && env.AcceptedAt < p.refusals.from {
		return
	}
	p.refusals.putOf(item{id: idOf(p.e.MessageID), t: t, rest: sumOf(p.to)[0] + evidenceHash(evidence)}, env.AcceptedAt, n, t)
}

// forged returns refusals that home took from the way, and no owner gave. An owner's that
// has not come home yet is none of them.
func (b *bounds) forged() (all []found) {
	only, _, _ := b.refusals.difference()
	for _, i := range only {
		all = append(all, found{i, KindRefused, []string{b.statusTopic}, "refused by the owner of a wide limit, and no owner refused it"})
	}
	return all
}

// repeated reports whether the message in hand was decided before: whatever
// refuses it, it waits.
func (p *partition) repeated() bool {
	if len(p.trip.old)+len(p.trip.round.Moved) > 0 || p.e.Attempt > 0 {
		return true
	}
	return p.why == schemas.ReadmitStale || p.why == schemas.ReadmitReroute
}

// carries judges what a message holds when it goes on: places that its round
// took, and nothing else, each in a limit that applies. It returns the limits of
// the plan for which it has none.
func (p *partition) carries(plan []stop, own []bool, carried []schemas.Charge) (without []*stop) {
	d, r := p.e.Decision, &p.trip.round
	rest := slices.Clone(carried)
	// With a time it is a place that was to be returned or put back and could not:
	// its limit is gone, or has a bucket alone.
	_, passed := drawn(d.Passed)
	for i := range plan {
		if own[i] {
			continue
		}
		st := &plan[i]
		if k := slices.IndexFunc(rest, func(c schemas.Charge) bool { return st.at(&c) && c.Cost == st.cost }); k >= 0 {
			c := &rest[k]
			key := scopeKey(c.Limit, c.Scope)
			if st.here && !p.places.stands(key, c.T, c.Cost, p.key[0]) && p.seen(c) {
				if p.cut && c.T <= p.begin {
					p.cannotTell("carried places that were taken before the log")
				} else {
					p.fault(KindCarried, "it carries a place in %s of %s, which does not stand here", c.Limit, c.T)
				}
			}
			p.counts.Carried += p.one()
			p.charged = p.calls.hold(p.charged, st.l, key, st.cost)
			rest = slices.Delete(rest, k, k+1)
			continue
		}
		if k := slices.IndexFunc(passed, func(a schemas.Ask) bool { return a.Limit == st.l.Name && a.Scope == st.scope }); k >= 0 {
			if !p.blind && !p.asked(st) {
				p.fault(KindPassed, "it says that %s passed it, which was not asked", st.l.Name)
			}
			p.counts.Passed += p.one()
			passed = slices.Delete(passed, k, k+1)
			continue
		}
		without = append(without, st)
	}
	for i := range rest {
		p.fault(KindCarried, "it carries a place in %s, which does not apply, or not so", rest[i].Limit)
	}
	for i := range passed {
		k := slices.IndexFunc(plan, func(st stop) bool { return st.l.Name == passed[i].Limit && st.scope == passed[i].Scope })
		if k < 0 || !own[k] || !plan[k].l.observe {
			p.fault(KindPassed, "it says that %s passed it, which does not apply, or takes places here", passed[i].Limit)
		}
	}
	_, foreign := minus(r.Taken, carried)
	if p.blind {
		foreign = nil
	}
	for i := range foreign {
		p.fault(KindCarried, "it carries a place in %s of %s, which its round did not take", foreign[i].Limit, foreign[i].T)
	}
	return without
}

// settle judges what home gives up and puts back, of what a message held: places
// of its round (taken) and of earlier attempts (old) that must go, and old ones
// that the round moved and that must stand again. Those that stand here it
// returns and restores itself; others it asks of their owners.
func (p *partition) settle(taken, old, back []schemas.Charge) {
	d := p.e.Decision
	p.giveUp()
	p.putBack()
	if p.blind {
		return
	}
	// What the round passed by, or found gone, may be named again.
	must := make([]schemas.Charge, 0, len(taken)+len(old))
	must = append(must, p.returnable(taken, true)...)
	for _, c := range p.returnable(old, false) {
		if !p.visited(&c) {
			must = append(must, c)
		}
	}
	here, away := p.split(must)
	mayHere, _ := p.split(joinCharges(p.returnable(taken, true), p.returnable(old, false)))
	_, mayAway := p.split(joinCharges(taken, old))
	got := joinCharges(d.Returned, d.Missing)
	left, _ := minus(here, got)
	if _, foreign := minus(mayHere, got); len(left)+len(foreign) > 0 {
		p.fault(KindReturned, "of what the message held %d places here had to go: the decision leaves %d of them, and names %d others", len(here), len(left), len(foreign))
	}
	left, _ = minus(away, d.Released)
	if _, foreign := minus(mayAway, d.Released); len(left)+len(foreign) > 0 {
		p.fault(KindReleased, "of what the message held %d places at owners had to go: the decision does not ask for %d of them, and asks for %d others", len(away), len(left), len(foreign))
	}
	here, away = p.split(back)
	p.putsBack(here)
	if !alike(away, d.Reinstated) {
		p.fault(KindRestored, "%d old places at owners were moved and must stand again, and it asks for %d, or others", len(away), len(d.Reinstated))
	}
}

// returnable are those places that are given back. A bucket gives nothing back;
// what counts attempts gives back only what a round took, which came to no attempt.
func (p *partition) returnable(cs []schemas.Charge, unwinds bool) (out []schemas.Charge) {
	for i := range cs {
		if l := p.rules.byName[cs[i].Limit]; l == nil || !l.keeps || unwinds && !l.drains {
			out = append(out, cs[i])
		}
	}
	return out
}

// putsBack judges which old places stand here again: all of these, but for what no
// window sees any more, or no limit has.
func (p *partition) putsBack(back []schemas.Charge) {
	d := p.e.Decision
	left, foreign := minus(back, d.Restored)
	left = slices.DeleteFunc(slices.Clone(left), func(c schemas.Charge) bool { return !p.seen(&c) })
	if len(left)+len(foreign) > 0 {
		p.fault(KindRestored, "%d old places here were moved and must stand again: the decision leaves out %d of them, and puts back %d others", len(back), len(left), len(foreign))
	}
}

func alike(a, b []schemas.Charge) bool {
	if len(a) != len(b) {
		return false
	}
	left, _ := minus(a, b)
	return len(left) == 0
}

// giveUp takes down what a decision returned, and counts what it asks of owners.
func (p *partition) giveUp() {
	p.takeDown()
	if d := p.e.Decision; len(d.Released)+len(d.Reinstated) > 0 {
		p.asksBack()
	}
}

// moves notes old places that a step of a round gave up for new ones: these may
// be put back.
func (p *partition) moves(old []schemas.Charge) {
	for i := range old {
		if slices.Contains(p.e.Decision.Returned, old[i]) {
			p.moved[p.placeKey(&old[i])] = p.t
		}
	}
}

func (p *partition) placeKey(c *schemas.Charge) sum {
	return sumOf("place", c.Limit, c.Scope, c.T.String(), p.e.MessageID, p.to, strconv.FormatInt(c.Cost, 10))
}

// putBack stands up old places again that a round moved and that must not go: the
// message did not go on. Nobody asks for room: the new place stood until this
// decision, later than the old one, so every window that sees the old one saw the
// new one in its stead, and nobody else came in there. Where no such place is
// given up at the same time, there must be room.
func (p *partition) putBack() {
	d := p.e.Decision
	for i := range d.Restored {
		c := &d.Restored[i]
		p.counts.Restored += p.one()
		if p.standsAt(c.Scope, p.to) != p.num {
			p.fault(KindOwner, "it puts back a place in %s, which stands elsewhere", c.Limit)
		}
		k := p.placeKey(c)
		if _, was := p.moved[k]; was {
			delete(p.moved, k)
		} else if p.cut {
			p.cannotTell("places put back that may have been moved before the log")
		} else {
			p.fault(KindRestored, "it puts back a place in %s of %s, and no round moved it", c.Limit, c.T)
		}
		l := p.rules.byName[c.Limit]
		if l == nil {
			continue
		}
		key := scopeKey(c.Limit, c.Scope)
		if seen := d.T - l.reach; l.reach > 0 && c.T >= seen {
			p.places.add(key, c.T, c.Cost, p.key[0], seen)
		}
		if slices.ContainsFunc(d.Returned, func(n schemas.Charge) bool {
			return n.Limit == c.Limit && n.Scope == c.Scope && n.T >= c.T && n.Cost >= c.Cost
		}) || l.observe {
			continue
		}
		for _, r := range p.recount(l, c.Scope, 0, d.T, nil) {
			if r.full() && c.T >= r.from {
				p.fault(KindOver, "a place in %s of %s is put back where none was given up: now %d of %s are taken", l.Name, c.T, r.count, r.w)
			}
		}
	}
}
