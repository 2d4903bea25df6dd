package admission

import (
	"cmp"

	"github.com/google/uuid"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/processor/request"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// environment is what decisions know of the world: fixed while a process runs.
type environment struct {
	names      topics.Names
	partitions int32    // N
	delays     int32    // partitions of each delay topic
	dlq        int32    // partitions of weir.dlq
	replies    int32    // partitions of weir.replies; 0: nobody is told
	routing    *routing // nil: all providers are well
	data       Data     // zero is this program's
}

// input is one record of requests or readmit.
type input struct {
	source   schemas.Source
	readmit  bool
	value    []byte
	header   func(key string) (string, bool) // headers that are not Weir's
	env      schemas.Envelope                // Weir's headers; on requests, where nobody is trusted, only those that decide nothing
	appended schemas.Millis
	foreign  bool // on readmit, but not of Weir's making
	key      []byte
	broken   any            // what reading it panicked with
	poison   *stream.Poison // why it is not decided, but ended

	req     *schemas.Request // of request
	bad     error
	decoded bool
}

// request decodes the value, once.
func (in *input) request() (*schemas.Request, error) {
	if !in.decoded {
		in.decoded = true
		in.req, in.bad = schemas.DecodeRequest(in.value, in.header)
	}
	return in.req, in.bad
}

// outcome is what one decision does: exactly one event, what it sends on, and
// what it tells who waits for it.
type outcome struct {
	event schemas.Event
	send  []send
	reply *reply
	// For the reply to a question.
	limits     []schemas.LimitState
	suppressed []schemas.Suppression
}

// send is the input's record passed on, under an envelope.
type send struct {
	topic     string
	partition int32
	env       schemas.Envelope
	dead      bool   // to weir.dlq
	bare      bool   // without the input's bytes: it is about places only
	value     []byte // of a bare one: a request of Weir's own
	relayed   bool   // the input itself goes on: of the envelope only its round, reason and time are new
}

// message is an input as it was understood.
type message struct {
	*input
	req   schemas.Request
	class schemas.Class
	to    recipient.Recipient
	env   schemas.Envelope // as it will travel on
	event schemas.Event    // what every status of it says

	content string // the rendered content's hash, for limits that count by it

	reason string         // why it came: of one that comes from a round, why that began
	turn   schemas.Millis // of one that a limit deferred, and that came back early: its own; 0 is none
	around bool           // it comes from a round, or is on one
	round  round
	asked  asked // for the reply, where somebody waits for one
}

// decide answers one input. It is a function of the partition's state, the
// policy in force in it, and the time it stands at; it changes the state's
// overlay and nothing else.
func (p *partition) decide(in *input) (outcome, error) {
	var moved []schemas.Charge
	if in.readmit && in.env.Reason == schemas.ReadmitForward && len(in.env.Restore) > 0 && !in.foreign && schemas.PartitionOf(in.env.Key, p.env.partitions) == p.num {
		// From the partition of another spelling: they stood there until it sent this.
		moved = p.table.Restore(p.cur.rules, in.env.Restore, p.cur.meta.T)
	}
	o, err := p.judge(in)
	if err == nil {
		o.event.Decision.Restored = append(moved, o.event.Decision.Restored...)
	}
	if err == nil && in.waited() {
		p.answer(in, &o)
	}
	return o, err
}

func (p *partition) judge(in *input) (outcome, error) {
	if in.foreign {
		return p.foreign(in), nil
	}
	if in.readmit {
		switch in.env.Reason {
		case schemas.ReadmitGiveBack, schemas.ReadmitUnwind:
			if in.poison != nil {
				return p.aside(in, in.poison.Reason, in.poison.Error()), nil
			}
			return p.giveBack(in)
		case schemas.ReadmitCharge:
			if in.env.Round == nil || len(in.env.Round.Ask) == 0 {
				return p.foreign(in), nil
			}
			if in.poison != nil {
				return p.unasked(in), nil
			}
			return p.charge(in)
		case schemas.ReadmitCharged:
			if in.env.Round == nil {
				return p.foreign(in), nil
			}
		case schemas.ReadmitQuota:
			if in.poison != nil {
				return p.aside(in, in.poison.Reason, in.poison.Error()), nil
			}
			return p.quota(in), nil
		case schemas.ReadmitForward, schemas.ReadmitDue, schemas.ReadmitRetry, schemas.ReadmitStale, schemas.ReadmitReroute:
		case schemas.ReadmitRedrive:
			if !in.env.Redrives(p.num, p.env.partitions) {
				in.foreign = true
				return p.foreign(in), nil
			}
		default:
			return p.foreign(in), nil
		}
	}
	m := p.read(in)
	if p.settled(m) && m.round.Channel != "" {
		return p.conclude(m)
	}
	req, err := in.request()
	if in.readmit && in.env.Reason == schemas.ReadmitRedrive && (err != nil || in.env.OtherTenant(req)) {
		in.foreign = true // nobody could tell whether it was asked for before, or as whose
		return p.foreign(in), nil
	}
	if err != nil {
		if partial := request.Partial(err); partial != nil {
			m.req = *partial
			m.describe(p.cur.pol)
		}
		m.unnamed()
		return p.reject(m, err), nil
	}
	m.req = *req
	if in.readmit && in.env.RedriveOf != "" && req.Action == schemas.ActionSend {
		anew(&m.req)
	}
	m.describe(p.cur.pol)
	var invalid error
	switch {
	case in.poison != nil:
		invalid = in.poison
	case in.readmit && in.env.Reason == schemas.ReadmitRedrive:
		invalid = m.req.Validate(p.cur.meta.T)
	case !in.readmit || in.env.Reason == schemas.ReadmitForward:
		invalid = req.Validate(p.cur.meta.T)
	}
	if came := !in.readmit || in.env.Reason == schemas.ReadmitForward || in.env.Reason == schemas.ReadmitRedrive; came && invalid == nil && p.cur.pol.Strict(cmp.Or(req.Tenant, schemas.DefaultTenant), "") {
		invalid = req.KnowsFields()
	}
	if in.readmit {
		if req.Action != schemas.ActionSend && in.env.Reason != schemas.ReadmitForward {
			return p.foreign(in), nil
		}
		m.to = trusted(req.Channel, in.env.Key)
		if owner := schemas.PartitionOf(m.to.Key, p.env.partitions); owner != p.num {
			return p.misrouted(in, owner), nil
		}
		if key := spelledAs(req.Channel, m.to.Key); in.env.Reason == schemas.ReadmitForward && key != m.to.Key {
			m.to.Key, m.to.Spelled = key, m.to.Key
		}
	} else {
		// The id of a cancel is another's: nothing that becomes of the request
		// itself may stand under it.
		_, err := uuid.Parse(m.req.ID)
		named := err == nil && request.Named(req.Action)
		m.to, err = request.Addressee(&m.req, p.cur.pol)
		if err != nil {
			// Nobody owns it, so nobody knows whether its id was used before:
			// it ends under an id of its own.
			m.unnamed()
			return p.reject(m, cmp.Or(invalid, err)), nil
		}
		if m.env.ID = m.req.ID; !named {
			m.env.ID = schemas.DerivedID(in.source, in.appended)
		}
		if m.env.Key = m.to.Key; m.to.Spelled != "" && p.looksBack() {
			m.env.Key = m.to.Spelled
		} else {
			m.to.Spelled = ""
		}
		if k := string(in.key); k != m.to.Key {
			m.env.RequestKey = k
		}
		if owner := schemas.PartitionOf(m.env.Key, p.env.partitions); owner != p.num {
			if in.poison != nil {
				m.unnamed() // its owner alone knows whether the id was used before
				return p.reject(m, invalid), nil
			}
			m.to.Key = m.env.Key
			return p.forward(m, owner), nil
		}
	}
	if m.to.Spelled != "" {
		if o, on := p.readdress(m, invalid == nil); on {
			return o, nil
		}
		m.to.Key = m.to.Spelled
	}
	m.event.MessageID, m.event.To = m.env.ID, m.to.Key
	returns := in.readmit && in.env.Reason != schemas.ReadmitForward && in.env.Reason != schemas.ReadmitRedrive
	if invalid != nil && !returns {
		if req.Action == schemas.ActionSend {
			if o, known := p.recognise(m); known {
				return o, nil
			}
		}
		return p.reject(m, invalid), nil
	}
	if req.Action != schemas.ActionSend {
		return p.act(m), nil
	}
	if returns && !m.around {
		if o, ended := p.returned(m); ended {
			return o, nil
		}
	}
	if in.poison != nil {
		return p.poisoned(m, in.poison), nil
	}
	if m.repeated() {
		return p.again(m), nil
	}
	return p.first(m), nil
}

// read begins a message with what is known before its bytes are.
func (p *partition) read(in *input) *message {
	m := &p.message
	*m = message{input: in, env: in.env, reason: in.env.Reason}
	if in.readmit && in.env.Reason == schemas.ReadmitCharged && in.env.Round != nil {
		m.around, m.reason, m.round = true, in.env.Round.For, round{*in.env.Round}
	}
	if m.reason == schemas.ReadmitDue {
		m.turn = in.env.Turn
	}
	m.env.Round, m.env.Reply, m.env.Turn = nil, "", 0
	m.env.Restore, m.env.CallBy = nil, 0
	if m.reason != schemas.ReadmitStale {
		m.env.Stale = 0
	}
	if !in.readmit {
		m.env = schemas.Envelope{
			Origin:     in.source,
			AcceptedAt: in.appended,
			Timestamp:  in.env.Timestamp,
		}
	}
	if in.readmit && in.env.Reason == schemas.ReadmitRedrive && !in.foreign {
		// A new message, whose request this record is.
		m.env.Origin, m.env.AcceptedAt = in.source, in.appended
		m.env.Priority, m.env.Provider, m.env.ExpiresAt, m.env.Tried = "", "", 0, nil
	}
	origin := m.env.Origin
	m.event = schemas.Event{
		Kind:        schemas.KindStatus,
		MessageID:   m.env.ID,
		To:          m.env.Key,
		At:          p.cur.meta.T,
		Attempt:     m.env.Attempt,
		AcceptedAt:  m.env.AcceptedAt,
		RedriveOf:   m.env.RedriveOf,
		CallbackURL: m.env.CallbackURL,
		Source:      &origin,
	}
	return m
}

// conclude decides a message that comes round with its answer. Of its request
// it needs no more than what its round says, so the bytes are not read again.
func (p *partition) conclude(m *message) (outcome, error) {
	m.asRound()
	m.class = p.cur.pol.Class(m.req.Class)
	m.to = trusted(m.req.Channel, m.env.Key)
	if owner := schemas.PartitionOf(m.to.Key, p.env.partitions); owner != p.num {
		return p.misrouted(m.input, owner), nil
	}
	if m.input.poison != nil {
		return p.poisoned(m, m.input.poison), nil
	}
	if m.repeated() {
		return p.again(m), nil
	}
	return p.first(m), nil
}

// asRound takes from a message's round what that says of its request.
func (m *message) asRound() {
	o := &m.round
	m.req = schemas.Request{Action: schemas.ActionSend, Tenant: m.env.Tenant, Channel: o.Channel, Class: o.Class, Template: o.Template, Cost: o.Cost}
	e := &m.event
	e.Tenant, e.Channel, e.Class, e.Template, e.Cost = m.req.Tenant, string(m.req.Channel), m.req.Class, m.req.Template, m.req.Cost
}

// unnamed gives a request an id that could not be read, or whose recipient could
// not.
func (m *message) unnamed() {
	if !m.readmit {
		m.env.ID = schemas.DerivedID(m.source, m.appended)
		m.event.MessageID = m.env.ID
	}
}

// repeated reports whether the message comes back: after an attempt, or because
// its decision went stale. It may hold places.
func (m *message) repeated() bool {
	return m.env.Attempt > 0 || m.reason == schemas.ReadmitStale || m.reason == schemas.ReadmitReroute
}

// anew takes out of a request what belonged to the message that first came of
// it: what named that one, and when it was to be sent. Its bytes stay as they are.
func anew(q *schemas.Request) {
	q.ID, q.IdempotencyKey, q.SendAt, q.ExpiresAt = "", "", 0, 0
}

// describe fills in what the request and its class say.
func (m *message) describe(pol *schemas.Policy) {
	m.class = request.Describe(&m.req, pol, &m.env, &m.event)
}

// trusted is the recipient of a record of readmit: the key is as the partition
// found it that read the request, whatever this process's phone library would
// make of it today.
func trusted(channel schemas.Channel, key string) recipient.Recipient {
	to, err := recipient.Canonical(channel, key, "")
	if err != nil {
		to = recipient.Recipient{}
	}
	to.Key, to.Spelled = key, ""
	return to
}
