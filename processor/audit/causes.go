package audit

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// optOut is what a suppression covers: messages that have each field it gives.
type optOut struct{ tenant, channel, class string }

func (o optOut) covers(m optOut) bool {
	return (o.tenant == "" || o.tenant == m.tenant) && (o.channel == "" || o.channel == m.channel) && (o.class == "" || o.class == m.class)
}

// terms are what else a decision on a suppression says of it.
type terms struct {
	until   schemas.Millis // from then on it covers nothing; 0: until it is lifted
	why, by string
}

func (n terms) over(t schemas.Millis) bool { return n.until != 0 && n.until <= t }

// suppression is one that the log tells of.
type suppression struct {
	optOut
	terms
}

// causes are what ends messages whatever the limits say, as the log tells it:
// who opted out of what until when, and which messages their senders took back
// before they came through.
type causes struct {
	optOuts map[string][]suppression // by recipient; some are over
	cancels map[sum]schemas.Millis
}

func newCauses() *causes {
	return &causes{optOuts: make(map[string][]suppression), cancels: make(map[sum]schemas.Millis)}
}

// suppressed reports whether something covers a message at t, and until when in
// all; 0 is until it is lifted.
func (c *causes) suppressed(to string, m optOut, t schemas.Millis) (until schemas.Millis, yes bool) {
	for _, o := range c.optOuts[to] {
		if o.over(t) || !o.covers(m) {
			continue
		}
		if !yes || o.until == 0 || until != 0 && o.until > until {
			until = o.until
		}
		yes = true
	}
	return until, yes
}

// stands returns what stands at t in exactly a scope.
func (c *causes) stands(to string, of optOut, t schemas.Millis) (terms, bool) {
	for _, o := range c.optOuts[to] {
		if o.optOut == of && !o.over(t) {
			return o.terms, true
		}
	}
	return terms{}, false
}

// drop forgets a scope of a recipient, and what is over at t.
func (c *causes) drop(to string, of optOut, t schemas.Millis) {
	left := slices.DeleteFunc(c.optOuts[to], func(o suppression) bool { return o.optOut == of || o.over(t) })
	if c.optOuts[to] = left; len(left) == 0 {
		delete(c.optOuts, to)
	}
}

// A cancel of a message that is not there is remembered for a day, and dropped
// with the hour it stands in.
func (c *causes) cancelled(message sum, t schemas.Millis) (yes, maybe bool) {
	at, there := c.cancels[message]
	return there && t-at < unique, there && t-at < remembered
}

func (c *causes) sweep(t schemas.Millis) {
	for k, at := range c.cancels {
		if t-at >= remembered {
			delete(c.cancels, k)
		}
	}
	for to, all := range c.optOuts {
		if left := slices.DeleteFunc(all, func(o suppression) bool { return o.over(t) }); len(left) == 0 {
			delete(c.optOuts, to)
		} else {
			c.optOuts[to] = left
		}
	}
}

func (p *partition) scope() optOut {
	return optOut{p.e.Tenant, p.e.Channel, p.e.Class}
}

// goesOn judges that nothing forbade a message to come as far as its limits or
// its expiry.
func (p *partition) goesOn() {
	if _, yes := p.causes.suppressed(p.e.To, p.scope(), p.t); yes {
		p.fault(KindSuppressed, "%s, while the recipient is suppressed", p.e.Decision.Verdict)
	}
	if yes, _ := p.causes.cancelled(p.key, p.t); yes {
		p.fault(KindCancelled, "%s, though it was cancelled before", p.e.Decision.Verdict)
	}
}

// suppression judges a change of who opted out, or an end because of it.
func (p *partition) suppression(in *kgo.Record) {
	if p.e.Kind == schemas.KindStatus {
		until, yes := p.causes.suppressed(p.e.To, p.scope(), p.t)
		switch {
		case !yes && p.cut:
			p.cannotTell("suppressed messages whose suppression may lie before the log")
		case !yes:
			p.fault(KindSuppressed, "suppressed, and no suppression of the recipient covers it")
		case p.cut: // one before the log may cover it longer
		case p.e.Status == schemas.StatusSuppressed && p.e.RetryAt != until:
			p.fault(KindSuppressed, "it says that it is suppressed until %s, and that is until %s", p.e.RetryAt, until)
		}
		return
	}
	old, stands := p.causes.stands(p.e.To, p.scope(), p.t)
	said := terms{until: p.e.RetryAt, why: p.e.ErrorCode, by: p.e.Provider}
	var action schemas.Action
	switch p.e.Reason {
	case "suppress":
		action = schemas.ActionSuppress
		switch {
		case stands && old == said:
			p.fault(KindSuppressed, "suppressed again, though it stands")
		case said.over(p.t):
			p.fault(KindSuppressed, "suppressed until %s, which is over", said.until)
		}
		p.causes.drop(p.e.To, p.scope(), p.t)
		p.causes.optOuts[p.e.To] = append(p.causes.optOuts[p.e.To], suppression{p.scope(), said})
	case "unsuppress":
		action = schemas.ActionUnsuppress
		if !stands && !p.cut {
			p.fault(KindSuppressed, "a suppression lifted that does not stand")
		}
		p.causes.drop(p.e.To, p.scope(), p.t)
	default:
		p.fault(KindSuppressed, "a decision on a suppression that says %q", p.e.Reason)
		return
	}
	req := p.request(in)
	switch {
	case req == nil:
	case req.Action != action:
		p.fault(KindSuppressed, "the record that it answers asks for %s", req.Action)
	case action == schemas.ActionSuppress && termsAsked(req) != said:
		p.fault(KindSuppressed, "the record that it answers asks for another end, reason or provider: until %s, and it says %s", req.ExpiresAt, said.until)
	}
}

// termsAsked is what a suppress request says beside whom it covers.
func termsAsked(req *schemas.Request) terms {
	return terms{until: req.ExpiresAt, why: req.Metadata[schemas.MetaReason], by: req.Metadata[schemas.MetaProvider]}
}

// cancellation judges that a message was taken back: at once where it waited,
// and else, remembered, when it comes through.
func (p *partition) cancellation(in *kgo.Record) {
	waits := func() bool {
		m, there := p.messages[p.key]
		return there && m.flags&flagRound == 0 && (m.state() == schemas.StatusScheduled || m.state() == schemas.StatusDeferred)
	}
	req := p.request(in)
	asked := req != nil && req.Action == schemas.ActionCancel && req.ID == p.e.MessageID
	if p.e.Kind != schemas.KindStatus {
		switch {
		case req != nil && !asked:
			p.fault(KindCancelled, "the record that it answers does not ask for it")
		case waits():
			p.fault(KindCancelled, "a cancel put off, of a message that waits here")
		}
		p.causes.cancels[p.key] = p.t
		return
	}
	_, early := p.causes.cancelled(p.key, p.t)
	_, there := p.messages[p.key]
	switch {
	case early:
	case asked && waits():
	case in == nil || p.cut && (!there || p.t-p.begin < remembered):
		p.cannotTell("cancelled messages whose cancel may lie before the log")
	case asked:
		p.fault(KindCancelled, "cancelled, though it does not wait here")
	default:
		p.fault(KindCancelled, "cancelled, and nobody asked for it")
	}
}

// nothing judges a decision that changes nothing: that there was nothing to
// change.
func (p *partition) nothing(in *kgo.Record, env *schemas.Envelope) {
	if p.inquired(in, env) {
		return
	}
	req := p.request(in)
	if req == nil {
		return
	}
	aside := p.e.Reason == schemas.ReasonForeignRecord || p.e.Reason == schemas.ReasonMisroutedRecord
	if req.Action == schemas.ActionRelease && !aside {
		p.notReleased(in, env)
		return
	}
	old, stands := p.causes.stands(p.e.To, p.scope(), p.t)
	_, early := p.causes.cancelled(p.key, p.t)
	m, there := p.messages[p.key]
	switch {
	case aside:
		if req.Action == schemas.ActionSend && p.ours(env) && !p.astray(env) && !(env.Reason == schemas.ReadmitRedrive && env.OtherTenant(req)) {
			p.fault(KindUnanswered, "put aside as foreign, though it is a message that came back to be decided")
		}
	case p.cut:
	case req.Action == schemas.ActionSuppress && p.movedOptOut(env) && stands && old.outlasts(termsAsked(req)):
	case req.Action == schemas.ActionSuppress && !(stands && old == termsAsked(req)), req.Action == schemas.ActionUnsuppress && stands:
		p.fault(KindSuppressed, "%s changed nothing, and should have", req.Action)
	case req.Action == schemas.ActionCancel && !early && !(there && m.state().End()):
		p.fault(KindCancelled, "a cancel changed nothing, and should have")
	case req.Action == schemas.ActionSend && !(there && m.state().End()):
		p.fault(KindUnanswered, "a message that came back was dropped, and has no end")
	}
}

// reasonQuota is what a decision on a question for what is left says.
const reasonQuota = "quota"

// inquired judges the decision on a question for what is left: it changes nothing,
// and nothing else is taken for one.
func (p *partition) inquired(in *kgo.Record, env *schemas.Envelope) bool {
	if in == nil {
		return p.e.Reason == reasonQuota
	}
	asks := env != nil && env.Reason == schemas.ReadmitQuota && p.ours(env)
	if asks {
		_, err := schemas.DecodeQuotaAsk(in.Value)
		asks = err == nil
	}
	if asks != (p.e.Reason == reasonQuota) {
		p.fault(KindPhantom, "decided as %q, and a question for what is left: %v", p.e.Reason, asks)
	}
	return asks || env != nil && env.Reason == schemas.ReadmitQuota
}

// ours reports whether a record of readmit is of Weir's making: by its reason,
// and one that sends a message again by its whole envelope, since operators write
// those.
func (p *partition) ours(env *schemas.Envelope) bool {
	if env == nil {
		return false
	}
	switch env.Reason {
	case schemas.ReadmitForward, schemas.ReadmitDue, schemas.ReadmitRetry, schemas.ReadmitStale, schemas.ReadmitReroute, schemas.ReadmitGiveBack,
		schemas.ReadmitCharge, schemas.ReadmitCharged, schemas.ReadmitUnwind:
		return true
	case schemas.ReadmitRedrive:
		return env.Redrives(p.num, p.partitions)
	case schemas.ReadmitQuota:
		return env.Inquires()
	default:
		return false
	}
}

// redriven judges the decision on a record that sends a message again: it is a
// new message, whose request is that record, and which is decided once. Asked
// for again within a day it changes nothing.
func (p *partition) redriven(in *kgo.Record, env *schemas.Envelope) {
	e := p.e
	if env == nil || env.Reason != schemas.ReadmitRedrive || e.Decision.Verdict == schemas.VerdictNothing {
		return
	}
	m, there := p.messages[p.key]
	for _, id := range env.RedriveIDs() { // an earlier version may have decided it
		if !there {
			m, there = p.messages[messageKey(e.Tenant, e.To, id)]
		}
	}
	if e.Decision.Verdict == schemas.VerdictDuplicate {
		switch {
		case there && p.t-m.first < remembered:
		case p.cut && p.t-p.begin < remembered:
			p.cannotTell("redrives called repeated whose first decision may lie before the log")
		default:
			p.fault(KindUnanswered, "a redrive called repeated, and it was not decided before")
		}
		return
	}
	p.counts.Redriven += p.one()
	if req := p.request(in); req != nil && env.OtherTenant(req) {
		p.fault(KindPhantom, "a message that was refused as tenant %s's is sent again as another's", env.Tenant)
	}
	if there && p.t-m.first < unique {
		p.fault(KindTwice, "one redrive decided twice: its message began at %s", m.first)
	}
	source := schemas.Source{Topic: in.Topic, Partition: in.Partition, Offset: in.Offset}
	if e.Source == nil || *e.Source != source || e.AcceptedAt != schemas.MillisOf(in.Timestamp) {
		p.fault(KindPhantom, "a redriven message's request is the record that asks for it, %s of %s", source, schemas.MillisOf(in.Timestamp))
	}
	if e.RedriveOf != env.RedriveOf {
		p.fault(KindPhantom, "it says that it sends message %s again, and the record that it answers asks for %s", e.RedriveOf, env.RedriveOf)
	}
	if e.Decision.Verdict == schemas.VerdictMove || e.Attempt != 0 {
		p.fault(KindOrder, "a redriven message begins with no attempt and no place")
	}
}
