package audit

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// What a decision on a release says.
const (
	reasonReleased = "released"
	reasonRepeated = "repeated"
)

// decided is a decision without sending: what a release may give back.
type decided struct {
	charges  []schemas.Charge
	until    schemas.Millis // no window sees its places from then on, or from some time before
	released bool
	key      sum // in the ledger
}

// decidesOnly notes that the admission in hand is a decision without sending.
// Where an attempt before it may have brought the message to its recipient, it
// is none that may be released.
func (p *partition) decidesOnly(in *kgo.Record, env *schemas.Envelope) {
	pol := p.config.policy(p.e.Decision.Revision)
	if pol == nil {
		return
	}
	v, there := pol.Provider(p.e.Provider)
	if !there || v.Type != schemas.ProviderNone || in != nil && env != nil && env.Taint != schemas.TaintNone {
		return
	}
	d := decided{key: nameKey(kindHeld, p.e.Tenant, p.e.To, p.e.MessageID), charges: slices.Concat(p.e.Decision.Charges, p.e.Decision.Carried)}
	for _, c := range d.charges {
		if l := p.rules.byName[c.Limit]; l != nil && !l.keeps {
			d.until = max(d.until, l.until(c.T))
		}
	}
	if d.until > p.t {
		p.decided[p.key] = d
	}
}

// held reports whether a decision without sending has a place that some window
// sees and that can be given back: a window of the revision that decided it, not
// only a longer one of a later revision.
func (p *partition) held(d *decided) bool {
	return d.until > p.e.Decision.T && slices.ContainsFunc(d.charges, func(c schemas.Charge) bool {
		l := p.rules.byName[c.Limit]
		return l != nil && !l.keeps && p.seen(&c)
	})
}

// release judges places given back because who asked for a decision asks for it.
func (p *partition) release(in *kgo.Record, env *schemas.Envelope) {
	p.counts.GivenBack += p.one()
	p.asksForRelease(in, env)
	d, there := p.decided[p.key]
	switch {
	case !there && p.cut:
		p.cannotTell("releases of decisions that lie before the log")
	case !there:
		p.fault(KindCause, "no decision without sending stands before it, or it was too long ago")
	case d.released:
		p.fault(KindCause, "it was released before")
	}
	if !there {
		p.giveUp()
		return
	}
	d.released = true
	p.decided[p.key] = d
	p.settle(nil, d.charges, nil)
}

// asksForRelease judges that a record asks to release the message in hand.
func (p *partition) asksForRelease(in *kgo.Record, env *schemas.Envelope) {
	if in == nil {
		return // input has said so
	}
	if req := p.request(in); req == nil || req.Action != schemas.ActionRelease || req.ID != p.e.MessageID || env != nil && env.Key != p.e.To {
		p.fault(KindCause, "the record that it answers asks for no release of this message")
	}
}

// notReleased judges a release that changed nothing.
func (p *partition) notReleased(in *kgo.Record, env *schemas.Envelope) {
	p.asksForRelease(in, env)
	d, there := p.decided[p.key]
	switch {
	case there && !d.released && p.held(&d):
		p.fault(KindCause, "a release changed nothing, and the decision holds places")
	case p.e.Reason == reasonRepeated && !(there && d.released) && !p.cut:
		p.fault(KindCause, "a release called repeated, and there was none before it")
	}
}

// sweepDecided forgets the decisions of which no window sees a place, whatever
// policies came since.
func (p *partition) sweepDecided() {
	for k, d := range p.decided {
		if d.until <= p.t {
			delete(p.decided, k)
		}
	}
}
