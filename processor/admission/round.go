package admission

import (
	"slices"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// A message that wide limits apply to goes round their owners before its home,
// the partition of its recipient, dispatches it. What it has been charged
// travels with it in the header weir-round; nobody waits for it, and no owner
// knows more of it than the places it took.

// ask puts a message to the limits that apply to it, in the policy's order, as
// far as this partition owns them, and sends it on to the owner of the next. Once
// all have been asked it is dispatched under verdict v. What the message holds
// from an earlier attempt moves.
func (p *partition) ask(m *message, v schemas.Verdict, queue topics.Queue) outcome {
	if m.waited() {
		m.asked.taken = slices.Clone(m.round.Taken)
	}
	if m.round.Refused {
		return p.turnedAway(m, &limit.Result{Refused: m.round.Evidence, RetryAt: m.round.RetryAt})
	}
	var r limit.Result
	if p.settled(m) {
		if late := p.late(m); len(late) > 0 {
			if p.table.DecideReturn(&r, p.cur.rules, m.to.Key, nil, nil, late, p.cur.meta.T); !r.OK {
				return p.turnedAway(m, &r)
			}
			m.round.add(&r)
		}
		return p.cameRound(m, &r, nil, v, queue)
	}
	s := m.subject()
	if m.waited() {
		own := *s // a copy, so that s costs no memory where nobody waits
		m.asked.own = &own
	}
	if !p.cur.rules.Wide() && !m.around && !slices.ContainsFunc(m.env.Place, isWide) { // as a rule
		p.table.DecideInto(&r, p.cur.rules, s, m.env.Place, p.cur.meta.T)
		if !r.OK {
			return p.turnedAway(m, &r)
		}
		return p.handOver(m, p.dispatch(m, &r, v, queue))
	}

	stops := p.cur.rules.Plan([]limit.Stop{}, s) // none is to cameRound that nothing has changed
	own, here, rest, last := p.next(m, stops)
	if m.waited() {
		m.planned(stops, own, here)
	}
	old, taken := m.round.standing(m.env.Place, here) // what these limits are asked without
	var former, late []schemas.Charge                 // that home's own have taken
	switch {
	case own && m.round.Home: // home's revision changed: its own limits are asked anew
		m.round.Evidence = slices.DeleteFunc(m.round.Evidence, func(e schemas.Evidence) bool { return !limit.Wide(e.Scope) })
		former = slices.DeleteFunc(slices.Clone(m.round.Taken), isWide)
		taken = append(taken, former...)
	case own:
		old = append(old, slices.DeleteFunc(slices.Clone(m.env.Place), isWide)...)
	case len(rest) == 0: // the next step is the dispatch
		late = p.late(m)
	}
	r.OK = true
	switch {
	case len(late) > 0:
		p.table.DecideReturn(&r, p.cur.rules, m.to.Key, here, old, append(taken, late...), p.cur.meta.T)
	case own || len(here) > 0:
		if !own {
			s = nil
		}
		p.table.DecideStep(&r, p.cur.rules, s, here, old, taken, p.cur.meta.T)
	}
	if !r.OK {
		return p.turnedAway(m, &r)
	}
	m.round.add(&r)
	drawn := m.round.forget(without(former, r.Returned, r.Missing))
	if m.waited() { // what is left here is counted when home decides
		m.round.untold(here)
	}
	if own {
		m.round.Home, m.round.HomeRevision = true, p.cur.meta.Marker.Revision
	}
	m.around = true
	if len(rest) > 0 {
		r.Passed = append(r.Passed, drawn...)
		return p.sendRound(m, &r, rest, last && m.round.within(stops))
	}
	o := p.cameRound(m, &r, stops, v, queue)
	o.event.Decision.Passed = append(o.event.Decision.Passed, drawn...)
	return o
}

// late returns the charges of home's own limits that were taken before now, under the
// revision in force. A message is dispatched with charges of the time of its dispatch:
// windows of the limits hold for charges, and so hold for dispatches. So these are taken
// again, now. What is of another revision is asked again in full, or given up.
func (p *partition) late(m *message) []schemas.Charge {
	if m.round.HomeRevision != p.cur.meta.Marker.Revision {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(m.round.Taken), func(c schemas.Charge) bool { return isWide(c) || c.T == p.cur.meta.T })
}

// next returns what of a plan is to be asked now: home's own limits, the wide
// ones that it owns, and then those of the next owners before it is home's turn
// again, or the last of them. What was asked in this round is not asked again, but
// for home's own limits when its revision has changed.
func (p *partition) next(m *message, stops []limit.Stop) (own bool, here, rest []schemas.Ask, last bool) {
	anew := m.round.HomeRevision != p.cur.meta.Marker.Revision
	for i := range stops {
		switch st := &stops[i]; {
		case st.Own && m.round.Home && !anew, !st.Own && m.round.asked(&st.Ask):
		case st.Own && len(rest) > 0:
			return own, here, rest, false
		case st.Own:
			own = true
		case len(rest) == 0 && limit.Owner(st.Ask.Scope, p.env.partitions) == p.num:
			here = append(here, st.Ask)
		default:
			rest = append(rest, st.Ask)
		}
	}
	return own, here, rest, true
}

// sendRound sends a message to the owner of the first of these limits.
func (p *partition) sendRound(m *message, r *limit.Result, asks []schemas.Ask, last bool) outcome {
	owner := limit.Owner(asks[0].Scope, p.env.partitions)
	m.event.Kind = schemas.KindDecision
	d := p.charged(r, &m.source, owner)
	m.event.Decision = d
	env := m.env
	round := m.round.Round
	round.For, round.Revision, round.Ask, round.Last, round.Segments = m.reason, d.Revision, asks, last, m.event.Segments
	round.Channel, round.Class, round.Template, round.Cost = m.req.Channel, m.req.Class, m.req.Template, m.req.Cost
	env.Reason, env.DecidedAt, env.DueAt, env.Round = schemas.ReadmitCharge, d.T, 0, &round // it keeps Return, for returnsOn
	env.Turn = m.turn
	env.Reply = m.input.env.Reply
	return outcome{event: m.event, send: []send{{topic: p.env.names.Readmit(), partition: owner, env: env}}}
}

// settled reports whether a message comes round with an answer that needs no more
// of its content: it was refused, or all limits of home's revision were asked.
func (p *partition) settled(m *message) bool {
	return m.around && m.round.Revision == p.cur.meta.Marker.Revision && (m.round.Refused || m.round.Last)
}

// cameRound dispatches a message that every limit of its plan let pass. What it
// holds beside that, under another revision or by another provider, is returned;
// with no plan it holds nothing else.
func (p *partition) cameRound(m *message, r *limit.Result, stops []limit.Stop, v schemas.Verdict, queue topics.Queue) outcome {
	var carried, former []schemas.Charge
	for _, c := range m.round.Taken {
		switch {
		case slices.Contains(r.Charges, c):
		case stops == nil || planned(stops, &c):
			carried = append(carried, c)
		default:
			former = append(former, c)
		}
	}
	var left []schemas.Charge // of an earlier attempt, in a scope that is not asked any more
	for _, c := range m.env.Place {
		visited := m.round.Home
		if isWide(c) {
			visited = m.round.asked(&schemas.Ask{Limit: c.Limit, Scope: c.Scope, Cost: anyCost})
		}
		if !visited {
			left = append(left, c)
		}
	}
	all := limit.Result{OK: true, Charges: r.Charges, Returned: r.Returned, Missing: r.Missing, Observed: m.round.Evidence}
	m.round.Taken = nil // nothing is left to unwind
	place := append(slices.Clone(carried), r.Charges...)
	o := p.dispatch(m, &all, v, queue)
	d := o.event.Decision
	d.Carried = carried
	for _, a := range m.round.Passed {
		if stops == nil || slices.ContainsFunc(stops, func(st limit.Stop) bool { return !st.Own && st.Ask == a }) {
			d.Passed = append(d.Passed, a)
		}
	}
	for i := range o.send {
		o.send[i].env.Place, o.send[i].env.CallBy = place, p.callBy(m, place)
	}
	o = p.handOver(m, o)
	p.letGo(&o, &m.env, former, nil, true)
	p.letGo(&o, &m.env, left, nil, false)
	return o
}

// turnedAway ends a message that a limit refused, here or at an owner, or lets it
// wait.
func (p *partition) turnedAway(m *message, r *limit.Result) outcome {
	if m.repeated() {
		due := max(r.RetryAt, m.round.Due)
		if r.RetryAt == 0 { // never: it ends at its expiry
			due = m.env.ExpiresAt
		}
		return p.parkRefused(m, r, m.reason, due)
	}
	if p.isEarly(m) {
		return p.awaitTurn(m, r.RetryAt)
	}
	if turn, early, ok := p.deferral(m, r); ok {
		o := p.parkRefused(m, r, schemas.ReadmitDue, early)
		o.event.RetryAt = min(turn, m.env.ExpiresAt)
		if o.send[0].env.Turn = m.turn; early < turn {
			o.send[0].env.Turn = turn
		}
		return o
	}
	o := p.end(m, schemas.StatusLimited, schemas.VerdictRefuse, reasonLimited)
	refuse(&o.event, r)
	return o
}

// round is a message's round as admission works on it.
type round struct{ schemas.Round }

// add counts what a step took.
func (o *round) add(r *limit.Result) {
	for _, c := range r.Returned {
		if !o.gaveUp(c) {
			o.Moved = append(o.Moved, c)
		}
	}
	for _, c := range r.Missing {
		o.gaveUp(c)
	}
	o.Taken = append(o.Taken, r.Charges...)
	o.Passed = append(o.Passed, r.Passed...)
	o.Evidence = append(o.Evidence, r.Observed...)
}

// gaveUp reports whether a place was taken by this very round, under another
// revision, and strikes it out: it was given up for another, or nobody sees it
// any more.
func (o *round) gaveUp(c schemas.Charge) bool {
	i := slices.Index(o.Taken, c)
	if i >= 0 {
		o.Taken = slices.Delete(slices.Clone(o.Taken), i, i+1) // the input has the same slice, and a decision changes none
	}
	return i >= 0
}

// forget strikes out what this round drew from buckets that are asked anew, and says
// so with its times: nothing of it comes back.
func (o *round) forget(places []schemas.Charge) (drawn []schemas.Ask) {
	for _, c := range places {
		o.gaveUp(c)
		drawn = append(drawn, schemas.Ask{Limit: c.Limit, Scope: c.Scope, Cost: c.Cost, T: c.T})
	}
	return drawn
}

// anyCost is an ask's cost that equals every other.
const anyCost = -1

// asked reports whether the round has been to a limit and scope.
func (o *round) asked(a *schemas.Ask) bool {
	same := func(limit, scope string, cost int64) bool {
		return limit == a.Limit && scope == a.Scope && (cost == a.Cost || a.Cost == anyCost)
	}
	return slices.ContainsFunc(o.Taken, func(c schemas.Charge) bool { return same(c.Limit, c.Scope, c.Cost) }) ||
		slices.ContainsFunc(o.Passed, func(b schemas.Ask) bool { return same(b.Limit, b.Scope, b.Cost) })
}

// standing returns the places that a message has in the limits and scopes of asks: of
// an earlier attempt, unless the round has moved them, and of the round itself, which
// under another revision of home asks for another cost.
func (o *round) standing(places []schemas.Charge, asks []schemas.Ask) (old, taken []schemas.Charge) {
	return held(without(places, o.Moved), asks), held(o.Taken, asks)
}

// held returns those places that stand in the limits and scopes of asks.
func held(places []schemas.Charge, asks []schemas.Ask) (out []schemas.Charge) {
	for _, c := range places {
		if slices.ContainsFunc(asks, func(a schemas.Ask) bool { return a.Limit == c.Limit && a.Scope == c.Scope }) {
			out = append(out, c)
		}
	}
	return out
}

// planned reports whether a place that a round took is still one that the message
// needs. Home's own are, if any of its limits applies: under another revision they
// were taken anew.
func planned(stops []limit.Stop, c *schemas.Charge) bool {
	wide := isWide(*c)
	return slices.ContainsFunc(stops, func(st limit.Stop) bool {
		return st.Own && !wide || !st.Own && st.Ask.Limit == c.Limit && st.Ask.Scope == c.Scope && st.Ask.Cost == c.Cost
	})
}

// within reports whether all that the round was charged or passed is of a plan: what
// is of another revision's is still to be given up.
func (o *round) within(stops []limit.Stop) bool {
	return !slices.ContainsFunc(o.Taken, func(c schemas.Charge) bool { return !planned(stops, &c) }) &&
		!slices.ContainsFunc(o.Passed, func(a schemas.Ask) bool {
			return !slices.ContainsFunc(stops, func(st limit.Stop) bool { return !st.Own && st.Ask == a })
		})
}
