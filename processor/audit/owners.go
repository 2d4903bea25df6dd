package audit

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// What the owner of a wide limit's scope decides on messages of other partitions.
// Home says which limits apply, in which scope and for how much: home is judged
// for that. How many pass is the owner's to say, under its own revision.

// ownersVerdict reports whether a verdict on a message whose home is elsewhere is
// an owner's.
func ownersVerdict(v schemas.Verdict) bool {
	return v == schemas.VerdictCharge || v == schemas.VerdictRefuse || v == schemas.VerdictGiveBack || v == schemas.VerdictRecord
}

// owner judges a decision of an owner.
func (p *partition) owner(in *kgo.Record, env *schemas.Envelope) {
	e, d := p.e, p.e.Decision
	if e.Kind != schemas.KindDecision {
		p.fault(KindOrder, "an owner says status %s: home alone does", e.Status)
	}
	if d.Verdict == schemas.VerdictGiveBack {
		p.ownerGivesBack(in, env)
		return
	}
	r := &p.trip.round
	known := env != nil && env.Reason == schemas.ReadmitCharge && env.Round != nil
	if !known && !p.blind {
		p.fault(KindOwner, "%s, and the record that it answers asks for no place here", d.Verdict)
	}
	if !known {
		p.giveUp()
		p.moves(d.Returned)
		p.believe()
		return
	}
	own, rest := p.mine(r.Ask)
	if len(own) == 0 {
		p.fault(KindOwner, "it is asked, and owns nothing of what it is asked for")
	}
	out := *r
	out.Ask = rest
	if d.Verdict == schemas.VerdictRecord {
		out.Revision = d.Revision
	}
	out.Passed = slices.Concat(r.Passed, d.Passed)
	switch d.Verdict {
	case schemas.VerdictCharge:
		p.ownerCharges(own, &out)
	case schemas.VerdictRefuse:
		p.ownerRefuses(own, &out)
		p.saysRefused(env, d.T, d.Evidence, -1)
	default:
		p.ownerRecords(own)
	}
	target := p.home()
	if len(rest) > 0 && d.Verdict != schemas.VerdictRefuse {
		target = p.standsAt(rest[0].Scope, "")
	} else if d.Verdict == schemas.VerdictRecord {
		if d.Onward != nil {
			p.fault(KindOwner, "sent on to partition %d, and nobody is left to be asked", *d.Onward)
		}
		return
	}
	p.goesTo(target)
	p.sends(env, target, &out)
}

// inForce is the limit that an ask is about, under the revision of this
// partition; nil where it has none.
func (p *partition) inForce(a *schemas.Ask) *limit {
	if l := p.rules.byName[a.Limit]; l != nil && l.fits(a.Scope) {
		return l
	}
	return nil
}

// told finds out whether a decision says that a limit passed a message.
func told(passed []schemas.Ask, a *schemas.Ask) int {
	return slices.IndexFunc(passed, func(o schemas.Ask) bool { return o.Limit == a.Limit && o.Scope == a.Scope })
}

// ownerCharges judges that an owner took a place in each limit of its step, with
// room in every window, and none in those that it does not have, or that only
// observe and are full. Old places of the message moved in the same step.
func (p *partition) ownerCharges(own []schemas.Ask, out *schemas.Round) {
	d, r := p.e.Decision, &p.trip.round
	p.counts.Charged += p.one()
	taken, rest := minus(r.Taken, joinCharges(d.Returned, d.Missing)) // what the round took for another cost goes
	old, foreign := minus(p.trip.old, rest)
	for i := range foreign {
		p.fault(KindReturned, "it gives up a place in %s of %s, which the message does not hold", foreign[i].Limit, foreign[i].T)
	}
	p.giveUp()
	moved, _ := minus(p.trip.old, old)
	moved, _ = minus(moved, d.Missing)
	p.moves(moved)
	p.oldOnes(old, func(c *schemas.Charge) bool {
		return slices.ContainsFunc(own, func(a schemas.Ask) bool { return a.Limit == c.Limit && a.Scope == c.Scope })
	})
	out.Taken = joinCharges(taken, d.Charges)
	out.Moved = joinCharges(r.Moved, moved)
	out.Evidence = slices.Concat(r.Evidence, d.Evidence)
	if p.revision < 0 {
		p.cannotTell("decisions under a revision that is not known")
		return
	}
	charges, passed := slices.Clone(d.Charges), slices.Clone(d.Passed)
	var full []room
	whole := true
	for i := range own {
		a := &own[i]
		if a.T != 0 {
			p.fault(KindOwner, "%s asks to record a message sent elsewhere, and it is charged", a.Limit)
		}
		l := p.inForce(a)
		if slices.ContainsFunc(taken, func(c schemas.Charge) bool {
			return c.Limit == a.Limit && c.Scope == a.Scope && (c.Cost == a.Cost || l == nil || !l.drains)
		}) {
			p.fault(KindCharges, "it has its place in %s already", a.Limit)
		}
		said := told(passed, a)
		if said >= 0 {
			passed = slices.Delete(passed, said, said+1)
			p.counts.Passed += p.one()
		}
		if l == nil {
			if said < 0 {
				p.fault(KindPassed, "%s is not in force here, and did not pass it", a.Limit)
			}
			continue
		}
		rooms := p.recount(l, a.Scope, a.Cost, d.T, nil)
		if l.observe {
			for _, r := range rooms {
				if whole = whole && r.whole; r.full() {
					full = append(full, r)
				}
			}
		}
		k := slices.IndexFunc(charges, func(c schemas.Charge) bool { return c.Limit == a.Limit })
		if k < 0 {
			may := l.observe && slices.ContainsFunc(rooms, func(r room) bool { return r.full() || !r.whole })
			switch {
			case said < 0:
				p.fault(KindCharges, "no place in %s, which is asked for", a.Limit)
			case !may:
				p.fault(KindPassed, "%s passed it, which is in force here", a.Limit)
			}
			continue
		}
		if said >= 0 {
			p.fault(KindPassed, "%s passed it, and has a place for it", a.Limit)
		}
		p.takesOne(l, a.Scope, a.Cost, &charges[k], rooms)
		charges = slices.Delete(charges, k, k+1)
	}
	p.unasked(charges, passed)
	if whole {
		p.evidence(full, nil)
	}
}

// unasked judges what is left over of a step when all that was asked for in it is
// taken away: places, and limits that passed the message.
func (p *partition) unasked(charges []schemas.Charge, passed []schemas.Ask) {
	for i := range charges {
		p.fault(KindCharges, "a place in %s, which is not asked for in this step", charges[i].Limit)
	}
	for i := range passed {
		p.fault(KindPassed, "%s passed it, which is not asked for in this step", passed[i].Limit)
	}
}

// ownerReturnsNothing judges that a step which puts no new place into an old one's
// stead returns none.
func (p *partition) ownerReturnsNothing() {
	d := p.e.Decision
	if n := len(d.Returned) + len(d.Missing); n > 0 {
		p.fault(KindReturned, "%s returned %d places", d.Verdict, n)
	}
	p.giveUp()
}

// ownerRefuses judges that a window of a limit that the owner is asked for was
// full, and that it took nothing.
func (p *partition) ownerRefuses(own []schemas.Ask, out *schemas.Round) {
	e, d := p.e, p.e.Decision
	p.counts.OwnersRefused += p.one()
	out.Refused, out.Evidence, out.RetryAt, out.Passed = true, d.Evidence, e.RetryAt, p.trip.round.Passed
	p.ownerReturnsNothing()
	if p.revision < 0 {
		p.cannotTell("decisions under a revision that is not known")
		return
	}
	var full []room
	whole := true
	for i := range own {
		a := &own[i]
		if a.T != 0 {
			p.fault(KindOwner, "%s asks to record a message sent elsewhere, and it is refused", a.Limit)
		}
		l := p.inForce(a)
		if l == nil || l.observe {
			continue
		}
		for _, r := range p.recount(l, a.Scope, a.Cost, d.T, p.without(l)) {
			whole = whole && r.whole
			if r.full() {
				full = append(full, r)
			}
		}
	}
	p.refusal(full, whole)
}

// ownerRecords judges the places of a message that was sent elsewhere, at the
// owner of some of them.
func (p *partition) ownerRecords(own []schemas.Ask) {
	d := p.e.Decision
	p.counts.Others += p.one()
	p.ownerReturnsNothing()
	if p.revision < 0 {
		p.cannotTell("decisions under a revision that is not known")
		return
	}
	charges, passed := slices.Clone(d.Charges), slices.Clone(d.Passed)
	for i := range own {
		a := &own[i]
		if a.T == 0 {
			p.fault(KindOwner, "%s asks for a place, and it is recorded", a.Limit)
		}
		said := told(passed, a)
		if said >= 0 {
			passed = slices.Delete(passed, said, said+1)
			p.counts.Passed += p.one()
		}
		l := p.inForce(a)
		k := slices.IndexFunc(charges, func(c schemas.Charge) bool { return c.Limit == a.Limit })
		switch {
		case l == nil && said < 0:
			p.fault(KindPassed, "%s is not in force here, and did not pass it", a.Limit)
		case l == nil:
		case k < 0:
			p.fault(KindCharges, "no place in %s, which is asked for", a.Limit)
		default:
			c := charges[k]
			charges = slices.Delete(charges, k, k+1)
			p.takesAt(l, a.Scope, a.Cost, &c, max(min(a.T, d.T), 1))
			if said >= 0 {
				p.fault(KindPassed, "%s passed it, and has a place for it", a.Limit)
			}
		}
	}
	p.unasked(charges, passed)
}

// ownerGivesBack judges that an owner returned the places that home asked back,
// and put back those that it had moved.
func (p *partition) ownerGivesBack(in *kgo.Record, env *schemas.Envelope) {
	d := p.e.Decision
	p.counts.GivenBack += p.one()
	p.giveUp()
	p.putBack()
	if env == nil {
		if !p.blind {
			p.fault(KindCause, "the record that it answers asks for no give-back of this message")
		}
		return
	}
	unwinds := env.Reason == schemas.ReadmitUnwind
	if !unwinds && env.Reason != schemas.ReadmitGiveBack || env.ID != p.e.MessageID {
		p.fault(KindCause, "the record that it answers asks for no give-back of this message")
		return
	}
	for i := range env.Place {
		if p.standsAt(env.Place[i].Scope, p.to) != p.num {
			p.fault(KindOwner, "it is asked for a place in %s back, which stands elsewhere", env.Place[i].Limit)
		}
	}
	if want, got := p.returnable(env.Place, unwinds), joinCharges(d.Returned, d.Missing); !alike(want, got) {
		p.fault(KindReturned, "it is asked for %d places back, and the decision names %d, or others", len(want), len(got))
	}
	p.putsBack(env.Restore)
}
