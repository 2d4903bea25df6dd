package audit

import "github.com/weirhq/weir/schemas"

// handedOver judges that an admission ends its message if and only if Weir does
// not call its provider, and returns whether it goes to a dispatch topic: to a
// lane or to the consumer of a provider of type external, and not where a
// provider of type none only decides.
func (p *partition) handedOver() (dispatched bool) {
	e := p.e
	pol := p.config.policy(e.Decision.Revision)
	if pol == nil {
		return true // no such revision: input says so
	}
	v, there := pol.Provider(e.Provider)
	if !there {
		return true // the choice of a provider is not judged
	}
	want := schemas.StatusQueued
	if !v.HasLane() {
		want = schemas.StatusSent
	}
	if e.Status != want {
		p.fault(KindOrder, "admitted as %s for a provider of type %s: its status is %s", e.Status, v.Type, want)
	}
	return v.Type != schemas.ProviderNone
}

// sentByWhom judges that a message is sent by who may say so: a lane after it
// was sending, or an admission.
func (p *partition) sentByWhom(before schemas.Status) {
	if p.e.Status != schemas.StatusSent {
		return
	}
	switch d := p.e.Decision; {
	case d == nil && before != schemas.StatusSending:
		p.fault(KindOrder, "sent by a lane that was not sending it")
	case d != nil && d.Verdict != schemas.VerdictAdmit && d.Verdict != schemas.VerdictMove:
		p.fault(KindOrder, "sent, though it was not admitted but %s", d.Verdict)
	}
}

// roles are the topics that a provider has, by all types that it ever had.
type roles struct{ queues, journal bool }
