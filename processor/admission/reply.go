package admission

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// Who waits for a decision says so in the header weir-reply, and is told the first
// decision on the request, in the transaction that takes it. Until then the header
// goes wherever the request goes: to its home, and round the owners of wide
// limits. After it, it is gone.

// reply is what one decision tells who waits for it.
type reply struct {
	to schemas.Reply
	at string // the header weir-reply
}

// asked is what a message was put to, as far as a reply tells it. It is kept only
// where somebody waits.
type asked struct {
	own   *limit.Subject   // home's own limits, in this step
	here  []schemas.Ask    // wide ones of this partition, in this step
	taken []schemas.Charge // by earlier steps of the round
}

// waited reports whether somebody waits for the input's decision.
func (in *input) waited() bool { return in.env.Reply != "" }

// answer makes the reply of a decision, unless the request goes on undecided.
func (p *partition) answer(in *input, o *outcome) {
	d := o.event.Decision
	switch {
	case in.readmit && in.env.Reason == schemas.ReadmitCharge:
		return // of an owner's step home tells
	case d.Verdict == schemas.VerdictForward, d.Verdict == schemas.VerdictCharge:
		return
	}
	e := o.event
	e.Decision = nil
	if e.Kind == schemas.KindDecision {
		e.Decision = &schemas.Decision{Verdict: d.Verdict, Partition: d.Partition, Seq: d.Seq, T: d.T, Revision: d.Revision}
		if d.Verdict == schemas.VerdictDuplicate && p.message.req.Action == schemas.ActionSend {
			e.Status = schemas.StatusDuplicate
			if e.Reason == reasonKeyReused {
				e.Status = schemas.StatusRejected
			}
		}
	}
	o.reply = &reply{at: in.env.Reply, to: schemas.Reply{Event: &e, Limits: o.limits, Suppressed: o.suppressed}}
	switch {
	case d.Verdict == schemas.VerdictAdmit, d.Verdict == schemas.VerdictMove, d.Verdict == schemas.VerdictRefuse,
		d.Verdict == schemas.VerdictDefer && e.Reason == reasonLimited:
		o.reply.to.Limits = p.left(&p.message, d)
	}
}

// left is what is left in every limit that the message was put to: of those whose
// places stand here, after this decision; of others, as their owners said.
func (p *partition) left(m *message, d *schemas.Decision) (all []schemas.LimitState) {
	t, rules := p.cur.meta.T, p.cur.rules
	if m.asked.own != nil {
		all = p.table.States(all, rules, m.asked.own, t)
	}
	here := func(name, scope string) {
		to := m.to.Key
		if limit.Wide(scope) {
			to = ""
		}
		if !slices.ContainsFunc(all, of(name)) {
			all = p.table.StatesIn(all, rules, name, scope, to, t)
		}
	}
	for _, a := range m.asked.here {
		here(a.Limit, a.Scope)
	}
	for _, c := range m.asked.taken {
		if !isWide(c) || limit.Owner(c.Scope, p.env.partitions) == p.num {
			here(c.Limit, c.Scope)
		}
	}
	now := all // what was said on the way of these is of before, and of another revision's windows maybe
	for _, s := range m.round.States {
		if !slices.ContainsFunc(now, of(s.Limit)) {
			all = append(all, s)
		}
	}
	rank := func(name string) int {
		return slices.IndexFunc(p.cur.pol.Limits, func(l schemas.Limit) bool { return l.Name == name })
	}
	slices.SortStableFunc(all, func(a, b schemas.LimitState) int { return cmp.Compare(rank(a.Limit), rank(b.Limit)) })
	if d.Verdict == schemas.VerdictRefuse || d.Verdict == schemas.VerdictDefer {
		for i := range all {
			s := &all[i]
			s.Violated = slices.ContainsFunc(d.Evidence, func(e schemas.Evidence) bool { return e.Limit == s.Limit && e.Window == s.Window })
		}
	}
	return all
}

func of(name string) func(schemas.LimitState) bool {
	return func(s schemas.LimitState) bool { return s.Limit == name }
}

// planned takes down what a plan asks here and now, and drops what an earlier one
// had asked and this one does not.
func (m *message) planned(stops []limit.Stop, own bool, here []schemas.Ask) {
	m.round.keep(stops)
	m.asked.here = here
	if !own {
		m.asked.own = nil
	}
	m.asked.taken = slices.DeleteFunc(m.asked.taken, func(c schemas.Charge) bool { return !planned(stops, &c) || own && !isWide(c) })
}

// tell adds to a round what its asks' limits have left here, for the reply.
func (p *partition) tell(o *round, asks []schemas.Ask) {
	o.untold(asks)
	for _, a := range asks {
		o.States = p.table.StatesIn(o.States, p.cur.rules, a.Limit, a.Scope, "", p.cur.meta.T)
	}
}

// untold drops what was told of these asks' limits before.
func (o *round) untold(asks []schemas.Ask) {
	for _, a := range asks {
		o.States = slices.DeleteFunc(o.States, of(a.Limit))
	}
}

// keep drops of what owners told that which a new plan does not ask.
func (o *round) keep(stops []limit.Stop) {
	o.States = slices.DeleteFunc(o.States, func(s schemas.LimitState) bool {
		return !slices.ContainsFunc(stops, func(st limit.Stop) bool { return !st.Own && st.Ask.Limit == s.Limit })
	})
}

// record is the reply as a record of weir.replies; nil where there is no such
// partition: anyone may ask for a reply, in any words.
func (r *reply) record(topic string, partitions int32) *kgo.Record {
	n, correlation, ok := schemas.ParseReplyTo(r.at)
	if !ok || n >= partitions {
		return nil
	}
	return &kgo.Record{Topic: topic, Partition: n, Key: []byte(correlation), Value: schemas.AppendReply(nil, &r.to)}
}
