package audit

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// giveBack judges places returned because their message ended elsewhere.
func (p *partition) giveBack(in *kgo.Record, env *schemas.Envelope) {
	p.counts.GivenBack += p.one()
	m, there := p.messages[p.key]
	if !there { // a give-back names no recipient of its own in some logs
		if env != nil {
			p.key = messageKey(p.e.Tenant, env.Key, p.e.MessageID)
			m, there = p.messages[p.key]
		}
	}
	switch {
	case in == nil:
		// input has said so
	case env == nil || env.Reason != schemas.ReadmitGiveBack || env.ID != p.e.MessageID:
		p.fault(KindCause, "the record that it answers asks for no give-back of this message")
	case env.Taint != schemas.TaintNone:
		p.fault(KindCause, "an attempt is %s: its place stands", env.Taint)
	}
	switch {
	case !there && p.cut:
		p.cannotTell("give-backs of messages that began before the log")
	case !there:
		p.fault(KindCause, "no end of this message stands before it")
	case m.flags&flagUnknown != 0:
		p.fault(KindCause, "the outcome of an attempt is unknown: its place stands")
	case m.state() == schemas.StatusSent || m.state() == schemas.StatusUnknown:
		p.fault(KindCause, "the message ended as %s: its place stands", m.state())
	case !m.state().End():
		p.fault(KindCause, "the message is %s, not ended", m.state())
	}
	if there {
		p.refunded(m)
	}
	p.settle(nil, p.trip.old, nil)
}

// ownReturns judges an end by admission, which returns in the same step what
// the message holds.
func (p *partition) ownReturns(in *kgo.Record, env *schemas.Envelope) {
	d, r := p.e.Decision, &p.trip.round
	foreign := env != nil && env.ID != p.e.MessageID
	if foreign {
		env = nil // a cancel ends a message that is somewhere else
	}
	p.learn(in, env)
	m := p.messages[p.key]
	kept := p.e.Status == schemas.StatusUnknown || m.flags&flagUnknown != 0 || env != nil && env.Taint != schemas.TaintNone
	switch {
	case env != nil && kept:
		if _, foreign := minus(r.Taken, joinCharges(d.Returned, d.Missing, d.Released)); len(foreign) > 0 {
			p.fault(KindCause, "an attempt may have been received: its place stands")
		}
		p.settle(r.Taken, nil, r.Moved)
	case env != nil:
		p.settle(r.Taken, p.trip.old, nil)
	case len(d.Returned)+len(d.Missing)+len(d.Released)+len(d.Restored)+len(d.Reinstated) == 0:
		return
	default: // it waited: what it held is in no record that was read
		if kept {
			p.fault(KindCause, "an attempt may have been received: its place stands")
		}
		p.giveUp()
		p.putBack()
	}
}

// nothingReturned judges a decision after which a message holds what it held: of
// its round it gives up all, and puts back what the round moved.
func (p *partition) nothingReturned() {
	d := p.e.Decision
	switch {
	case p.trip.on:
		p.settle(p.trip.round.Taken, nil, p.trip.round.Moved)
	case len(d.Returned)+len(d.Missing)+len(d.Released)+len(d.Restored)+len(d.Reinstated) > 0:
		if !p.blind {
			p.fault(KindReturned, "%s returned %d places", d.Verdict, len(d.Returned)+len(d.Released))
		}
		p.giveUp()
		p.putBack()
	}
}

// takeDown takes down what a decision returned: each place stood for this
// message, and what is missing did not.
func (p *partition) takeDown() {
	d := p.e.Decision
	for i := range d.Returned {
		c := &d.Returned[i]
		p.counts.Returned += p.one()
		if p.places.remove(scopeKey(c.Limit, c.Scope), c.T, c.Cost, p.key[0]) {
			continue
		}
		switch {
		case !p.seen(c):
			// No window counts it any more: it was forgotten here.
		case p.cut && c.T <= p.begin:
			p.cannotTell("returned places that were taken before the log")
		default:
			p.fault(KindReturned, "no place of this message stands in %s at %s with cost %d", c.Limit, c.T, c.Cost)
		}
	}
	for i := range d.Missing {
		c := &d.Missing[i]
		p.counts.Missing += p.one()
		if p.places.remove(scopeKey(c.Limit, c.Scope), c.T, c.Cost, p.key[0]) && p.seen(c) {
			p.fault(KindReturned, "the place in %s at %s stands, and was not found", c.Limit, c.T)
		}
	}
}
