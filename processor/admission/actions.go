package admission

import (
	"github.com/google/uuid"

	"github.com/weirhq/weir/schemas"
)

// Requests other than send. Each is one decision in the log and no message: the
// one status that an action writes is the end of the message that it cancels.

// What a decision on an action says beside its verdict.
const (
	reasonSuppress      = "suppress"
	reasonUnsuppress    = "unsuppress"
	reasonNotSuppressed = "not_suppressed"
	reasonCancelled     = "cancelled"
	reasonRemembered    = "remembered" // a cancel of a message that does not wait here
	reasonRepeated      = "repeated"   // it changed nothing that was not so before
	reasonKeyReused     = "key_reused" // another content under a known id or key
	reasonLimited       = "limited"
	reasonTurn          = "turn" // of one that came back before its turn, and waits for it
)

// act carries out an action in the partition that owns its recipient.
func (p *partition) act(m *message) outcome {
	switch m.req.Action {
	case schemas.ActionSuppress:
		return p.suppress(m)
	case schemas.ActionUnsuppress:
		return p.unsuppress(m)
	case schemas.ActionCancel:
		return p.cancel(m)
	case schemas.ActionRecord:
		return p.record(m)
	case schemas.ActionRelease:
		return p.release(m)
	case schemas.ActionSend:
	}
	return p.reject(m, &refusal{schemas.ReasonUnknownValue, "the action is none that Weir knows"}) // Validate lets no other pass
}

// suppress makes a suppression, or says anew until when it stands and why. The
// decision says all of it, so that the log alone tells who was suppressed until
// when: why in error_code, by whom in provider, until when in retry_at.
func (p *partition) suppress(m *message) outcome {
	n := termsOf(&m.req)
	m.event.ErrorCode, m.event.Provider, m.event.RetryAt = n.Reason, n.Provider, n.Until
	if p.moved(m) && p.suppressed.outlasts(m.to.Key, scopeOf(&m.req), n, p.cur.meta.T) {
		return p.note(m, schemas.VerdictNothing, reasonRepeated)
	}
	added, err := p.suppressed.add(m.to.Key, scopeOf(&m.req), n, p.cur.meta.T)
	switch {
	case err != nil:
		return p.reject(m, err)
	case !added:
		return p.note(m, schemas.VerdictNothing, reasonRepeated)
	}
	return p.note(m, schemas.VerdictSuppress, reasonSuppress)
}

// unsuppress takes back one suppression, in exactly the scope in which it was
// made: what a recipient refused elsewhere stays refused.
func (p *partition) unsuppress(m *message) outcome {
	n := termsOf(&m.req)
	m.event.ErrorCode, m.event.Provider = n.Reason, n.Provider
	if !p.suppressed.remove(m.to.Key, scopeOf(&m.req), p.cur.meta.T) {
		return p.note(m, schemas.VerdictNothing, reasonNotSuppressed)
	}
	return p.note(m, schemas.VerdictSuppress, reasonUnsuppress)
}

// cancel ends a waiting message at once. Any other is out of admission's sight:
// not here yet, on its way through a lane, or long ended. That one is cancelled
// if it comes through admission within a day.
func (p *partition) cancel(m *message) outcome {
	m.event.MessageID = m.req.ID
	k := waitKey(m.req.Tenant, m.to.Key, m.req.ID)
	if w, waits := p.waiting.find(k); waits {
		if w.Cancelled {
			return p.note(m, schemas.VerdictNothing, reasonCancelled)
		}
		p.waiting.put(k, waiter{Origin: w.Origin, AcceptedAt: w.AcceptedAt, Cancelled: true})
		return p.endWaiting(m, &w)
	}
	id, err := uuid.Parse(m.req.ID)
	if err != nil { // Validate accepts no other ids
		return p.reject(m, &refusal{schemas.ReasonBadID, "the id is no UUID"})
	}
	early := cancelKey(m.req.Tenant, m.to.Key, m.req.ID)
	if _, known := p.cancels.find(early, p.cur.meta.T); known {
		return p.note(m, schemas.VerdictNothing, reasonRepeated)
	}
	p.cancels.remember(seenRecord{key: early, entry: seenEntry{id: id}, t: p.cur.meta.T})
	return p.note(m, schemas.VerdictCancel, reasonRemembered)
}

// endWaiting ends a message whose record is in the delay topics.
func (p *partition) endWaiting(m *message, w *waiter) outcome {
	origin := w.Origin
	ended := &message{input: m.input, env: schemas.Envelope{
		ID: m.req.ID, Key: m.to.Key, Tenant: m.req.Tenant, Origin: w.Origin, Provider: w.Provider, Place: w.Place, Taint: w.Taint,
	}, event: schemas.Event{
		Kind: schemas.KindStatus, MessageID: m.req.ID, To: m.to.Key, Tenant: m.req.Tenant,
		Channel: w.Channel, Class: w.Class, Template: w.Template, Provider: w.Provider,
		At: p.cur.meta.T, Attempt: w.Attempt, AcceptedAt: w.AcceptedAt, RedriveOf: w.RedriveOf, CallbackURL: w.CallbackURL, Source: &origin,
	}}
	return p.endAgain(ended, schemas.StatusCancelled, schemas.VerdictCancel, reasonCancelled)
}

// record takes the places of a message that was sent elsewhere. A repeat of its
// id or key takes none.
func (p *partition) record(m *message) outcome {
	m.env.Provider, m.event.Provider = m.req.Provider, m.req.Provider
	if o, known := p.recognise(m); known {
		o.event.Kind, o.event.Status = schemas.KindDecision, ""
		return o
	}
	if m.req.Body != "" || m.req.Template != "" {
		// For limits that count parts or content. Sent is sent: without a content
		// that can be made it counts as one part of none.
		_ = m.render(p.cur.pol)
	}
	o := p.note(m, schemas.VerdictRecord, "")
	o.event.Decision.Charges = p.table.Record(p.cur.rules, m.subject(), m.req.At, p.cur.meta.T)
	if p.cur.rules.Wide() {
		p.recordWide(&o, m)
	}
	return o
}

// note is an outcome that is no message's status.
func (p *partition) note(m *message, v schemas.Verdict, why string) outcome {
	m.event.Kind, m.event.Status, m.event.Reason = schemas.KindDecision, "", why
	m.event.Decision = p.stamp(v, &m.source)
	return outcome{event: m.event}
}

// refused says whether a message may not go on, whatever the limits say: its
// sender took it back, or its recipient opted out; then the event says why that was
// and until when it stands.
func (p *partition) refused(m *message) (schemas.Status, schemas.Verdict, bool) {
	if !p.cancels.none() {
		if _, ok := p.cancels.find(cancelKey(m.req.Tenant, m.to.Key, m.env.ID), p.cur.meta.T); ok {
			return schemas.StatusCancelled, schemas.VerdictCancel, true
		}
	}
	if by, covered := p.suppressed.covers(m.to.Key, scopeOf(&m.req), p.cur.meta.T); covered {
		m.event.ErrorCode, m.event.RetryAt = by.Reason, by.Until
		return schemas.StatusSuppressed, schemas.VerdictSuppress, true
	}
	return "", "", false
}

// wait remembers a message that goes to the delay topics.
func (p *partition) wait(m *message) {
	p.waiting.put(waitKey(m.req.Tenant, m.to.Key, m.env.ID), waiter{
		Channel: string(m.req.Channel), Class: m.req.Class, Template: m.req.Template, Provider: m.event.Provider,
		Origin: m.env.Origin, AcceptedAt: m.env.AcceptedAt, Attempt: m.env.Attempt,
		Taint: m.env.Taint, Place: m.env.Place, RedriveOf: m.env.RedriveOf, CallbackURL: m.env.CallbackURL,
	})
}

// returned takes a message that came back out of the waiting set. One that was
// cancelled meanwhile has had its end.
func (p *partition) returned(m *message) (outcome, bool) {
	if p.waiting.none() {
		return outcome{}, false
	}
	k := waitKey(m.req.Tenant, m.to.Key, m.env.ID)
	w, ok := p.waiting.find(k)
	if !ok {
		return outcome{}, false // a retry: a lane let it wait
	}
	p.waiting.remove(k)
	if !w.Cancelled {
		return outcome{}, false
	}
	return p.note(m, schemas.VerdictNothing, reasonCancelled), true
}

// waits tells a repeat of an id whose message waits here, maybe longer than ids
// are remembered.
func (p *partition) waits(m *message) (outcome, bool) {
	if m.req.ID == "" || p.waiting.none() {
		return outcome{}, false
	}
	if _, ok := p.waiting.find(waitKey(m.req.Tenant, m.to.Key, m.env.ID)); !ok {
		return outcome{}, false
	}
	m.event.DuplicateOf = m.env.ID
	return p.note(m, schemas.VerdictDuplicate, reasonRepeated), true
}

// cancelKey is the key of a remembered cancel in weir.seen.
func cancelKey(tenant, to, id string) seenKey { return newSeenKey('c', tenant, to, id) }
