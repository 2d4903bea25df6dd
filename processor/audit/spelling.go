package audit

import (
	"cmp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// Keys of mail addresses ignore letter case. In logs from before they do not: such a
// message has its address as it was spelled, its partition and its places, and keeps
// them until its end. A request in another spelling than its key comes by the
// partition that had that spelling. This partition forwards it with the places that
// stand there, which from then on stand in the scopes of the key.

// spelling returns how a message's address is spelled, if that was its key once, and
// this is the partition that had it.
func (p *partition) spelling(in *kgo.Record, env *schemas.Envelope) (string, bool) {
	old := ""
	switch {
	case env != nil:
		old = env.Key
	case p.request(in) != nil:
		if r, err := recipient.Canonical(schemas.ChannelEmail, p.req.To, ""); err == nil {
			old = r.Address()
		}
	}
	return old, old != p.e.To && recipient.Fold(old) == p.e.To && schemas.PartitionOf(old, p.partitions) == p.num
}

// forwards judges that a message was sent on to the owner of its recipient, with the
// places of another spelling if it came by that.
func (p *partition) forwards(in *kgo.Record, env *schemas.Envelope) {
	e, d := p.e, p.e.Decision
	p.counts.Forwarded += p.one()
	if p.judged {
		p.forwarded.put(item{id: idOf(e.MessageID), t: e.AcceptedAt, rest: sumOf(e.To)[0]}, 1, d.T)
	}
	old, other := p.spelling(in, env)
	if !other && (!p.blind || len(d.Returned) == 0) {
		p.nothingReturned()
		if e.To != "" && p.home() == p.num {
			p.fault(KindForward, "forwarded by the partition that owns the recipient")
		}
		return
	}
	if len(d.Missing)+len(d.Released)+len(d.Restored) > 0 || len(d.Returned) != len(d.Reinstated) {
		p.fault(KindReturned, "a message that goes to its recipient's key takes %d places with it, and leaves %d", len(d.Reinstated), len(d.Returned))
	}
	for i := range d.Returned {
		c := &d.Returned[i]
		p.counts.Returned += p.one()
		switch stood := p.places.take(scopeKey(c.Limit, c.Scope), c.T, c.Cost); {
		case stood || !p.seen(c):
		case p.cut && c.T <= p.begin:
			p.cannotTell("places of another spelling that were taken before the log")
		default:
			p.fault(KindReturned, "no place stands in %s at %s with cost %d, to go with the message", c.Limit, c.T, c.Cost)
		}
		if i >= len(d.Reinstated) {
			continue
		}
		n := d.Reinstated[i]
		if n.Limit != c.Limit || n.T != c.T || n.Cost != c.Cost || other && n.Scope != respelled(c.Scope, old, e.To) {
			p.fault(KindRestored, "a place in %s goes with the message as one in another limit or scope, of another time or cost", c.Limit)
		}
		p.counts.Reinstated += p.one()
		if p.judged || c.T >= p.released.from {
			p.released.put(askedBack(e.MessageID, e.To, p.home(), true, &n), 1, d.T)
		}
	}
	if !other {
		return
	}
	p.asOld(in, old)
	p.nothingLeft(in, old)
}

// mostGone is how many places go with one message at most.
const mostGone = 256

// nothingLeft judges that all places of another spelling go with a message that
// windows see one by one: in limits that it matches whatever provider it gets.
func (p *partition) nothingLeft(in *kgo.Record, old string) {
	d := p.e.Decision
	if len(d.Returned) >= mostGone || p.revision < 0 || p.rules.content {
		return
	}
	req := p.request(in)
	if req == nil || req.Action != schemas.ActionSend && req.Action != schemas.ActionRecord || req.Validate(d.T) != nil {
		return
	}
	s, sure := p.subject(in)
	if !sure {
		return
	}
	defer func(to string) { p.to = to }(p.to)
	s.to, p.to = old, old
	for _, st := range p.plan(s) {
		if st.l.wide || slices.Contains(st.l.dims, "provider") || len(st.l.Match.Provider) > 0 || p.places.of(scopeKey(st.l.Name, st.scope)) != nil {
			continue
		}
		for _, r := range p.recount(st.l, st.scope, 0, d.T, nil) {
			named := r.w.Kind == schemas.WindowRolling || r.w.Kind == schemas.WindowCalendar && r.w.N <= 100
			if named && r.count > 0 {
				p.fault(KindReturned, "%d places in %s are left under another spelling of its recipient", r.count, st.l.Name)
				break
			}
		}
	}
}

// asOld notes what a request means for messages that are on their way under an old
// key: the partition that has them knows it too.
func (p *partition) asOld(in *kgo.Record, old string) {
	req := p.request(in)
	if req == nil || req.Validate(p.t) != nil {
		return
	}
	switch of := p.scope(); req.Action {
	case schemas.ActionSuppress:
		if n := termsAsked(req); !n.over(p.t) {
			p.causes.drop(old, of, p.t)
			p.causes.optOuts[old] = append(p.causes.optOuts[old], suppression{of, n})
		}
	case schemas.ActionUnsuppress:
		p.causes.drop(old, of, p.t)
	case schemas.ActionCancel:
		p.causes.cancels[messageKey(req.Tenant, old, req.ID)] = p.t
	case schemas.ActionSend, schemas.ActionRecord, schemas.ActionRelease:
	}
}

// comesWith judges the places that a forward brought from another spelling, and
// stands them up: they stood until it was sent, and ask for no room.
func (p *partition) comesWith(env *schemas.Envelope) {
	d := p.e.Decision
	if env == nil || env.Reason != schemas.ReadmitForward || len(env.Restore) == 0 || d.Verdict == schemas.VerdictForward {
		return
	}
	for i := range env.Restore {
		c := &env.Restore[i]
		l := p.rules.byName[c.Limit]
		switch {
		case len(d.Restored) > 0 && d.Restored[0] == *c:
			d.Restored = d.Restored[1:]
			p.counts.Restored += p.one()
		case l == nil || c.T > d.T:
			continue
		default:
			p.fault(KindRestored, "it does not put in a place in %s of %s, which came with the message", c.Limit, c.T)
			continue
		}
		if l == nil {
			continue
		}
		if seen := d.T - l.reach; l.reach > 0 && c.T >= seen {
			p.places.add(scopeKey(c.Limit, c.Scope), c.T, c.Cost, p.key[0], seen)
		}
	}
}

// movedOptOut reports whether a request to suppress is an opt-out that the partition of
// another spelling had.
func (b *bounds) movedOptOut(env *schemas.Envelope) bool {
	return env != nil && env.Reason == schemas.ReadmitForward && b.ledger != "" && env.Origin.Topic == b.ledger
}

// outlasts reports whether what is suppressed lasts as long as what is asked for.
func (n terms) outlasts(o terms) bool {
	return n.until == 0 || o.until != 0 && n.until >= o.until
}

// respelled is a scope of one recipient as the same limit has it of another.
func respelled(scope, old, key string) string {
	if scope == old {
		return key
	}
	was, is := escaped(old), escaped(key)
	if rest, ok := strings.CutPrefix(scope, "recipient="+was); ok {
		return "recipient=" + is + rest
	}
	return cmp.Or(strings.Replace(scope, was, is, 1), scope)
}
