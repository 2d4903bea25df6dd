package admission

import (
	"slices"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// charge is the step of an owner: it takes places for a message in the limits
// that it owns, as many as come one after another, or refuses, and sends the
// message on. It looks at no more of it than its round.
func (p *partition) charge(in *input) (outcome, error) {
	round := round{Round: *in.env.Round}
	if owner := limit.Owner(round.Ask[0].Scope, p.env.partitions); owner != p.num {
		return p.misrouted(in, owner), nil
	}
	asks := round.Ask
	if i := slices.IndexFunc(asks, func(a schemas.Ask) bool { return limit.Owner(a.Scope, p.env.partitions) != p.num }); i > 0 {
		asks = asks[:i]
	}
	round.Ask = round.Ask[len(asks):]
	e := schemas.Event{Kind: schemas.KindDecision, MessageID: in.env.ID, Tenant: in.env.Tenant, To: in.env.Key, At: p.cur.meta.T}
	if round.For == forRecord {
		return p.recordRound(in, e, asks, &round), nil
	}
	home := schemas.PartitionOf(in.env.Key, p.env.partitions)
	var r limit.Result
	old, taken := round.standing(in.env.Place, asks)
	p.table.DecideStep(&r, p.cur.rules, nil, asks, old, taken, p.cur.meta.T)
	onward := home
	switch {
	case !in.waited():
	case r.OK && home == p.num: // what is left where it has a place is counted when it is back
		round.untold(asks)
	default:
		p.tell(&round, asks)
	}
	if r.OK {
		round.add(&r)
		if len(round.Ask) > 0 {
			onward = limit.Owner(round.Ask[0].Scope, p.env.partitions)
		}
		e.Decision = p.charged(&r, &in.source, onward)
	} else {
		round.Refused, round.RetryAt = true, r.RetryAt
		round.Evidence = r.Refused
		for _, v := range r.Refused {
			if r.RetryAt > 0 && p.defers(v.Limit) {
				at, _ := p.handOut(v, r.RetryAt)
				round.Due = max(round.Due, at)
			}
		}
		e.Reason, e.RetryAt = reasonLimited, r.RetryAt
		e.Decision = p.stamp(schemas.VerdictRefuse, &in.source)
		e.Decision.Evidence, e.Decision.Onward = r.Refused, &onward
	}
	env := in.env
	env.Reason, env.DecidedAt, env.Round = schemas.ReadmitCharge, p.cur.meta.T, &round.Round
	if onward == home {
		env.Reason, round.Ask, round.Last = schemas.ReadmitCharged, nil, round.Last && len(round.Ask) == 0
	}
	return outcome{event: e, send: []send{{topic: p.env.names.Readmit(), partition: onward, env: env, relayed: true}}}, nil
}

// charged is the decision of a step that took places and sends its message on.
func (p *partition) charged(r *limit.Result, input *schemas.Source, onward int32) *schemas.Decision {
	d := p.stamp(schemas.VerdictCharge, input)
	d.Charges, d.Returned, d.Missing, d.Passed, d.Evidence, d.Onward = r.Charges, r.Returned, r.Missing, r.Passed, r.Observed, &onward
	return d
}

// forRecord is what the round of a message sent elsewhere is for: it takes its
// places, whether or not there is room, and does not come home.
const forRecord = "record"

// recordRound is an owner's step of such a round.
func (p *partition) recordRound(in *input, e schemas.Event, asks []schemas.Ask, round *round) outcome {
	d := p.stamp(schemas.VerdictRecord, &in.source)
	e.Decision = d
	p.recordHere(d, asks)
	o := outcome{event: e}
	p.recordOn(&o, &in.env, round.Ask)
	return o
}

// recordHere takes the places of wide limits that this partition owns.
func (p *partition) recordHere(d *schemas.Decision, asks []schemas.Ask) {
	for i := range asks {
		if c, ok := p.table.RecordStep(p.cur.rules, &asks[i], p.cur.meta.T); ok {
			d.Charges = append(d.Charges, c)
		} else {
			d.Passed = append(d.Passed, asks[i])
		}
	}
}

// recordOn sends a message that was sent elsewhere to the next owner, if there is
// one.
func (p *partition) recordOn(o *outcome, env *schemas.Envelope, asks []schemas.Ask) {
	if len(asks) == 0 {
		return
	}
	owner, d := limit.Owner(asks[0].Scope, p.env.partitions), o.event.Decision
	d.Onward = &owner
	next := schemas.Envelope{
		ID: env.ID, Key: env.Key, Tenant: env.Tenant, Origin: env.Origin, AcceptedAt: env.AcceptedAt,
		Reason: schemas.ReadmitCharge, DecidedAt: d.T, Round: &schemas.Round{For: forRecord, Revision: d.Revision, Ask: asks},
	}
	o.send = append(o.send, send{topic: p.env.names.Readmit(), partition: owner, env: next, bare: true})
}

// recordWide takes the places of a message that was sent elsewhere in wide limits:
// here, and by the owners.
func (p *partition) recordWide(o *outcome, m *message) {
	var here, rest []schemas.Ask
	for _, st := range p.cur.rules.Plan(nil, m.subject()) {
		if st.Own {
			continue
		}
		a := st.Ask
		a.T = m.req.At
		if limit.Owner(a.Scope, p.env.partitions) == p.num {
			here = append(here, a)
		} else {
			rest = append(rest, a)
		}
	}
	p.recordHere(o.event.Decision, here)
	p.recordOn(o, &m.env, rest)
}
