package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/backtest"
	"github.com/weirhq/weir/processor/revise"
	"github.com/weirhq/weir/schemas"
)

// Bounds of one try of limits.
const (
	tryWithin    = 2 * time.Minute
	tryMost      = 2_000_000 // of backtest.Config.Most: half a gigabyte at worst, beside what this process does
	trySince     = 24 * time.Hour
	tryLongest   = 31 * 24 * time.Hour
	mostTried    = 100 // limits, and names to leave out
	tryBusyAfter = 10 * time.Second
	tryLateAfter = time.Minute
)

// tryout runs one backtest at a time.
type tryout struct {
	run    func(context.Context, backtest.Config) (*backtest.Result, error)
	cfg    backtest.Config // all but the policies and the time
	within time.Duration
	turn   chan struct{} // holds one while a backtest runs
}

// postTry says what limits would have done to recorded traffic.
func (s *Server) postTry(w http.ResponseWriter, r *http.Request, _ *caller) {
	if p := noParameters(r); p != nil {
		refuse(w, r, p)
		return
	}
	body, p := readBody(w, r)
	if p != nil {
		refuse(w, r, p)
		return
	}
	in := s.policy.Latest()
	tried, since, p := readTry(body, in)
	if p != nil {
		refuse(w, r, p)
		return
	}
	select {
	case s.tryout.turn <- struct{}{}:
		defer func() { <-s.tryout.turn }()
	default:
		giveBack(w)
		refuse(w, r, after(busy.problem("Limits are being tried already, and one at a time they may be."), tryBusyAfter))
		return
	}
	// A caller who leaves ends it, and so does the server's end.
	ctx, cancel := context.WithTimeout(r.Context(), s.tryout.within)
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)()
	// Without a deadline for its answer net/http would cut it off at 30 s.
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.tryout.within + writeTimeout))
	cfg := s.tryout.cfg
	cfg.Tried, cfg.InForce, cfg.From = tried, in, schemas.MillisOf(time.Now().Add(-since))
	res, err := s.tryout.run(ctx, cfg)
	switch {
	case err == nil:
		answer(w, http.StatusOK, "application/json", whole(res))
	case errors.Is(err, backtest.ErrTooMuch):
		refuse(w, r, invalidRequest.problem("There was more traffic than a server keeps in memory for this. weir limits try may take more.",
			client.FieldError{Pointer: "/since", Code: schemas.ReasonTooLarge, Detail: "is too long for so much traffic"}))
	case s.ending.Err() != nil:
		refuse(w, r, after(notReady.problem("The server shuts down."), time.Second))
	case ctx.Err() != nil:
		refuse(w, r, after(busy.problem(fmt.Sprintf("It was not done within %v. Ask for a shorter time, or use weir limits try.", s.tryout.within)), tryLateAfter))
	default:
		s.logger.Warn("limits cannot be tried", "error", err)
		refuse(w, r, after(kafkaUnavailable.problem("The recorded traffic cannot be read now."), retryKafka))
	}
}

// whole is a result whose lists are lists, also where they are empty.
func whole(res *backtest.Result) *backtest.Result {
	out := *res
	out.ByLimit = append([]backtest.LimitCount{}, res.ByLimit...)
	out.ByClass = append([]backtest.ClassCount{}, res.ByClass...)
	out.ByHour = append([]backtest.HourCount{}, res.ByHour...)
	out.Busiest = append([]backtest.Recipient{}, res.Busiest...)
	return &out
}

// readTry reads what is to be tried, and makes the policy of it: it is judged as
// if each limit were put.
func readTry(body []byte, in *schemas.Revision) (tried *schemas.Policy, since time.Duration, p *client.Problem) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return nil, 0, invalidRequest.problem("The body is one JSON object.", client.FieldError{Code: schemas.ReasonNotObject, Detail: "is no JSON object"})
	}
	var limits []json.RawMessage
	var remove []string
	since = trySince
	var wrong []client.FieldError
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		raw, what, code := fields[name], "", schemas.ReasonBadValue
		switch name {
		case "limits":
			if json.Unmarshal(raw, &limits) != nil || len(limits) > mostTried {
				what = "is a list of at most 100 limits"
			}
		case "remove":
			if json.Unmarshal(raw, &remove) != nil || len(remove) > mostTried {
				what = "is a list of at most 100 names"
			}
		case "since":
			var d schemas.Duration
			if err := json.Unmarshal(raw, &d); err != nil || string(raw) == "null" || d < schemas.Duration(time.Minute) || time.Duration(d) > tryLongest {
				what = "is how far back: 24h, 14d, from 1m to 31d"
			}
			since = time.Duration(d)
		default:
			what, code = "is unknown", schemas.ReasonUnknownField
		}
		if what != "" {
			wrong = append(wrong, client.FieldError{Pointer: "/" + known(name), Code: code, Detail: what})
		}
	}
	if len(wrong) > 0 {
		return nil, 0, invalidRequest.problem("errors lists what is wrong.", wrong...)
	}
	tried = &in.Policy
	fail := func(pointer, code, detail string) *client.Problem {
		return invalidRequest.problem("errors lists what is wrong.", client.FieldError{Pointer: pointer, Code: code, Detail: detail})
	}
	for i, name := range remove {
		next, ok := tried.Without(schemas.ResourceLimit, name)
		if !ok {
			return nil, 0, fail(fmt.Sprintf("/remove/%d", i), schemas.ReasonBadValue, "is no limit in force, or named twice")
		}
		tried = next
	}
	if err := revise.Judge(tried); err != nil {
		if p, ok := errors.AsType[*client.Problem](conflicting("Others refer to what would be removed, as errors lists.", err)); ok {
			return nil, 0, p
		}
		return nil, 0, internal.problem("The mistake is in the server's log.")
	}
	seen := make(map[string]bool)
	for i, raw := range limits {
		at := fmt.Sprintf("/limits/%d", i)
		var named struct{ Name string }
		if err := json.Unmarshal(raw, &named); err != nil || !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
			return nil, 0, fail(at, schemas.ReasonNotObject, "is no limit")
		}
		switch {
		case named.Name == "":
			return nil, 0, fail(at+"/name", schemas.ReasonRequired, "is required")
		case seen[named.Name], slices.Contains(remove, named.Name):
			return nil, 0, fail(at+"/name", schemas.ReasonBadValue, "stands more than once")
		}
		seen[named.Name] = true
		put, err := tried.WithResource(schemas.ResourceLimit, named.Name, raw, "")
		if err == nil {
			err = put.Check()
		}
		if err == nil {
			err = revise.Decidable(put.Policy)
		}
		if err != nil {
			p, ok := errors.AsType[*client.Problem](invalidResource(put, err))
			if !ok {
				return nil, 0, fail(at, schemas.ReasonBadValue, "cannot be decided on")
			}
			p.Detail = "errors lists what is wrong."
			for j := range p.Errors {
				if p.Status == http.StatusBadRequest {
					p.Errors[j].Pointer = at + p.Errors[j].Pointer
				}
			}
			return nil, 0, p
		}
		tried = put.Policy
	}
	return tried, since, nil
}
