package ingest

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/dlq"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// actWithin is how long an action's outcome is waited for.
const actWithin = 2 * time.Second

// postCancel takes a message back, if it is in time.
func (s *Server) postCancel(w http.ResponseWriter, r *http.Request, c *caller) {
	s.act(w, r, c, schemas.ActionCancel)
}

// act asks admission to do something about a message, and waits a little for
// what came of it.
func (s *Server) act(w http.ResponseWriter, r *http.Request, c *caller, a schemas.Action) {
	is, p := s.subject(r, c)
	if p != nil {
		refuse(w, r, p)
		return
	}
	q := &schemas.Request{Action: a, Tenant: c.tenant, Channel: schemas.Channel(is.Channel), ID: is.ID, To: is.To}
	to := recipient.Recipient{Key: is.To}
	m := &message{req: q, to: to, value: schemas.RequestJSON(q)}
	out := &client.Done{ID: is.ID, Status: schemas.StatusAccepted}
	reply, p := s.ask(w, r, m, preferOf(r.Header, "", actWithin))
	if p != nil {
		refuse(w, r, p)
		return
	}
	if reply != nil {
		out.Outcome = reply.Event.Reason
		out.Status = cmp.Or(reply.Event.Status, out.Status)
	}
	answer(w, http.StatusAccepted, "application/json", out)
}

// subject is the caller's message that the path names. Of an id that nobody here
// knows, or that cannot be looked up now, the recipient in the query is enough to ask.
func (s *Server) subject(r *http.Request, c *caller) (*client.Message, *client.Problem) {
	named, p := s.whose(r, c)
	if p != nil {
		return nil, p
	}
	is, p := s.find(r.Context(), c.tenant, chi.URLParam(r, "id"), named...)
	if p == nil || p.Code != unknownMessage.code && p.Code != historyUnavailable.code {
		return is, p
	}
	id, ok := messageID(chi.URLParam(r, "id"))
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalidRequest.problem("The query cannot be read.")
	}
	to, channel := query.Get("to"), cmp.Or(schemas.Channel(query.Get("channel")), schemas.ChannelSMS)
	if !ok || to == "" {
		return nil, p
	}
	own, _ := s.policy.Latest().Policy.Tenant(c.tenant)
	whose, err := recipient.Canonical(channel, to, own.DefaultRegion)
	if err != nil {
		return nil, invalidRequest.problem("Nobody can be reached at to.", client.FieldError{Code: "bad_parameter", Detail: "the parameter to is no recipient of this channel (sms, unless the parameter channel says)"})
	}
	return &client.Message{ID: id, To: whose.Key, Channel: string(channel), Tenant: c.tenant}, nil
}

// postRetry sends a message again that ended unsent, as a new one.
func (s *Server) postRetry(w http.ResponseWriter, r *http.Request, c *caller) {
	named, p := s.whose(r, c)
	var is *client.Message
	if p == nil {
		is, p = s.find(r.Context(), c.tenant, chi.URLParam(r, "id"), named...)
	}
	if p != nil {
		refuse(w, r, p)
		return
	}
	switch is.Status {
	case schemas.StatusLimited, schemas.StatusFailed, schemas.StatusExpired:
	case schemas.StatusAccepted, schemas.StatusScheduled, schemas.StatusDeferred, schemas.StatusQueued, schemas.StatusSending, schemas.StatusRetrying, schemas.StatusSent,
		schemas.StatusDelivered, schemas.StatusUndelivered, schemas.StatusUnknown, schemas.StatusSuppressed, schemas.StatusCancelled, schemas.StatusRejected, schemas.StatusDuplicate:
		refuse(w, r, notToRetry.problem("Its status is "+string(is.Status)+": only what is limited, failed or expired is sent again."))
		return
	}
	src := sourceOf(is)
	if src == nil {
		refuse(w, r, requestGone.problem("Where its request stood is not known."))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), dlqTimeout)
	defer cancel()
	to := is.To
	if is.Channel == string(schemas.ChannelEmail) { // it may be from before keys ignored letter case
		to = recipient.Fold(to)
	}
	again, err := s.dlq.Resend(ctx, *src, is.ID, to, c.tenant)
	switch {
	case errors.Is(err, dlq.ErrGone):
		refuse(w, r, requestGone.problem("Its request has left Kafka."))
		return
	case err != nil:
		s.refuseDLQ(w, r, err, "")
		return
	}
	w.Header().Set("Location", "/v1/messages/"+again)
	answer(w, http.StatusAccepted, "application/json", client.Sent{ID: again, Status: schemas.StatusAccepted, RedriveOf: is.ID})
}

func sourceOf(m *client.Message) *schemas.Source {
	for _, e := range m.Timeline {
		if e.Source != nil && e.Source.Topic != "" {
			return e.Source
		}
	}
	return nil
}
