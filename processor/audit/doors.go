package audit

import (
	"cmp"
	"slices"

	"github.com/weirhq/weir/schemas"
)

// doors returns the tenants that any revision ever bound a topic to.
func (h *history) doors() map[string][]string {
	out := make(map[string][]string)
	for _, p := range h.policies {
		for _, in := range p.Inputs {
			if !slices.Contains(out[in.Topic], in.Tenant) {
				out[in.Topic] = append(out[in.Topic], in.Tenant)
			}
		}
	}
	return out
}

// foreign reports whether the message in hand says that its request stands in
// another topic than those that are decided on.
func (p *partition) foreign() bool {
	src := p.e.Source
	return src != nil && src.Topic != "" && src.Topic != p.requests && src.Topic != p.readmit
}

// turnedAway judges a message that begins without a decision. One thing may: a
// record of a topic that is bound to a tenant, which named another or could not
// be read, ends before it comes to any partition's state. All that its end says
// follows from where the record stands and when it was appended, so nobody can
// end a message of his choice by it.
func (p *partition) turnedAway() {
	e := p.e
	switch {
	case e.Status != schemas.StatusRejected || !p.foreign():
		p.fault(KindPhantom, "it begins as %s, and nobody decided it", e.Status)
		return
	case !slices.Contains(p.doors[e.Source.Topic], e.Tenant):
		p.fault(KindPhantom, "rejected as tenant %s's at %s, which was never bound to it", e.Tenant, e.Source.Topic)
	case !derived(e):
		p.fault(KindPhantom, "rejected at %s, and its id is not that of the record there", e.Source)
	case p.num != schemas.PartitionOf(cmp.Or(e.To, e.MessageID), p.partitions):
		p.fault(KindPhantom, "rejected at %s, and it stands in another partition than its own", e.Source)
	case e.Attempt != 0 || e.Provider != "" || e.RedriveOf != "":
		p.fault(KindOrder, "rejected at %s, and yet it had a life before", e.Source)
	}
	p.counts.TurnedAway += p.one()
}

// derived reports whether a message's id is that of the record that its source
// names, in the form of this version or of an earlier one.
func derived(e *schemas.Event) bool {
	id := schemas.DerivedID(*e.Source, e.AcceptedAt)
	return e.MessageID == id || e.MessageID == schemas.LegacyID(id, "")
}
