package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/processor/request"
	"github.com/weirhq/weir/schemas"
)

// Who is suppressed is admission's to know: what is asked of one recipient is asked
// of the partition that has it, and a change is a request like any other. A list is
// ClickHouse's, which follows the log by about a second.

// suppressionQuery is what a list or a look-up asks for.
type suppressionQuery struct {
	tenant    string // whose
	forbidden bool   // another's was asked for
	to        string
	channel   schemas.Channel
	class     string
	reason    string
	limit     int
	cursor    string
}

// set reads a parameter that names a suppression.
func (q *suppressionQuery) set(name, v string) (err error) {
	switch name {
	case "to":
		if q.to = v; v == "" || len(v) > mostTo {
			err = errors.New("is a recipient")
		}
	case "channel":
		q.channel, err = readChannel(v)
	case "class":
		q.class, err = readName(v)
	case "tenant":
		q.forbidden = v != "" && v != q.tenant
	default:
		err = errUnknownField
	}
	return err
}

// getSuppressions tells what is suppressed of one recipient, or lists the tenant's.
func (s *Server) getSuppressions(w http.ResponseWriter, r *http.Request, c *caller) {
	q := &suppressionQuery{tenant: c.about(), limit: defaultPage}
	wrong, p := readQuery(r, func(name, v string) (err error) {
		switch name {
		case "reason":
			if q.reason = v; v == "" || utf8.RuneCountInString(v) > schemas.MaxSuppressReason {
				err = errors.New("is a text of at most 64 characters")
			}
		case "limit":
			q.limit, err = readLimit(v)
		case "cursor":
			q.cursor = v
		default:
			err = q.set(name, v)
		}
		return err
	})
	if p == nil {
		p = invalidParameters(wrong)
	}
	var page *client.SuppressionPage
	switch {
	case p != nil:
	case q.to != "":
		page, p = s.suppressionsOf(w, r, q)
	default:
		page, p = s.suppressionsFrom(r, q)
	}
	if p != nil {
		refuse(w, r, p)
		return
	}
	answer(w, http.StatusOK, "application/json", page)
}

func othersTenant() *client.Problem {
	return forbiddenTenant.problem("A request may name only its own tenant.",
		client.FieldError{Pointer: "/tenant", Code: forbiddenTenant.code, Detail: "is not the caller's"})
}

// suppressionsOf asks whoever has the recipient: the answer is exact as of the
// question's place in its log.
func (s *Server) suppressionsOf(w http.ResponseWriter, r *http.Request, q *suppressionQuery) (*client.SuppressionPage, *client.Problem) {
	keys, err := recipients(q.channel, q.to, s.regionOf(q.tenant))
	if err != nil {
		return nil, invalidParameters([]client.FieldError{wrongParameter("to", err)})
	}
	page := &client.SuppressionPage{Suppressions: []client.Suppression{}}
	for _, key := range keys { // as a rule one
		ask := &schemas.QuotaAsk{To: key, Of: q.tenant, Scopes: []schemas.QuotaScope{}}
		_, all, p := s.inquire(w, r, map[int32]*schemas.QuotaAsk{schemas.PartitionOf(key, s.partitions): ask})
		if p != nil {
			return nil, p
		}
		for _, n := range all {
			if (q.channel == "" || n.Channel == string(q.channel)) && (q.class == "" || n.Class == q.class) && (q.reason == "" || n.Reason == q.reason) {
				page.Suppressions = append(page.Suppressions, suppression(key, &n))
			}
		}
	}
	return page, nil
}

func suppression(to string, n *schemas.Suppression) client.Suppression {
	return client.Suppression{To: to, Tenant: n.Tenant, Channel: n.Channel, Class: n.Class, At: n.At, ExpiresAt: n.Until, Reason: n.Reason, Provider: n.Provider}
}

// suppressionsFrom lists what stands, in the order of recipients.
func (s *Server) suppressionsFrom(r *http.Request, q *suppressionQuery) (*client.SuppressionPage, *client.Problem) {
	at, p := q.bookmark()
	if p != nil {
		return nil, p
	}
	if s.history == nil {
		return nil, after(historyUnavailable.problem("This server has no ClickHouse, which lists. Of one recipient (the parameter to) it can tell."), time.Minute)
	}
	ask := history.Suppressions{
		Tenant: q.tenant, Channel: string(q.channel), Class: q.class, Reason: q.reason, At: schemas.MillisOf(time.Now()), Limit: q.limit + 1,
		After: history.Suppressed{To: at.To, Suppression: schemas.Suppression{Channel: at.Channel, Class: at.Class}},
	}
	ctx, cancel := context.WithTimeout(r.Context(), historyTimeout)
	defer cancel()
	found, err := s.history.Suppressions(ctx, ask)
	if err != nil {
		s.logger.Warn("listing suppressions failed", "error", err)
		return nil, after(historyUnavailable.problem("What is suppressed cannot be listed now. Of one recipient (the parameter to) it can be told."), time.Second)
	}
	page := &client.SuppressionPage{Suppressions: []client.Suppression{}}
	for i := range found[:min(len(found), q.limit)] {
		page.Suppressions = append(page.Suppressions, suppression(found[i].To, &found[i].Suppression))
	}
	if len(found) > q.limit {
		last := page.Suppressions[q.limit-1]
		page.NextCursor = suppressionMark{Of: at.Of, To: last.To, Channel: last.Channel, Class: last.Class}.String()
	}
	return page, nil
}

// suppressionMark is what a cursor holds: where the page before ended.
type suppressionMark struct {
	Of      string `json:"of"` // the filters, hashed
	To      string `json:"to,omitempty"`
	Channel string `json:"channel,omitempty"`
	Class   string `json:"class,omitempty"`
}

func (m suppressionMark) String() string {
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // it is made of texts
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// bookmark reads the cursor.
func (q *suppressionQuery) bookmark() (suppressionMark, *client.Problem) {
	text, err := json.Marshal([]string{q.tenant, string(q.channel), q.class, q.reason})
	if err != nil {
		panic(err) // it is made of texts
	}
	sum := sha256.Sum256(text)
	m := suppressionMark{Of: base64.RawURLEncoding.EncodeToString(sum[:9])}
	if q.cursor == "" {
		return m, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(q.cursor)
	var got suppressionMark
	if err == nil {
		err = json.Unmarshal(raw, &got)
	}
	if err != nil || got.Of != m.Of || got.To == "" || len(raw) > 4*mostTo {
		return m, invalidRequest.problem("The cursor belongs to other filters.", client.FieldError{Code: "bad_cursor", Detail: "is none that was given for these filters"})
	}
	return got, nil
}

// putSuppression suppresses a recipient, or says anew until when and why.
func (s *Server) putSuppression(w http.ResponseWriter, r *http.Request, c *caller) {
	wrong, p := readQuery(r, func(string, string) error { return errUnknownField })
	if p == nil {
		p = invalidParameters(wrong)
	}
	var body []byte
	if p == nil {
		body, p = readBody(w, r)
	}
	var m *message
	if p == nil {
		m, p = s.suppressing(body, c, schemas.MillisOf(time.Now()))
	}
	if p != nil {
		refuse(w, r, p)
		return
	}
	s.change(w, r, m)
}

// deleteSuppression lifts the suppression of exactly this scope.
func (s *Server) deleteSuppression(w http.ResponseWriter, r *http.Request, c *caller) {
	q := &suppressionQuery{tenant: c.tenant}
	wrong, p := readQuery(r, q.set)
	if p == nil && q.to == "" && len(wrong) == 0 {
		wrong = append(wrong, wrongParameter("to", errors.New("is required")))
	}
	if p == nil {
		p = invalidParameters(wrong)
	}
	if p == nil && q.forbidden {
		p = othersTenant()
	}
	var m *message
	if p == nil {
		m, p = s.scoped(&schemas.Request{Action: schemas.ActionUnsuppress, To: q.to, Channel: q.channel, Class: q.class}, "", c, schemas.MillisOf(time.Now()))
	}
	if p != nil {
		refuse(w, r, p)
		return
	}
	s.change(w, r, m)
}

// change writes a suppress or unsuppress request and tells what was decided.
func (s *Server) change(w http.ResponseWriter, r *http.Request, m *message) {
	reply, p := s.ask(w, r, m, preferOf(r.Header, "", actWithin))
	out := &client.SuppressionDone{To: m.to.Key, Channel: string(m.req.Channel), Class: m.req.Class, Status: schemas.StatusAccepted}
	if m.req.Action == schemas.ActionSuppress {
		out.ExpiresAt, out.Reason = m.req.ExpiresAt, m.req.Metadata[schemas.MetaReason]
	}
	if reply != nil {
		e := reply.Event
		if e.Decision != nil && e.Decision.Verdict == schemas.VerdictReject {
			p = suppressionRefused.problem("errors has the reason.", client.FieldError{Code: e.Reason, Detail: e.Error})
		}
		out.Outcome = e.Reason
	}
	if p != nil {
		refuse(w, r, p)
		return
	}
	answer(w, http.StatusAccepted, "application/json", out)
}

// suppressionFields are those of a suppression over HTTP, as JSON and as columns.
var suppressionFields = []string{"to", "channel", "class", "expires_at", "reason"}

// suppressing reads one JSON object that asks for a suppression.
func (s *Server) suppressing(body []byte, c *caller, now schemas.Millis) (*message, *client.Problem) {
	fields := make(map[string]json.RawMessage)
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil { // null would be an object without fields
		return nil, invalidRequest.problem("It is one JSON object.", client.FieldError{Code: schemas.ReasonNotObject, Detail: "is no JSON object"})
	}
	if !utf8.Valid(body) {
		return nil, invalidRequest.problem("errors lists what is wrong.", client.FieldError{Code: schemas.ReasonBadText, Detail: "is not UTF-8"})
	}
	values := make(map[string]string, len(fields))
	var wrong []client.FieldError
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		var v *string
		switch {
		case name != "tenant" && !slices.Contains(suppressionFields, name):
			wrong = append(wrong, client.FieldError{Pointer: "/" + known(name), Code: schemas.ReasonUnknownField, Detail: "is not a field of a suppression"})
		case json.Unmarshal(fields[name], &v) != nil:
			wrong = append(wrong, client.FieldError{Pointer: "/" + name, Code: schemas.ReasonWrongType, Detail: "must be a text"})
		case v != nil:
			values[name] = *v
		}
	}
	if len(wrong) > 0 {
		return nil, invalidRequest.problem("errors lists what is wrong.", wrong[:min(len(wrong), 32)]...)
	}
	return s.suppressionOf(values, c, now)
}

// suppressionOf makes the request of its fields by name. An empty one is absent.
func (s *Server) suppressionOf(values map[string]string, c *caller, now schemas.Millis) (*message, *client.Problem) {
	if t := values["tenant"]; t != "" && t != c.tenant {
		return nil, othersTenant()
	}
	q := &schemas.Request{Action: schemas.ActionSuppress, To: values["to"], Channel: schemas.Channel(values["channel"]), Class: values["class"]}
	var err error
	if q.ExpiresAt, err = schemas.ParseMillis(values["expires_at"]); err != nil {
		return nil, invalidRequest.problem("errors lists what is wrong.", client.FieldError{Pointer: "/expires_at", Code: schemas.ReasonBadTime, Detail: "is no time of RFC 3339, such as 2026-11-22T09:00:00+08:00"})
	}
	if values["expires_at"] != "" && q.ExpiresAt == 0 {
		q.ExpiresAt = 1 // 1970 is a time, and long over
	}
	return s.scoped(q, values["reason"], c, now)
}

// scoped makes the message of a suppress or unsuppress request of the caller's.
func (s *Server) scoped(q *schemas.Request, why string, c *caller, now schemas.Millis) (*message, *client.Problem) {
	if c.test { // what it suppresses would not reach real recipients any more
		return nil, forbiddenScope.problem("A test key sends to nobody, and keeps nobody from being sent to.")
	}
	q.Tenant = c.tenant
	q.Metadata = map[string]string{schemas.MetaProvider: c.asks()}
	if why != "" {
		q.Metadata[schemas.MetaReason] = why
	}
	if err := q.Validate(now); err != nil {
		p := invalid(err)
		for i, e := range p.Errors {
			if e.Pointer == "/metadata/"+schemas.MetaReason {
				p.Errors[i].Pointer = "/reason"
			}
		}
		return nil, p
	}
	to, err := request.Addressee(q, &s.policy.Latest().Policy)
	if err != nil {
		return nil, invalid(err)
	}
	return &message{req: q, to: to, value: schemas.RequestJSON(q)}, nil
}

// asks is who the caller is in what is kept of a suppression: no provider of a
// policy can be called so.
func (c *caller) asks() string {
	if c.key == nil {
		return "api"
	}
	name := "api:" + c.key.Name
	return name[:min(len(name), 64)]
}
