package ingest

import (
	"errors"
	"net/http"
	"strings"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/ingest/legacy"
)

// Under /api/ an older system's API is served, in its own dialect: every answer,
// a refusal too, is an envelope, and in Chinese.
const legacyRoot = "/api/"

// ofLegacy reports whether a request is one of that API, known route or not.
func ofLegacy(r *http.Request) bool {
	p := r.URL.Path
	return len(p) >= len(legacyRoot) && strings.EqualFold(p[:len(legacyRoot)], legacyRoot) || strings.EqualFold(p, "/api")
}

// legacyPaths reads that API's paths in any case and with a slash at the end, as
// its servers did. Nothing in them is a name.
func legacyPaths(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ofLegacy(r) {
			u, plain := *r.URL, *r
			u.Path, u.RawPath = strings.TrimSuffix(strings.ToLower(u.Path), "/"), ""
			plain.URL = &u
			r = &plain
		}
		next.ServeHTTP(w, r)
	})
}

// legacyProblem says a problem in that API's words.
func legacyProblem(p *client.Problem) legacy.Envelope {
	if p.Code == quotaExceeded.code && len(p.ViolatedPolicies) > 0 {
		_, window, _ := strings.Cut(p.ViolatedPolicies[0], " ") // as policyName has it
		return legacy.Refused(p.Status, legacy.Refusal(window))
	}
	faults := make([]legacy.Fault, len(p.Errors))
	for i, e := range p.Errors {
		faults[i] = legacy.Fault(e)
	}
	return legacy.Problem(p.Status, p.Code, faults)
}

func legacyAnswer(w http.ResponseWriter, e legacy.Envelope) {
	answer(w, e.Code, "application/json", e)
}

// legacyFault answers a body that the legacy package refuses. It returns whether
// err was that.
func legacyFault(w http.ResponseWriter, err error) bool {
	bad, ok := errors.AsType[*legacy.Invalid](err)
	if ok {
		legacyAnswer(w, legacy.Refused(http.StatusBadRequest, bad.Error()))
	}
	return ok
}

// getLegacyMessage answers with a task's state. There is no list of tasks.
func (s *Server) getLegacyMessage(w http.ResponseWriter, r *http.Request, c *caller) {
	id := legacyQuery(r, "taskId")
	if id == "" {
		legacyAnswer(w, legacy.Refused(http.StatusBadRequest, legacy.MsgNoTaskID))
		return
	}
	m, p := s.find(r.Context(), c.tenant, id)
	if p != nil {
		refuse(w, r, p)
		return
	}
	legacyAnswer(w, legacy.OK(legacy.MsgFound, legacy.TaskOf(m.ID, m.Status, m.Attempt, m.Timeline)))
}

// legacyQuery returns a parameter whose name may stand in any case.
func legacyQuery(r *http.Request, name string) string {
	for k, v := range r.URL.Query() {
		if strings.EqualFold(k, name) {
			return v[0]
		}
	}
	return ""
}
