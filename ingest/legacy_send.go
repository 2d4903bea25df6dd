package ingest

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/ingest/legacy"
	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/schemas"
)

const (
	// waitLegacy is how long a message of that API waits for its decision, unless the
	// caller or its key prefers otherwise: its clients learn of a refusal by the answer.
	waitLegacy = time.Second
	// maxLegacyBatchBytes is of a whole batch of legacy.MaxBatch messages.
	maxLegacyBatchBytes = 4 << 20
	// legacyAtOnce is how many messages of one batch wait for their decision at once.
	legacyAtOnce = 250
)

// postLegacyMessage takes one message in and answers after its decision; if
// none comes in time, or the caller does not wait, as if it were admitted: its task
// has the rest. The answer is 200 even then, since that API's clients know no 202.
func (s *Server) postLegacyMessage(w http.ResponseWriter, r *http.Request, c *caller) {
	body, p := readBody(w, r)
	if p != nil {
		refuse(w, r, p)
		return
	}
	m, err := s.legacyMessage(body, c, r.Header["Idempotency-Key"])
	if err != nil {
		refuseLegacy(w, r, err)
		return
	}
	sent, p := s.take(w, r, m, preferOf(r.Header, c.prefer(), s.legacyWait))
	if p != nil {
		refuse(w, r, p)
		return
	}
	legacyAnswer(w, legacy.OK(legacy.MsgAccepted, legacy.SubmittedAs(sent.ID, sent.Status)))
}

// legacyMessage makes the message that a body asks for. The error is a
// *client.Problem or a *legacy.Invalid.
func (s *Server) legacyMessage(body []byte, c *caller, keys []string) (*message, error) {
	now := time.Now()
	rules := &s.policy.Latest().Policy
	q, err := legacy.Message(rules, body)
	if err != nil {
		return nil, err
	}
	if err := q.ValidateHTTP(schemas.MillisOf(now)); err != nil {
		return nil, invalid(err)
	}
	if _, err := content.Of(q, rules); err != nil { // admission would find it, and the caller not learn of it in time
		bad, _ := errors.AsType[*content.Error](err)
		if bad.Reason == content.ReasonMissingVariable {
			return nil, &legacy.Invalid{Problems: []string{"variables 缺少模板变量 " + strings.Join(bad.Missing, "、")}}
		}
		return nil, invalidRequest.problem("", client.FieldError{Pointer: "/template", Code: bad.Code(), Detail: bad.Detail})
	}
	if p := takeKey(q, keys, schemas.MillisOf(now)); p != nil {
		return nil, p
	}
	m, p := s.prepare(q, c, now)
	if p != nil {
		return nil, p
	}
	return m, nil
}

// refuseLegacy answers what legacyMessage refuses.
func refuseLegacy(w http.ResponseWriter, r *http.Request, err error) {
	if p, ok := errors.AsType[*client.Problem](err); ok {
		refuse(w, r, p)
		return
	}
	legacyAnswer(w, legacyRefusal(err))
}

// legacyRefusal says an error of legacyMessage in that API's words.
func legacyRefusal(err error) legacy.Envelope {
	if p, ok := errors.AsType[*client.Problem](err); ok {
		return legacyProblem(p)
	}
	return legacy.Refused(http.StatusBadRequest, err.Error())
}

// postLegacyBatch takes many messages in, each as if it had come alone. They are
// decided side by side.
func (s *Server) postLegacyBatch(w http.ResponseWriter, r *http.Request, c *caller) {
	leave, p := s.batches.any.enter(c.tenant)
	if p != nil {
		refuse(w, r, p)
		return
	}
	defer leave()
	body, p := readUpTo(w, r, maxLegacyBatchBytes, func() *client.Problem { return tooLarge.problem("A batch has at most 4 MiB.") })
	if p != nil {
		refuse(w, r, p)
		return
	}
	bodies, err := legacy.Batch(body)
	if err != nil {
		refuseLegacy(w, r, err)
		return
	}
	keys, p := batchKeys(r.Header["Idempotency-Key"])
	if p != nil {
		refuse(w, r, p)
		return
	}
	prefer := preferOf(r.Header, c.prefer(), s.legacyWait)
	if prefer.applied != "" {
		w.Header().Set("Preference-Applied", prefer.applied)
		prefer.applied = "" // once for all of them
	}
	results := make([]legacy.BatchResult, len(bodies))
	problems := make([]*client.Problem, len(bodies))
	var wg sync.WaitGroup
	room := make(chan struct{}, legacyAtOnce)
	for i, body := range bodies {
		var own []string
		if k := keys(i); k != "" {
			own = []string{k}
		}
		m, err := s.legacyMessage(body, c, own)
		if err != nil {
			results[i] = legacy.BatchResult{Index: i, Envelope: legacyRefusal(err)}
			continue
		}
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			sent, p := s.takeOne(w, r, m, prefer)
			problems[i] = p
			if p != nil {
				results[i] = legacy.BatchResult{Index: i, Envelope: legacyProblem(p), RetryAfterSeconds: seconds(p.RetryAfter)}
				return
			}
			results[i] = legacy.BatchResult{Index: i, Envelope: legacy.OK(legacy.MsgAccepted, legacy.SubmittedAs(sent.ID, sent.Status))}
		})
	}
	wg.Wait()
	if p := allAway(problems); p != nil {
		refuse(w, r, p)
		return
	}
	legacyAnswer(w, legacy.OK(legacy.MsgBatch, legacy.BatchOf(results)))
}

// allAway is the answer to a batch of which Kafka took nothing; nil where it took
// something, or a message was refused.
func allAway(problems []*client.Problem) *client.Problem {
	for _, p := range problems {
		if p == nil || p.Status != http.StatusServiceUnavailable {
			return nil
		}
	}
	return problems[0]
}
