package audit

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// admit judges that places were taken: in each limit that applies one, here and
// now with room in every window, or carried from the round that the message made.
func (p *partition) admit(in *kgo.Record, env *schemas.Envelope) {
	e, d, r := p.e, p.e.Decision, &p.trip.round
	gone, _ := minus(r.Taken, d.Carried)
	p.again = p.trip.on && !p.anew() && slices.ContainsFunc(gone, p.late)
	switch {
	case d.Verdict == schemas.VerdictMove:
		p.counts.Moved += p.one()
		p.settle(gone, p.trip.old, nil)
	case p.trip.on:
		p.counts.Admitted += p.one()
		p.settle(gone, p.trip.old, nil)
	default:
		p.counts.Admitted += p.one()
		p.nothingReturned()
	}
	p.learn(in, env)
	if dispatched := p.handedOver(); dispatched && p.gone[e.Provider] {
		p.cannotTell("admissions for providers whose dispatch topics are gone")
	} else if dispatched && p.judged {
		p.dispatched.put(dispatchItem(e.MessageID, e.Provider, d.T, d.Charges, d.Carried), 1, d.T)
	}
	if e.To != "" && p.home() != p.num {
		p.fault(KindCharges, "places taken by a partition that does not own the recipient")
	}
	if p.revision < 0 {
		p.cannotTell("decisions under a revision that is not known")
		return
	}
	for _, c := range d.Carried {
		if p.late(c) {
			p.fault(KindCarried, "it carries its place in %s of %s: in a limit of its recipient it must have one of its admission, %s", c.Limit, c.T, d.T)
		}
	}
	s, sure := p.subject(in)
	if !sure {
		p.cannotTell("decisions by metadata, content or parts whose request is gone")
		p.believe()
		return
	}
	plan := p.plan(s)
	own, _ := p.step(plan)
	if p.blind { // what its round took is not known, but what it says of it
		for i := range plan {
			own[i] = !slices.ContainsFunc(d.Carried, func(c schemas.Charge) bool { return c.Limit == plan[i].l.Name }) && told(d.Passed, &schemas.Ask{Limit: plan[i].l.Name, Scope: plan[i].scope}) < 0
		}
	}
	if r.Refused {
		p.fault(KindCarried, "it goes on, though an owner refused it")
	}
	passed, whole := p.takes(plan, own) // full windows of limits that only observe
	if len(d.Carried)+len(d.Passed) > 0 || slices.Contains(own, false) {
		for _, st := range p.carries(plan, own, d.Carried) {
			if st.l.observe && slices.ContainsFunc(r.Evidence, func(v schemas.Evidence) bool { return v.Limit == st.l.Name && v.Scope == st.scope }) {
				continue // it was full, in an earlier step
			}
			p.fault(KindCharges, "no place in %s, which matches", st.l.Name)
		}
	}
	before := p.foundBefore(plan, own)
	switch {
	case e.Observed != (len(passed)+len(before) > 0) && whole:
		p.fault(KindEvidence, "observed %v, and %d windows of limits that only observe are full", e.Observed, len(passed)+len(before))
	case whole && (len(passed)+len(before) > 0 || len(d.Evidence) > 0):
		p.evidence(passed, before)
	case len(d.Evidence) > 0:
		p.cannotTell("evidence of refusals whose windows reach back before the log")
	}
}

// takes judges the places that home took in this step, in those limits of the plan
// that are its own to answer for now: one in each, at this moment, with room in
// every window. It returns the full windows of those that only observe, and
// whether all that it counted is there.
func (p *partition) takes(plan []stop, own []bool) (full []room, whole bool) {
	e, d := p.e, p.e.Decision
	charges := slices.Clone(d.Charges)
	whole = true
	for k := range plan {
		if !own[k] {
			continue
		}
		st := &plan[k]
		l := st.l
		rooms := p.recount(l, st.scope, st.cost, d.T, nil)
		if l.observe {
			for _, r := range rooms {
				if whole = whole && r.whole; r.full() {
					full = append(full, r)
				}
			}
		}
		i := slices.IndexFunc(charges, func(c schemas.Charge) bool { return c.Limit == l.Name })
		if i < 0 {
			if l.observe && (e.Observed || d.Verdict == schemas.VerdictCharge) && slices.ContainsFunc(rooms, func(r room) bool { return r.full() || !r.whole }) {
				continue
			}
			p.fault(KindCharges, "no place in %s, which matches", l.Name)
			continue
		}
		c := charges[i]
		charges = slices.Delete(charges, i, i+1)
		p.takesOne(l, st.scope, st.cost, &c, rooms)
		if d.Verdict != schemas.VerdictCharge {
			p.charged = p.calls.hold(p.charged, l, scopeKey(l.Name, st.scope), st.cost)
		}
	}
	for _, c := range charges {
		p.fault(KindCharges, "a place in %s, which does not match", c.Limit)
	}
	return full, whole
}

// takesOne judges one place, at the decision's time, by the windows of its limit.
func (p *partition) takesOne(l *limit, scope string, cost int64, c *schemas.Charge, rooms []room) {
	for i := range rooms {
		r := &rooms[i]
		switch {
		case r.full() && r.w.Kind == schemas.WindowBucket:
			p.fault(KindOver, "the bucket of %s holds %d, of which %d were taken; this one costs %d", l.Name, r.w.N, r.count, r.cost)
		case r.full():
			p.fault(KindOver, "%d of %s were taken in %s, from %s on; this one costs %d", r.count, r.w, l.Name, r.from, r.cost)
		case !r.whole:
			p.cannotTell("windows of admitted messages that reach back before the log")
		}
	}
	p.takesAt(l, scope, cost, c, p.e.Decision.T)
}

// takesAt judges that one place stands where and when it should, and stands it up.
func (p *partition) takesAt(l *limit, scope string, cost int64, c *schemas.Charge, at schemas.Millis) {
	if c.Scope != scope || c.T != at || c.Cost != cost {
		p.fault(KindCharges, "the place in %s stands at %s and costs %d; it should stand at %s and cost %d, in the scope of this message", l.Name, c.T, c.Cost, at, cost)
	}
	p.counts.Places += p.one()
	if l.wide {
		p.owns = true
		p.counts.OwnersPlaces += p.one()
	}
	p.stand(l, scope, at, cost)
}

// stand takes a place as of a moment.
func (p *partition) stand(l *limit, scope string, at schemas.Millis, cost int64) {
	key := scopeKey(l.Name, scope)
	if !p.again || l.wide {
		p.tanks.draw(key, l, l.windows(p.to), at, p.e.Decision.T, cost)
	}
	if seen := p.e.Decision.T - l.reach; l.reach > 0 && at >= seen {
		p.places.add(key, at, cost, p.key[0], seen)
	}
}

// believe stands up the places that a decision says it took, where they cannot
// be judged: what comes after counts them.
func (p *partition) believe() {
	d := p.e.Decision
	holds := d.Verdict == schemas.VerdictAdmit || d.Verdict == schemas.VerdictMove
	for i := range d.Charges {
		c := &d.Charges[i]
		l := p.rules.byName[c.Limit]
		if l == nil {
			continue
		}
		p.stand(l, c.Scope, c.T, c.Cost)
		if holds {
			p.charged = p.calls.hold(p.charged, l, scopeKey(c.Limit, c.Scope), c.Cost)
		}
	}
}

// forRecord is what the round of a message sent elsewhere is for.
const forRecord = "record"

// recorded judges the places of a message that was sent elsewhere: one in each
// matching limit, at its own time, whether or not there was room. Owners of wide
// ones are asked to record theirs.
func (p *partition) recorded(in *kgo.Record, env *schemas.Envelope) {
	e, d := p.e, p.e.Decision
	p.nothingReturned()
	if p.revision < 0 {
		p.cannotTell("decisions under a revision that is not known")
		return
	}
	s, sure := p.subject(in)
	req := p.request(in)
	if !sure || req == nil {
		p.cannotTell("messages sent elsewhere whose request is gone")
		p.believe()
		return
	}
	if e.To != "" && p.home() != p.num {
		p.fault(KindCharges, "places taken by a partition that does not own the recipient")
	}
	at := max(min(req.At, d.T), 1)
	charges := slices.Clone(d.Charges)
	var asks []schemas.Ask
	for _, st := range p.plan(s) {
		if !st.here {
			asks = append(asks, schemas.Ask{Limit: st.l.Name, Scope: st.scope, Cost: st.cost, T: req.At})
			continue
		}
		i := slices.IndexFunc(charges, func(c schemas.Charge) bool { return c.Limit == st.l.Name })
		if i < 0 {
			p.fault(KindCharges, "no place in %s, which matches", st.l.Name)
			continue
		}
		c := charges[i]
		charges = slices.Delete(charges, i, i+1)
		p.takesAt(st.l, st.scope, st.cost, &c, at)
	}
	for _, c := range charges {
		p.fault(KindCharges, "a place in %s, which does not match", c.Limit)
	}
	switch {
	case len(asks) > 0:
		p.goesTo(p.standsAt(asks[0].Scope, ""))
		p.sends(env, p.standsAt(asks[0].Scope, ""), &schemas.Round{For: forRecord, Revision: d.Revision, Ask: asks})
	case d.Onward != nil:
		p.fault(KindOwner, "sent on to partition %d, and nobody is left to be asked", *d.Onward)
	}
}
