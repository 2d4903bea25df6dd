package ingest

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// postMessage takes one message in. It answers 202 when all in-sync replicas
// hold it, and a problem otherwise.
func (s *Server) postMessage(w http.ResponseWriter, r *http.Request, c *caller) {
	body, p := readBody(w, r)
	if p != nil {
		refuse(w, r, p)
		return
	}
	now := time.Now()
	m, p := s.prepare(body, r.Header.Values("Idempotency-Key"), c.tenant, now)
	if p != nil {
		refuse(w, r, p)
		return
	}
	if p := s.out.produce(r.Context(), m.record(s.requests, s.partitions, r.Header)); p != nil {
		refuse(w, r, p)
		return
	}
	s.recent.accept(m.accepted(time.Now()), m.req.IdempotencyKey == "", time.Now())
	w.Header().Set("Location", "/v1/messages/"+m.req.ID)
	answer(w, http.StatusAccepted, "application/json", client.Accepted{ID: m.req.ID, Status: schemas.StatusAccepted})
}

// message is a request that may be written.
type message struct {
	req   *schemas.Request
	to    recipient.Recipient
	value []byte
}

// prepare reads a body and makes the message that it asks for, or says all
// that is wrong with it.
func (s *Server) prepare(body []byte, keys []string, tenant string, now time.Time) (*message, *client.Problem) {
	at := schemas.MillisOf(now)
	q, err := schemas.DecodeHTTPRequest(body, at)
	if err != nil {
		return nil, invalid(err)
	}
	if q.Tenant != "" && q.Tenant != tenant {
		return nil, forbiddenTenant.problem("A request may name only its own tenant.",
			client.FieldError{Pointer: "/tenant", Code: forbiddenTenant.code, Detail: "is not the caller's"})
	}
	q.Tenant = tenant
	if p := takeKey(q, keys, at); p != nil {
		return nil, p
	}
	own, _ := s.policy.Latest().Policy.Tenant(tenant)
	to, err := recipient.Canonical(q.Channel, q.To, own.DefaultRegion)
	if err != nil {
		return nil, invalid(err)
	}
	if q.ID, err = newID(q, to.Key, at); err != nil {
		s.logger.Error("making an id failed", "error", err)
		return nil, internal.problem("The mistake is in the server's log.")
	}
	value := schemas.RequestJSON(q)
	if len(value) > schemas.MaxRequestBytes { // the id and the tenant take room too
		return nil, oversized()
	}
	return &message{req: q, to: to, value: value}, nil
}

func newID(q *schemas.Request, to string, at schemas.Millis) (string, error) {
	if q.IdempotencyKey != "" {
		return schemas.KeyedID(at, q.Tenant, to, q.IdempotencyKey), nil
	}
	return schemas.NewID(to)
}

// accepted is what is known of the message until its first status is there.
func (m *message) accepted(now time.Time) *schemas.Event {
	at := schemas.MillisOf(now)
	class := m.req.Class
	if class == "" {
		class = schemas.DefaultClass
	}
	return &schemas.Event{
		Kind: schemas.KindStatus, MessageID: m.req.ID, Tenant: m.req.Tenant, Channel: string(m.req.Channel),
		Class: class, Template: m.req.Template, To: m.to.Key, Status: schemas.StatusAccepted, At: at, AcceptedAt: at,
	}
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

// wrongType refuses what says of itself that it is no JSON. Any other type is
// read as JSON: curl -d says application/x-www-form-urlencoded, and the strict
// decoder tells anyway.
func wrongType(h http.Header) *client.Problem {
	if e := h.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return unsupportedMediaType.problem("The body must come without a Content-Encoding.")
	}
	t, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return nil
	}
	switch major, minor, _ := strings.Cut(t, "/"); {
	case major == "multipart", major == "image", major == "audio", major == "video", major == "font",
		strings.Contains(minor, "protobuf"), strings.Contains(minor, "ndjson"), strings.Contains(minor, "cloudevents"),
		minor == "html", minor == "xml", strings.HasSuffix(minor, "+xml"):
		return unsupportedMediaType.problem("The body is one JSON object: Content-Type: application/json.")
	}
	return nil
}

// readBody returns a body that may be JSON, whole.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *client.Problem) {
	if p := wrongType(r.Header); p != nil {
		return nil, p
	}
	if r.ContentLength > schemas.MaxRequestBytes {
		w.Header().Set("Connection", "close") // rather than read what is thrown away
		return nil, oversized()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, schemas.MaxRequestBytes))
	if err == nil {
		return body, nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		// The server reads on a little before it answers, so that a client
		// that only writes gets to see the answer. One that pauses does not
		// hold it up.
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(lastWords))
		return nil, oversized()
	}
	w.Header().Set("Connection", "close")
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, requestTimeout.problem("The body must come within " + readTimeout.String() + ".")
	}
	return nil, incompleteBody.problem("The connection ended within it, or its chunks are invalid.")
}

func oversized() *client.Problem {
	return tooLarge.problem("A request has at most 256 KiB.",
		client.FieldError{Pointer: "", Code: schemas.ReasonTooLarge, Detail: "is over 262144 bytes with its id and tenant"})
}

// invalid makes a problem of what the decoder or the recipient's rules say.
func invalid(err error) *client.Problem {
	if bad, ok := errors.AsType[*recipient.Error](err); ok {
		return invalidRequest.problem("Nobody can be reached at to.", client.FieldError{Pointer: "/to", Code: bad.Code(), Detail: bad.Detail})
	}
	p := invalidRequest.problem("errors lists what is wrong.")
	if bad, ok := errors.AsType[*schemas.RequestError](err); ok {
		for _, f := range bad.Problems {
			p.Errors = append(p.Errors, client.FieldError{Pointer: f.Pointer, Code: f.Code, Detail: f.Message})
		}
	}
	return p
}
