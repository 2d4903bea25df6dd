package ingest

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

// told is the answer to a caller who waited for the decision on m.
func (s *Server) told(m *message, reply *schemas.Reply) (*client.Sent, *client.Problem) {
	e := reply.Event
	if e.Status == schemas.StatusDuplicate {
		return s.first(m, cmp.Or(e.DuplicateOf, e.MessageID, m.req.ID))
	}
	sent, p := outcome(m.req.ID, e, reply.Limits, time.Now())
	if p != nil && p.Code == keyReused.code {
		s.reused(p, m, cmp.Or(e.DuplicateOf, m.req.ID))
	}
	return sent, p
}

// reused adds to the problem of m, whose key or id names another message, which message
// that is and what of it differs. Weir keeps a hash of a message's content, so of what no
// status has, such as its text, it only knows that something differs.
func (s *Server) reused(p *client.Problem, m *message, id string) {
	p.Errors = []client.FieldError{{Code: reasonKeyReused, Detail: "the idempotency key, or the id, names a message with other content"}}
	now := ""
	if _, events, _ := s.tailed(m.req.Tenant, id); len(events) > 0 {
		is := fold(id, nil, events)
		now = ", accepted at " + is.AcceptedAt.String() + " and now " + string(is.Status)
		for _, f := range []struct{ pointer, was, is string }{
			{"/channel", is.Channel, string(m.req.Channel)},
			{"/class", cmp.Or(is.Class, schemas.DefaultClass), cmp.Or(m.req.Class, schemas.DefaultClass)},
			{"/template", is.Template, m.req.Template},
			{"/cost", strconv.Itoa(is.Cost), strconv.Itoa(m.req.Cost)},
		} {
			if f.was != f.is {
				p.Errors = append(p.Errors, client.FieldError{Pointer: f.pointer, Code: reasonKeyReused, Detail: "is another than that message's"})
			}
		}
		if len(p.Errors) == 1 {
			p.Errors = append(p.Errors, client.FieldError{Code: reasonKeyReused, Detail: "channel, class, template and cost are that message's: its text, variables, metadata, times or another field differ"})
		}
	}
	p.Detail = "The key names the message " + id + now + ". GET /v1/messages/" + id + " shows it. This one is not sent: for another message use another key."
}

// first is the answer to a repeat: that of the message which its key or id named
// before, as far as it is known here.
func (s *Server) first(m *message, id string) (*client.Sent, *client.Problem) {
	accepted, events, _ := s.tailed(m.req.Tenant, id)
	if accepted == nil && len(events) == 0 {
		return &client.Sent{ID: id, Status: schemas.StatusAccepted}, nil
	}
	is := fold(id, accepted, events)
	return outcome(id, &schemas.Event{
		Status: is.Status, Reason: is.Reason, Error: is.Error, Limit: is.Limit, Window: is.Window, RetryAt: is.RetryAt,
	}, nil, time.Now())
}

// outcome tells what became of a message: an answer if it goes on or was sent,
// a problem if not.
func outcome(id string, e *schemas.Event, limits []schemas.LimitState, now time.Time) (*client.Sent, *client.Problem) {
	var p *client.Problem
	switch e.Status {
	case schemas.StatusLimited:
		p = refusal(e, limits, now)
	case schemas.StatusRejected:
		k := messageRejected
		if e.Reason == reasonKeyReused {
			k = keyReused
		}
		p = k.problem("errors has the reason.", client.FieldError{Code: e.Reason, Detail: cmp.Or(e.Error, e.Reason)})
	case schemas.StatusSuppressed:
		p = messageSuppressed.problem("")
		if p.RetryAt = e.RetryAt; e.RetryAt != 0 {
			p.Detail = "Until " + e.RetryAt.String() + "."
		}
	case schemas.StatusExpired:
		p = messageExpired.problem("Its time ran out before it was decided.")
	case schemas.StatusCancelled:
		p = messageCancelled.problem("")
	case schemas.StatusAccepted, schemas.StatusScheduled, schemas.StatusDeferred, schemas.StatusQueued, schemas.StatusSending, schemas.StatusRetrying,
		schemas.StatusSent, schemas.StatusDelivered, schemas.StatusUndelivered, schemas.StatusFailed, schemas.StatusUnknown, schemas.StatusDuplicate:
		return &client.Sent{ID: id, Status: e.Status, RetryAt: e.RetryAt, Limits: limits}, nil
	}
	p.ID = id
	return nil, p
}

// reasonKeyReused is admission's reason for other content under a known key.
const reasonKeyReused = "key_reused"

// refusal is the problem of a message that a limit refused.
func refusal(e *schemas.Event, limits []schemas.LimitState, now time.Time) *client.Problem {
	detail := fmt.Sprintf("%s allows %s", e.Limit, e.Window)
	p := quotaExceeded.problem("")
	p.RetryAt = e.RetryAt
	if e.RetryAt != 0 {
		p.RetryAfter = max(e.RetryAt.Time().Sub(now), time.Second)
		p.RetryAfterSeconds = seconds(p.RetryAfter)
		detail += ": again at " + e.RetryAt.String()
	} else {
		detail += ", and this message alone takes more: it can never pass"
	}
	p.Detail = detail + "."
	p.Limits = limits
	for _, l := range limits {
		if l.Violated {
			p.ViolatedPolicies = append(p.ViolatedPolicies, policyName(l.Limit, l.Window))
		}
	}
	if len(p.ViolatedPolicies) == 0 { // of a repeat only what the status says is known
		p.ViolatedPolicies = []string{policyName(e.Limit, e.Window)}
	}
	return p
}

// policyName is what the RateLimit headers and violated-policies call a window.
func policyName(limit, window string) string { return limit + " " + window }
