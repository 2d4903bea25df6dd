package ingest

import (
	"net/http"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

// decideWithin is how long a decision is waited for where the caller does not say.
const decideWithin = 10 * time.Second

// postDecision decides a message as if it were to be sent, takes its places, and
// sends nothing: for callers who send by themselves.
func (s *Server) postDecision(w http.ResponseWriter, r *http.Request, c *caller) {
	body, p := readBody(w, r)
	if p != nil {
		refuse(w, r, p)
		return
	}
	now := time.Now()
	q, p := s.question(body, r.Header["Idempotency-Key"], now)
	if p == nil {
		p = pin(q, &s.policy.Latest().Policy, "none", noDecider)
	}
	if p != nil {
		refuse(w, r, p)
		return
	}
	whose := *c
	whose.test = false // a decision sends nothing, whoever asks for it
	m, p := s.prepare(q, &whose, now)
	if p != nil {
		refuse(w, r, p)
		return
	}
	prefer := preferOf(r.Header, c.prefer(), decideWithin)
	allows := s.allows(c)
	if allows { // who is allowed in any case does not wait for Kafka longer than for the decision
		prefer.acked = min(prefer.wait, answerTimeout)
	}
	sent, p := s.take(w, r, m, prefer)
	if allows {
		sent, p = s.orAllow(r, m, sent, p)
	}
	if p != nil {
		refuse(w, r, p)
		return
	}
	w.Header().Set("Location", "/v1/messages/"+sent.ID)
	status := http.StatusAccepted // not decided yet, or it waits
	if sent.Status == schemas.StatusSent {
		status = http.StatusOK
	}
	answer(w, status, "application/json", sent)
}

// question reads a request that need have no content, since nothing is sent: it
// is given some, for the form's sake. Limits that count parts or content count
// what the caller sends along, or one part of that.
func (s *Server) question(body []byte, keys []string, now time.Time) (*schemas.Request, *client.Problem) {
	q, err := schemas.DecodeRequestStrict(body)
	if err != nil {
		return nil, invalid(err)
	}
	if q.Template == "" && q.Subject == "" && q.Body == "" && q.HTML == "" && q.Title == "" && len(q.Data) == 0 {
		const nothing = "-"
		if q.Body = nothing; q.Channel == schemas.ChannelEmail {
			q.Subject = nothing
		}
	}
	at := schemas.MillisOf(now)
	if err := q.ValidateHTTP(at); err != nil {
		return nil, invalid(err)
	}
	return q, takeKey(q, keys, at)
}

// postRelease gives a decision's places back.
func (s *Server) postRelease(w http.ResponseWriter, r *http.Request, c *caller) {
	s.act(w, r, c, schemas.ActionRelease)
}
