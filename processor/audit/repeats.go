package audit

import (
	"bytes"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// repeats are what tells that a message came before, beside the statuses of
// that id: ids of which the log has decisions alone, and clients' idempotency
// keys, which stand in their requests alone.
type repeats struct {
	noted map[sum]schemas.Millis // messages sent elsewhere, and duplicates of those
	keys  map[sum]keyed          // by tenant, recipient and key
	blind schemas.Millis         // when a request that may have had a key was last gone
}

// keyed is the message that a key names, and when it came.
type keyed struct {
	message sum
	t       schemas.Millis
	id      uint64 // of the message's id, as known has it
	taken   bool   // admission remembers the key for sure
}

func newRepeats() *repeats {
	return &repeats{noted: make(map[sum]schemas.Millis), keys: make(map[sum]keyed)}
}

func (r *repeats) sweep(t schemas.Millis) {
	for k, at := range r.noted {
		if t-at >= remembered {
			delete(r.noted, k)
		}
	}
	for k, v := range r.keys {
		if t-v.t >= remembered {
			delete(r.keys, k)
		}
	}
}

// unseen reports whether something that came less than so long ago may not have
// been read.
func (p *partition) unseen(age schemas.Millis) bool {
	return p.cut && p.t-p.begin < age || p.repeats.blind != 0 && p.t-p.repeats.blind < age
}

// comesOnce judges that what is called a repeat is one, of the message that it
// names, and that what was taken for new has not come before: an id or a key is
// one message's for a day.
func (p *partition) comesOnce(in *kgo.Record, env *schemas.Envelope) {
	e, d := p.e, p.e.Decision
	if in == nil && d.Input != nil {
		p.repeats.blind = p.t
	}
	if d.Input == nil || env != nil && (env.Reason == schemas.ReadmitRedrive || env.RedriveOf != "") {
		return // a redrive is judged as one, and has no key
	}
	switch d.Verdict {
	case schemas.VerdictForward, schemas.VerdictNothing, schemas.VerdictGiveBack, schemas.VerdictMarker, schemas.VerdictMove:
		return
	default: // decides on a message
	}
	first := d.Input.Topic == p.requests || env != nil && env.Reason == schemas.ReadmitForward // not its return
	named := sum{}
	if d.Verdict == schemas.VerdictDuplicate || e.DuplicateOf != "" {
		named = p.duplicate()
	} else {
		p.notOpen(first)
	}
	if d.Verdict == schemas.VerdictRecord {
		if req := p.request(in); req == nil || req.ID != "" || req.IdempotencyKey != "" {
			p.repeats.noted[p.key] = p.t
		}
	}
	if first {
		p.keyed(in, named)
	}
}

// notOpen judges that no message of the id is on its way already.
func (p *partition) notOpen(first bool) {
	m, there := p.messages[p.key]
	if p.e.Kind != schemas.KindStatus && p.e.Decision.Verdict != schemas.VerdictCharge || !there || m.state().End() {
		return // after an end, status judges
	}
	waits := m.state() == schemas.StatusScheduled || m.state() == schemas.StatusDeferred
	switch v := p.e.Decision.Verdict; {
	case v == schemas.VerdictCancel:
		// Asked for by another record.
	case !waits && p.t-m.first >= unique: // nobody knows its id any more
	case first, v == schemas.VerdictAdmit && !waits && !p.trip.on:
		p.fault(KindDuplicate, "%s, and a message of its id came at %s and is %s", v, m.first, m.state())
	}
}

// duplicate judges what a repeat says that it repeats, and returns that message.
func (p *partition) duplicate() sum {
	e := p.e
	named := messageKey(e.Tenant, e.To, e.DuplicateOf)
	own := named == p.key
	m, there := p.messages[named]
	at, noted := p.repeats.noted[named]
	waits := there && (m.state() == schemas.StatusScheduled || m.state() == schemas.StatusDeferred)
	switch {
	case e.DuplicateOf == "":
		p.fault(KindDuplicate, "called a repeat, and it does not say of what")
	case own && e.Kind == schemas.KindStatus:
		p.fault(KindDuplicate, "it ends as a duplicate of itself")
	case there && p.t-m.first < remembered, noted && p.t-at < remembered:
	case own && waits: // known for as long as it does
	case p.unseen(remembered), own && p.cut:
		p.cannotTell("repeats whose first message may lie before the log")
	default:
		p.fault(KindDuplicate, "a repeat of message %s, and no such message of its tenant came to its recipient within a day before", e.DuplicateOf)
	}
	if !own && e.Kind == schemas.KindDecision {
		p.repeats.noted[p.key] = p.t
	}
	return named
}

// keyed judges a message by its request's idempotency key. named is the message
// that it is said to repeat.
func (p *partition) keyed(in *kgo.Record, named sum) {
	e, d, none := p.e, p.e.Decision, sum{}
	if in == nil {
		return
	}
	key, read := p.idempotencyKey(in)
	if !read || named == p.key { // its id came before
		return
	}
	k := nameKey(kindKnown, e.Tenant, e.To, key)
	before, there := p.repeats.keys[k]
	switch {
	case key == "" && named != none:
		p.fault(KindDuplicate, "a repeat of another message, and its request has no idempotency key")
	case key == "":
	case named != none && there && before.message == named:
	case named != none && p.unseen(remembered):
		p.cannotTell("repeats whose first message may lie before the log")
	case named != none:
		p.fault(KindDuplicate, "a repeat of message %s, which is not the one that came under its key", e.DuplicateOf)
	default:
		if d.Verdict == schemas.VerdictReject && !p.recognised() {
			return
		}
		if there && p.t-before.t < unique {
			p.fault(KindDuplicate, "%s, and its idempotency key named a message at %s", d.Verdict, before.t)
		} else if !there && p.unseen(unique) {
			p.cannotTell("messages whose idempotency key may have come before the log")
		}
		taken := d.Verdict != schemas.VerdictReject && d.Verdict != schemas.VerdictRecord
		p.repeats.keys[k] = keyed{p.key, p.t, mix(idOf(e.MessageID), 0), taken}
	}
}

// recognised reports whether a rejected message came so far that its key was
// looked at: its recipient could be read, and it is no action.
func (p *partition) recognised() bool {
	if p.e.Kind != schemas.KindStatus {
		return false
	}
	to, err := recipient.Canonical(schemas.Channel(p.e.Channel), p.e.To, "")
	return err == nil && (to.Key == p.e.To || to.Spelled == p.e.To) // from before keys ignored letter case
}

// idempotencyKey returns the key of a request that is or records a message;
// false when it is no such request. Most have none, and are not read: those that
// may, in plain JSON or in a form that cannot be searched, are.
func (p *partition) idempotencyKey(in *kgo.Record) (string, bool) {
	v := in.Value
	if len(v) > 0 && v[0] == '{' && !bytes.Contains(v, []byte("idempotency_key")) && !bytes.Contains(v, []byte(`\u`)) {
		return "", true
	}
	req := p.request(in)
	if req == nil || !slices.Contains([]schemas.Action{schemas.ActionSend, schemas.ActionRecord}, req.Action) {
		return "", false
	}
	return req.IdempotencyKey, true
}
