package admission

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/processor/request"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// first decides a message that has made no attempt.
func (p *partition) first(m *message) outcome {
	if m.reason != schemas.ReadmitDue && !m.around {
		if o, known := p.recognise(m); known {
			return o
		}
		if o, known := p.waits(m); known {
			return o
		}
	}
	if s, v, is := p.refused(m); is {
		return p.end(m, s, v, string(s))
	}
	if p.cur.meta.T >= m.env.ExpiresAt {
		return p.end(m, schemas.StatusExpired, schemas.VerdictExpire, "expired")
	}
	// What was let in once is not held to the classes of a later revision.
	if why := p.cur.pol.RejectsClass(m.req.Class); why != "" && m.reason != schemas.ReadmitDue && !m.around {
		return p.reject(m, &refusal{schemas.ReasonUnknownClass, why})
	}
	if err := p.prepare(m); err != nil {
		return p.reject(m, err)
	}
	if m.req.CallbackURL != "" && !p.cur.pol.SignsCallbacks(m.req.Tenant) {
		return p.reject(m, &refusal{schemas.ReasonNoCallbackSecret, "it names a callback_url, and its tenant has no callback.secret to sign with"})
	}
	if m.req.SendAt > p.cur.meta.T {
		return p.park(m, schemas.StatusScheduled, schemas.ReadmitDue, m.req.SendAt, "send_at")
	}
	if err := m.permitted(); err != nil {
		return p.reject(m, err)
	}
	switch until, err := m.quietUntil(p.cur.meta.T); {
	case (err != nil || until > 0) && p.isEarly(m):
		return p.awaitTurn(m, until)
	case err != nil:
		return p.reject(m, err)
	case until > 0:
		return p.park(m, schemas.StatusDeferred, schemas.ReadmitDue, until, "quiet_hours")
	}
	switch back, err := p.routeOnce(m); {
	case err != nil && p.isEarly(m):
		return p.awaitTurn(m, back)
	case isTemporary(err):
		return p.park(m, schemas.StatusDeferred, schemas.ReadmitDue, back, request.Reason(err))
	case err != nil:
		return p.reject(m, err)
	}
	return p.ask(m, schemas.VerdictAdmit, topics.QueueOf(m.env.Priority))
}

// again decides a message that comes back: after an attempt, or because its
// decision went stale. Its place is removed and taken anew in one step; while
// it is refused it keeps the old one.
func (p *partition) again(m *message) outcome {
	if s, v, is := p.refused(m); is {
		return p.endAgain(m, s, v, string(s))
	}
	if p.cur.meta.T >= m.env.ExpiresAt {
		return p.endAgain(m, schemas.StatusExpired, schemas.VerdictExpire, "expired")
	}
	err := p.prepare(m)
	if err == nil {
		err = m.permitted()
	}
	until := schemas.Millis(0)
	if err == nil {
		until, err = m.quietUntil(p.cur.meta.T)
	}
	if until > 0 {
		return p.park(m, schemas.StatusDeferred, m.reason, until, "quiet_hours")
	}
	if err == nil {
		var back schemas.Millis
		if back, err = p.routeOnce(m); isTemporary(err) {
			return p.park(m, schemas.StatusDeferred, m.reason, back, request.Reason(err))
		}
	}
	if err != nil {
		m.event.Error = err.Error()
		return p.endAgain(m, schemas.StatusRejected, schemas.VerdictReject, request.Reason(err))
	}
	return p.ask(m, schemas.VerdictMove, p.returnsOn(m))
}

// returnsOn is the queue for a message that comes back. A retry, and what went
// stale, must not wait behind the backlog: they go on again, and a lane calls them
// by their own priority. A lane whose again is long says on which other of its
// queues it reads to the end. What a breaker gave back was not called yet.
func (p *partition) returnsOn(m *message) topics.Queue {
	own := topics.QueueOf(m.env.Priority)
	switch m.reason {
	case schemas.ReadmitRetry:
		if own == topics.QueueUrgent {
			return own
		}
		return topics.QueueAgain
	case schemas.ReadmitStale:
		for _, q := range topics.Queues {
			if q != own && m.env.Return == p.env.names.Dispatch(m.env.Provider, q) {
				return q
			}
		}
		return topics.QueueAgain
	}
	return own
}

// recognise tells a message whose key or id was seen before, and remembers one
// that is new. A repeat of an id is a decision in the log and no second status.
func (p *partition) recognise(m *message) (outcome, bool) {
	var keys []seenKey
	if m.req.IdempotencyKey != "" {
		keys = append(keys, newSeenKey('k', m.req.Tenant, m.to.Key, m.req.IdempotencyKey))
	}
	id, err := uuid.Parse(m.env.ID)
	if _, bad := uuid.Parse(m.req.ID); bad == nil { // whoever made it: an id proves nothing of its origin
		keys = append(keys, newSeenKey('i', m.req.Tenant, m.to.Key, m.req.ID))
	}
	redrive := m.input.env.Reason == schemas.ReadmitRedrive
	if redrive {
		// Derived, so that asking again for the same record is seen.
		for _, same := range m.input.env.RedriveIDs() {
			keys = append(keys, newSeenKey('i', m.req.Tenant, m.to.Key, same))
		}
	}
	if len(keys) == 0 {
		return outcome{}, false
	}
	if err != nil { // Validate accepts no other ids
		return p.reject(m, &refusal{"bad_id", "the id is no UUID"}), true
	}
	entry := seenEntry{id: id, content: schemas.ContentHash(&m.req)}
	for _, k := range keys {
		old, ok := p.seen.find(k, p.cur.meta.T)
		if !ok {
			continue
		}
		if old.id != id && !redrive {
			// This id ends here as a duplicate, and if its record comes again
			// it must not end again.
			own := newSeenKey('i', m.req.Tenant, m.to.Key, m.env.ID)
			if first, again := p.seen.find(own, p.cur.meta.T); again {
				old = first
			} else {
				p.seen.remember(seenRecord{key: own, entry: entry, t: p.cur.meta.T})
			}
		}
		reused := old.content != entry.content
		m.event.DuplicateOf = old.id.String()
		switch {
		case old.id == id, redrive:
			m.event.Kind, m.event.Reason = schemas.KindDecision, "repeated"
			if reused {
				m.event.Reason = reasonKeyReused
			}
			m.event.Decision = p.stamp(schemas.VerdictDuplicate, &m.source)
			return outcome{event: m.event}, true
		case reused:
			return p.reject(m, &refusal{reasonKeyReused, "the idempotency key names a message with other content"}), true
		default:
			return p.end(m, schemas.StatusDuplicate, schemas.VerdictDuplicate, "duplicate"), true
		}
	}
	for _, k := range keys {
		p.seen.remember(seenRecord{key: k, entry: entry, t: p.cur.meta.T})
	}
	return outcome{}, false
}

// prepare renders a message, unless that was done before it went round.
func (p *partition) prepare(m *message) error {
	if p.settled(m) {
		m.event.Segments = m.round.Segments
		return nil
	}
	return m.render(p.cur.pol)
}

// render checks that the content can be made, and is not longer than its channel
// takes; the lane makes it again. What went on once is not held to its length again:
// an earlier version let longer ones through.
func (m *message) render(pol *schemas.Policy) error {
	text, err := content.Of(&m.req, pol)
	if err != nil {
		return err
	}
	m.content = text.Hash()
	if m.req.Channel == schemas.ChannelSMS {
		m.event.Segments = schemas.Segments(text.Body)
	}
	if m.repeated() {
		return nil
	}
	return text.Fits(&m.req)
}

// pick turns an id into the number that weights are drawn by, the same in every
// process: replaying a choice must choose alike.
func pick(id string) uint64 {
	u, err := uuid.Parse(id)
	if err != nil {
		return 0
	}
	var x uint64
	for _, b := range u[:8] {
		x = x<<8 | uint64(b)
	}
	// splitmix64's finaliser: the leading bits of a UUIDv7 are its time.
	for _, b := range u[8:] {
		x = (x ^ uint64(b)) * 0xbf58476d1ce4e5b9
		x ^= x >> 27
	}
	return x
}

func (m *message) subject() *limit.Subject {
	return &limit.Subject{
		Recipient: m.to.Key, Tenant: m.req.Tenant, Channel: string(m.req.Channel), Class: m.req.Class,
		Template: m.req.Template, Content: m.content, Segments: int64(m.event.Segments), Cost: int64(m.req.Cost), Provider: m.env.Provider, Country: m.to.Country, Metadata: m.req.Metadata,
	}
}

// dispatch hands an admitted message to its provider's lane.
func (p *partition) dispatch(m *message, r *limit.Result, v schemas.Verdict, queue topics.Queue) outcome {
	m.event.Status = schemas.StatusQueued
	d := p.stamp(v, &m.source)
	d.Charges, d.Returned, d.Missing = r.Charges, r.Returned, r.Missing
	m.event.Decision = d
	if len(r.Observed) > 0 {
		m.event.Observed = true
		m.event.Limit, m.event.Window = r.Observed[0].Limit, r.Observed[0].Window
		d.Evidence = r.Observed
	}
	env := m.env
	env.Place, env.DecidedAt, env.Revision = r.Charges, d.T, d.Revision
	env.CallBy = p.callBy(m, r.Charges)
	env.Reason, env.DueAt, env.Return = "", 0, ""
	provider, _ := p.cur.pol.Provider(env.Provider)
	return outcome{event: m.event, send: []send{{
		topic:     p.env.names.Dispatch(env.Provider, queue),
		partition: schemas.PartitionOf(m.to.Key, provider.Lanes),
		env:       env,
	}}}
}

// callBy returns until when a lane may call a message that holds these places: as long
// after the earliest decision that took one of its recipient's as its class or these
// limits say. A round may have taken them before now.
func (p *partition) callBy(m *message, places []schemas.Charge) schemas.Millis {
	from := p.cur.meta.T
	for i := range places {
		if !isWide(places[i]) {
			from = min(from, places[i].T)
		}
	}
	if d := time.Duration(m.class.StaleAfter); d > 0 {
		return from.Add(d)
	}
	return from.Add(p.cur.rules.CallWithin(m.to.Key, places))
}

// parkRefused lets a message wait that limits refused.
func (p *partition) parkRefused(m *message, r *limit.Result, reason string, due schemas.Millis) outcome {
	o := p.park(m, schemas.StatusDeferred, reason, due, reasonLimited)
	until := o.event.RetryAt
	refuse(&o.event, r)
	o.event.RetryAt = until
	return o
}

// park lets a message wait in the delay topics until due; then it is judged
// again for the same reason. At its expiry it comes back at the latest: it must
// not end later.
func (p *partition) park(m *message, s schemas.Status, reason string, due schemas.Millis, why string) outcome {
	due = min(due, m.env.ExpiresAt)
	m.event.Status, m.event.Reason, m.event.RetryAt = s, why, due
	m.event.Decision = p.stamp(schemas.VerdictDefer, &m.source)
	p.wait(m)
	env := m.env
	env.Reason, env.DueAt, env.Return, env.Stale = reason, due, p.env.names.Readmit(), 0
	o := outcome{event: m.event, send: []send{{
		topic:     p.env.names.Delay(topics.TierFor(due.Sub(p.cur.meta.T)).Name),
		partition: schemas.PartitionOf(m.to.Key, p.env.delays),
		env:       env,
	}}}
	p.unwind(m, &o, true)
	return o
}

// end closes a message that holds no place but those of a round.
func (p *partition) end(m *message, s schemas.Status, v schemas.Verdict, why string) outcome {
	return p.endKeeping(m, s, v, why, false)
}

// endKeeping ends a message. What a round took for it is returned; if it keeps what it
// held before, that is put back.
func (p *partition) endKeeping(m *message, s schemas.Status, v schemas.Verdict, why string, keeps bool) outcome {
	m.event.Status, m.event.Reason = s, why
	m.event.Decision = p.stamp(v, &m.source)
	o := outcome{event: m.event}
	p.unwind(m, &o, keeps)
	return o
}

// endAgain closes a message that has been attempted. What may have been
// received keeps its place, and after an unknown outcome only unknown is true.
func (p *partition) endAgain(m *message, s schemas.Status, v schemas.Verdict, why string) outcome {
	if m.env.Taint == schemas.TaintUnknown {
		s = schemas.StatusUnknown
	}
	o := p.endKeeping(m, s, v, why, m.env.Taint != schemas.TaintNone)
	if m.env.Taint == schemas.TaintNone {
		p.letGo(&o, &m.env, without(m.env.Place, m.round.Moved), nil, false)
	}
	if s == schemas.StatusRejected {
		o.send = append(o.send, p.deadLetter(m, why, o.event.Error))
	}
	return o
}

// reject closes an invalid message and keeps its bytes in the DLQ.
func (p *partition) reject(m *message, err error) outcome {
	m.event.Error = err.Error()
	o := p.end(m, schemas.StatusRejected, schemas.VerdictReject, request.Reason(err))
	if m.req.Action != schemas.ActionSend { // an action is no message, and has no end
		o.event.Kind, o.event.Status = schemas.KindDecision, ""
	}
	o.send = append(o.send, p.deadLetter(m, o.event.Reason, o.event.Error))
	return o
}

func (p *partition) deadLetter(m *message, why, text string) send {
	return send{topic: p.env.names.DLQ(), partition: schemas.PartitionOf(m.event.To, p.env.dlq), env: request.Dead(m.env, why, text), dead: true}
}

// forward sends a message to the partition that owns its recipient, with the
// id and the key that were found here: there they are trusted.
func (p *partition) forward(m *message, owner int32) outcome {
	m.event.Kind = schemas.KindDecision
	m.event.MessageID, m.event.To = m.env.ID, m.to.Key
	m.event.Decision = p.stamp(schemas.VerdictForward, &m.source)
	env := m.env
	env.Reason = schemas.ReadmitForward
	env.Reply = m.input.env.Reply
	return outcome{event: m.event, send: []send{{topic: p.env.names.Readmit(), partition: owner, env: env}}}
}

// foreign records that a record of readmit is not of Weir's making: it changes
// nothing, and its bytes go to the DLQ.
func (p *partition) foreign(in *input) outcome {
	return p.aside(in, schemas.ReasonForeignRecord, "a record of "+in.source.Topic+" that Weir did not write")
}

// misrouted records that a record of readmit belongs to another partition. One
// hop always suffices, so someone else wrote it, or two processes disagree about
// N. It changes nothing here: this partition has not the state to judge it by.
// Its bytes go to the DLQ, since in the second case it is somebody's message.
func (p *partition) misrouted(in *input, owner int32) outcome {
	return p.aside(in, schemas.ReasonMisroutedRecord, fmt.Sprintf(
		"partition %d owns it, and it is in partition %d of %d: someone else wrote it, or a process counts with another number of partitions (kafka.partitions)",
		owner, p.num, p.env.partitions))
}

// isAside reports whether a decision with this reason put its record aside.
func isAside(reason string) bool {
	return reason == schemas.ReasonForeignRecord || reason == schemas.ReasonMisroutedRecord
}

// aside is the decision on a record that is not judged.
func (p *partition) aside(in *input, reason, why string) outcome {
	m := p.read(in)
	m.event.Kind, m.event.Reason = schemas.KindDecision, reason
	m.event.Decision = p.stamp(schemas.VerdictNothing, &m.source)
	return outcome{event: m.event, send: []send{p.deadLetter(m, reason, why)}}
}

// refuse says in an event which limit refused, by the window that opens last.
func refuse(e *schemas.Event, r *limit.Result) {
	e.RetryAt = r.RetryAt
	e.Decision.Evidence = r.Refused
	if len(r.Refused) > 0 {
		e.Limit, e.Window = r.Refused[0].Limit, r.Refused[0].Window
	}
}

// refusal is an error with a stable reason.
type refusal struct{ code, text string }

func (r *refusal) Error() string { return r.text }
func (r *refusal) Code() string  { return r.code }
