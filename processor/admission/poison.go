package admission

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// Resilient: a transaction's changes are an overlay, which Ended drops, so a panic
// leaves nothing half done.
func (s *stage) Resilient() {}

// decideOr decides a record, or ends one that cannot be processed.
func (p *partition) decideOr(in *input, why *stream.Poison) (outcome, error) {
	in.poison = why
	var o outcome
	switch {
	case why == nil && in.broken != nil:
		panic(in.broken) // again, where it is known of which record it is
	case why == nil:
		return p.decide(in)
	case why.Batch:
		o = p.skipped(in, why)
	case why.Tries > 0 || in.broken != nil:
		o = p.abandon(in, why)
	default:
		return p.decide(in)
	}
	if in.waited() {
		p.answer(in, &o)
	}
	return o, nil
}

// poisoned ends what decide would have decided. What a message holds is given back, if it
// cannot have been received.
func (p *partition) poisoned(m *message, why error) outcome {
	if !m.repeated() {
		return p.reject(m, why)
	}
	m.event.Error = why.Error()
	return p.endAgain(m, schemas.StatusRejected, schemas.VerdictReject, m.input.poison.Reason)
}

// unasked ends a message that is poison to the owner of a limit. It does not go on to the
// next, nor home.
func (p *partition) unasked(in *input) outcome {
	m := p.read(in)
	m.around, m.reason, m.round = true, in.env.Round.For, round{*in.env.Round}
	m.asRound()
	return p.poisoned(m, in.poison)
}

// abandon ends a record without looking at its bytes, or at anything but its envelope: to
// end it with more has failed. What it holds stays taken until it leaves its windows.
func (p *partition) abandon(in *input, why *stream.Poison) outcome {
	m := p.read(in)
	m.unnamed()
	m.event.Status, m.event.Reason, m.event.Error = schemas.StatusRejected, why.Reason, why.Error()
	m.event.Decision = p.stamp(schemas.VerdictReject, &m.source)
	if in.readmit && (m.env.ID == "" || in.env.Reason == schemas.ReadmitGiveBack || in.env.Reason == schemas.ReadmitUnwind) { // no message
		m.event.Kind, m.event.Status = schemas.KindDecision, ""
		m.event.Decision.Verdict = schemas.VerdictNothing
	}
	return outcome{event: m.event, send: []send{p.deadLetter(m, why.Reason, why.Error())}}
}

// skipped answers a batch that was not read, by the place of its last record.
func (p *partition) skipped(in *input, why *stream.Poison) outcome {
	o := p.aside(in, why.Reason, why.Error())
	o.event.Error = why.Error()
	return o
}

// readAhead reads a record. If that panics, take panics again, where it is known of which
// record it is.
func (s *stage) readAhead(in *input, r *kgo.Record, readmit bool) {
	defer func() {
		if v := recover(); v != nil {
			in.broken = v
		}
	}()
	readInput(in, r, readmit)
	if p := s.parts[r.Partition]; p != nil {
		p.foresee(in)
	}
}
