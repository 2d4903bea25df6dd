package ingest

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/ingest/replies"
	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// postMessage takes one message in. It answers when all in-sync replicas hold
// it, or, where the caller prefers to wait, when it has been decided.
func (s *Server) postMessage(w http.ResponseWriter, r *http.Request, c *caller) {
	body, p := readBody(w, r)
	if p != nil {
		refuse(w, r, p)
		return
	}
	now := time.Now()
	q, err := schemas.DecodeHTTPRequest(body, schemas.MillisOf(now))
	if err != nil {
		refuse(w, r, invalid(err))
		return
	}
	if p := takeKey(q, r.Header["Idempotency-Key"], schemas.MillisOf(now)); p != nil {
		refuse(w, r, p)
		return
	}
	m, p := s.prepare(q, c, now)
	if p != nil {
		refuse(w, r, p)
		return
	}
	prefer := preferOf(r.Header, c.prefer(), 0)
	sent, p := s.take(w, r, m, prefer)
	if p != nil {
		refuse(w, r, p)
		return
	}
	w.Header().Set("Location", "/v1/messages/"+sent.ID)
	answer(w, http.StatusAccepted, "application/json", sent)
}

// message is a request that may be written.
type message struct {
	req   *schemas.Request
	to    recipient.Recipient
	value []byte
	// undecided is that its caller waited for the decision, and none came.
	undecided bool
}

// prepare makes the message that a caller's valid request asks for, or says
// why there can be none.
func (s *Server) prepare(q *schemas.Request, c *caller, now time.Time) (*message, *client.Problem) {
	if q.Tenant != "" && q.Tenant != c.tenant {
		return nil, forbiddenTenant.problem("A request may name only its own tenant.",
			client.FieldError{Pointer: "/tenant", Code: forbiddenTenant.code, Detail: "is not the caller's"})
	}
	q.Tenant = c.tenant
	rules := &s.policy.Latest().Policy
	if c.test {
		if p := pin(q, rules, "simulated", noTestProvider); p != nil {
			return nil, p
		}
	}
	own, _ := rules.Tenant(c.tenant)
	to, err := recipient.Canonical(q.Channel, q.To, own.DefaultRegion)
	if err != nil {
		return nil, invalid(err)
	}
	if q.Class == "" {
		q.Class = rules.ClassOf(q.Template, c.key)
	}
	if why := rules.RejectsClass(q.Class); why != "" {
		return nil, messageRejected.problem("errors has the reason.", client.FieldError{Pointer: "/class", Code: schemas.ReasonUnknownClass, Detail: why})
	}
	if p := tooLong(q, rules); p != nil {
		return nil, p
	}
	if q.ID, err = newID(q, to.Key, schemas.MillisOf(now)); err != nil {
		s.logger.Error("making an id failed", "error", err)
		return nil, internal.problem("The mistake is in the server's log.")
	}
	if q.CallbackURL != "" && !rules.SignsCallbacks(c.tenant) {
		return nil, invalidRequest.problem("Its callbacks could not be signed.", client.FieldError{
			Pointer: "/callback_url", Code: schemas.ReasonNoCallbackSecret,
			Detail: "needs a secret to sign with: the policy's tenants[].callback.secret of the tenant",
		})
	}
	if p := s.unreachable(q.CallbackURL); p != nil {
		return nil, p
	}
	value := schemas.RequestJSON(q)
	if len(value) > schemas.MaxRequestBytes { // the id and the tenant take room too
		return nil, oversized()
	}
	return &message{req: q, to: to, value: value}, nil
}

// unreachable is the problem of a callback_url whose host is an address that callbacks never
// reach. A name is resolved and checked when it is called.
func (s *Server) unreachable(callback string) *client.Problem {
	if s.callbacks.JudgeURL(callback) == nil {
		return nil
	}
	return invalidRequest.problem("Its callbacks would not be sent.", client.FieldError{Pointer: "/callback_url", Code: schemas.ReasonBadURL, Detail: privateURL})
}

const privateURL = "names a loopback, private, link-local or otherwise reserved address, or one that holds such an address of IPv4; it is not called unless callback.allow_private has its network"

// tooLong is the problem of a message that is over its channel's limit, with its
// variables filled in. Admission would refuse it too, where nobody waits for it. What
// else is wrong with its template is admission's to say.
func tooLong(q *schemas.Request, rules *schemas.Policy) *client.Problem {
	text, err := content.Of(q, rules)
	if err != nil {
		return nil
	}
	if bad, ok := errors.AsType[*content.Error](text.Fits(q)); ok {
		pointer := bad.Pointer
		if q.Template != "" {
			pointer = "/vars"
		}
		return messageRejected.problem("errors has the reason.", client.FieldError{Pointer: pointer, Code: bad.Code(), Detail: bad.Detail})
	}
	return nil
}

// pin holds a request to providers of one type: to the one that it names, or
// else to the policy's first that has the channel.
func pin(q *schemas.Request, rules *schemas.Policy, typ string, none kind) *client.Problem {
	for i := range rules.Providers {
		v := &rules.Providers[i]
		if v.Type == typ && slices.Contains(v.Channels, q.Channel) && (q.Provider == "" || q.Provider == v.Name) {
			q.Provider = v.Name
			return nil
		}
	}
	if q.Provider != "" {
		return none.problem("The provider that it names is not one of type "+typ+" with this channel.",
			client.FieldError{Pointer: "/provider", Code: none.code, Detail: "is not of type " + typ + " with this channel"})
	}
	return none.problem("The policy has no provider of type " + typ + " with this channel.")
}

// newID makes a message's id: for a request with an idempotency key the same
// one all day.
func newID(q *schemas.Request, to string, at schemas.Millis) (string, error) {
	if q.IdempotencyKey != "" {
		return schemas.KeyedID(at, q.Tenant, to, q.IdempotencyKey), nil
	}
	return schemas.NewID()
}

// accept notes that the brokers hold the message.
func (s *Server) accept(m *message) {
	now := time.Now()
	s.recent.accept(m.req.ID, answered{
		tenant: m.req.Tenant, channel: string(m.req.Channel), class: cmp.Or(m.req.Class, schemas.DefaultClass), template: m.req.Template,
		to: m.to.Key, at: schemas.MillisOf(now),
	}, m.req.IdempotencyKey == "", now)
}

// take writes a message, and waits for its decision as the caller prefers. What
// it returns is the answer: a message that a limit refused is a problem, too.
func (s *Server) take(w http.ResponseWriter, r *http.Request, m *message, prefer preference) (*client.Sent, *client.Problem) {
	sent, p := s.takeOne(w, r, m, prefer)
	if p != nil {
		limitHeaders(w.Header(), p.Limits, time.Now())
	} else {
		roomHeaders(w.Header(), sent.Limits, time.Now())
	}
	return sent, p
}

// takeOne is take for one message of several: it writes nothing into the answer's
// header unless prefer was asked for, and may be called from many goroutines.
func (s *Server) takeOne(w http.ResponseWriter, r *http.Request, m *message, prefer preference) (*client.Sent, *client.Problem) {
	reply, p := s.ask(w, r, m, prefer)
	if p != nil {
		return nil, p
	}
	if reply == nil {
		m.undecided = prefer.wait > 0
		return &client.Sent{ID: m.req.ID, Status: schemas.StatusAccepted}, nil
	}
	return s.told(m, reply)
}

// ask writes a request, and returns what is decided about it, or nil if the
// caller does not prefer to wait, or nothing was in that time.
func (s *Server) ask(w http.ResponseWriter, r *http.Request, m *message, prefer preference) (*schemas.Reply, *client.Problem) {
	rec := m.record(s.requests, s.partitions, r.Header)
	var ticket *replies.Ticket
	if prefer.wait > 0 {
		var err error
		if ticket, err = s.replies.Expect(); err == nil {
			defer ticket.Done()
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: schemas.HeaderReply, Value: []byte(ticket.Header())})
		} // with too many who wait already, this one does not
	}
	if prefer.applied != "" && (ticket != nil || prefer.wait == 0) {
		w.Header().Set("Preference-Applied", prefer.applied)
	}
	began := time.Now()
	p := s.out.produce(r.Context(), rec, cmp.Or(prefer.acked, answerTimeout))
	if waited(w, began); p != nil {
		return nil, p
	}
	if m.req.Action == schemas.ActionSend {
		s.accept(m)
	}
	if ticket == nil {
		return nil, nil
	}
	return s.await(w, r, ticket, prefer.wait), nil
}

// await returns the decision, or nil when none comes in time.
func (s *Server) await(w http.ResponseWriter, r *http.Request, ticket *replies.Ticket, d time.Duration) *schemas.Reply {
	// A long wait is longer than an answer may otherwise take.
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d + writeTimeout))
	ctx, cancel := context.WithTimeout(r.Context(), d)
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)() // at shutdown what is accepted is answered as that
	defer waited(w, time.Now())
	reply, err := ticket.Wait(ctx)
	if err != nil {
		return nil
	}
	return reply
}

// takeKey puts the Idempotency-Key header into the request.
func takeKey(q *schemas.Request, headers []string, now schemas.Millis) *client.Problem {
	if len(headers) == 0 {
		return nil
	}
	key, ok := bareKey(headers[0])
	switch {
	case len(headers) > 1:
		return badIdempotencyKey.problem("It stands more than once.")
	case !ok:
		return badIdempotencyKey.problem(`It is a text such as order-17, or a quoted string (RFC 9651) such as "order-17".`)
	case q.IdempotencyKey == "":
		q.IdempotencyKey = key
		if err := q.ValidateHTTP(now); err != nil {
			return badIdempotencyKey.problem("It has at most 255 bytes of UTF-8 and no control characters.")
		}
	case q.IdempotencyKey != key:
		return idempotencyConflict.problem("The Idempotency-Key header and the body's idempotency_key differ.",
			client.FieldError{Pointer: "/idempotency_key", Code: idempotencyConflict.code, Detail: "is not the header's"})
	}
	return nil
}

// bareKey returns the key of the header: a structured field's string without
// its quotes, or the text as it is.
func bareKey(text string) (string, bool) {
	if !utf8.ValidString(text) {
		return "", false
	}
	inner, quoted := strings.CutPrefix(text, `"`)
	if !quoted {
		return text, text != "" && !strings.Contains(text, `"`)
	}
	var key strings.Builder
	for i := 0; i < len(inner); i++ {
		switch c := inner[i]; {
		case c == '"':
			return key.String(), i == len(inner)-1 && key.Len() > 0
		case c == '\\':
			i++
			if i == len(inner) || inner[i] != '"' && inner[i] != '\\' {
				return "", false
			}
			key.WriteByte(inner[i])
		default:
			key.WriteByte(c)
		}
	}
	return "", false
}
