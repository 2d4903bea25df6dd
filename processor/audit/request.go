package audit

import (
	"bytes"
	"cmp"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// subject is what the limits see of the message in hand.
func (p *partition) subject(in *kgo.Record) (*subject, bool) {
	e := p.e
	s := &subject{
		to: e.To, tenant: e.Tenant, channel: e.Channel, class: e.Class, template: e.Template, provider: e.Provider,
		segments: int64(e.Segments), cost: int64(e.Cost),
	}
	if p.rules.country && p.otherPhones() {
		p.cannotTellPhones("limits by country")
		return s, false
	}
	if p.rules.country {
		if to, err := recipient.Canonical(schemas.Channel(e.Channel), e.To, ""); err == nil {
			s.country = to.Country
		}
	}
	if !p.rules.metadata && !p.rules.content && !p.rules.cost {
		return s, true
	}
	req := p.request(in)
	if req == nil {
		return s, false
	}
	s.metadata = req.Metadata
	if p.rules.cost {
		if req.Cost != e.Cost {
			p.fault(KindCharges, "it says that it costs %d, and its request says %d", max(e.Cost, 1), max(req.Cost, 1))
		}
		s.cost = int64(req.Cost)
	}
	if p.rules.content {
		s.segments = p.content(req, s)
	}
	return s, true
}

// content makes what is sent anew, as the policy in force has it, and returns
// how many parts it takes.
func (p *partition) content(req *schemas.Request, s *subject) int64 {
	if req.Action == schemas.ActionRecord && req.Body == "" && req.Template == "" {
		return 0 // sent elsewhere, and not said what
	}
	text, err := content.Of(req, p.rules.policy)
	if err != nil {
		if req.Action != schemas.ActionRecord {
			p.fault(KindCharges, "decided, though its content cannot be made: %v", err)
		}
		return 0
	}
	s.content = text.Hash()
	segments := 0
	if req.Channel == schemas.ChannelSMS {
		segments = schemas.Segments(text.Body)
	}
	if segments != p.e.Segments {
		p.fault(KindCharges, "it says %d parts, and the text makes %d", p.e.Segments, segments)
	}
	return int64(segments)
}

// request reads the record in hand; nil when it is gone or no request.
func (p *partition) request(in *kgo.Record) *schemas.Request {
	if in == nil {
		return nil
	}
	if p.read != in {
		p.read, p.req = in, decoded(in)
	}
	return p.req
}

// isFor judges that a message was decided for the recipient whom its request names, and under
// the request's id. A log that lost its end and grew again has other requests at the same
// offsets.
func (p *partition) isFor(in *kgo.Record) {
	e := p.e
	if in == nil || in.Topic != p.requests || e.To == "" || e.Status == schemas.StatusRejected || p.revision < 0 {
		return
	}
	p.isOf(in)
	if namesOnce(in.Value, `"to"`, e.To) || p.otherPhones() {
		return
	}
	req := p.request(in)
	if req == nil || req.Action != schemas.ActionSend {
		return
	}
	tenant, _ := p.rules.policy.Tenant(cmp.Or(e.Tenant, schemas.DefaultTenant))
	to, err := recipient.Canonical(req.Channel, req.To, tenant.DefaultRegion)
	if err != nil || to.Key != e.To && to.Spelled != e.To { // from before keys ignored letter case
		p.fault(KindRecipient, "its request names another recipient, %s", recipient.Mask(req.To))
	}
}

// isOf judges that a message has the id of its request: the one that the request brings, or
// that of the record, where it brings none.
func (p *partition) isOf(in *kgo.Record) {
	id := p.e.MessageID
	if namesOnce(in.Value, `"id"`, id) {
		return
	}
	brings := !plain(in.Value) || bytes.Contains(in.Value, []byte(`"id"`))
	own := derivedFrom(in, id)
	if own && !brings {
		return
	}
	req := p.request(in)
	if req == nil || req.Action != schemas.ActionSend {
		return
	}
	if _, err := uuid.Parse(req.ID); err == nil {
		own = req.ID == id
	}
	if !own {
		p.fault(KindPhantom, "the request that it answers is another message's")
	}
}

// derivedFrom reports whether an id is that of a record that brings none, in the form of this
// version or of an earlier one, whose last digits are the recipient's.
func derivedFrom(in *kgo.Record, id string) bool {
	own := schemas.DerivedID(schemas.Source{Topic: in.Topic, Partition: in.Partition, Offset: in.Offset}, schemas.MillisOf(in.Timestamp))
	return len(id) == len(own) && id[:len(id)-8] == own[:len(own)-8]
}

// plain reports whether a value is JSON that can be searched.
func plain(value []byte) bool {
	return len(value) > 0 && value[0] == '{' && !bytes.Contains(value, []byte(`\u`))
}

// namesOnce reports whether a request in JSON has a name once, as name with its quotes, and
// with this very value. Most do, and need no reading.
func namesOnce(value []byte, name, is string) bool {
	i := bytes.Index(value, []byte(name))
	if i < 0 || !plain(value) {
		return false
	}
	rest := value[i+len(name):]
	if bytes.Contains(rest, []byte(name)) {
		return false
	}
	rest, colon := bytes.CutPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(":"))
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return colon && len(rest) > len(is)+1 && rest[0] == '"' && string(rest[1:1+len(is)]) == is && rest[1+len(is)] == '"'
}

func decoded(in *kgo.Record) *schemas.Request {
	req, err := schemas.DecodeRequest(in.Value, func(key string) (string, bool) {
		for _, h := range in.Headers {
			if strings.EqualFold(h.Key, key) && !strings.HasPrefix(strings.ToLower(h.Key), "weir-") {
				return string(h.Value), true
			}
		}
		return "", false
	})
	if err != nil {
		return nil
	}
	return req
}

// expiry is until when the message in hand must have ended; 0 when what it
// follows from is gone.
func (p *partition) expiry(in *kgo.Record, env *schemas.Envelope) schemas.Millis {
	if env != nil && env.ExpiresAt != 0 && env.Reason != schemas.ReadmitRedrive {
		return env.ExpiresAt
	}
	if in == nil || p.rules == nil {
		return 0
	}
	from := p.e.AcceptedAt
	if env != nil && env.Reason == schemas.ReadmitRedrive { // whatever its bytes say
		return from.Add(time.Duration(p.rules.policy.Class(p.e.Class).ExpiresAfter))
	}
	// Most requests name no time. Those that may, in plain JSON or in a form
	// that cannot be searched, are read.
	v := in.Value
	if len(v) == 0 || v[0] != '{' || bytes.Contains(v, []byte("_at")) || bytes.Contains(v, []byte(`\u`)) {
		req := p.request(in)
		if req == nil {
			return 0
		}
		if req.ExpiresAt != 0 {
			return req.ExpiresAt
		}
		from = max(from, req.SendAt)
	}
	if from == 0 {
		return 0
	}
	return from.Add(time.Duration(p.rules.policy.Class(p.e.Class).ExpiresAfter))
}

// learn finds out until when the message in hand must have ended, unless that is
// known.
func (p *partition) learn(in *kgo.Record, env *schemas.Envelope) {
	if p.messages[p.key].expires == 0 {
		p.expires = p.expiry(in, env)
	}
}
