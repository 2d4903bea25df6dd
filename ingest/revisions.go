package ingest

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/revise"
	"github.com/weirhq/weir/schemas"
)

// listRevisions says who changed what, the newest first. A cursor is the number
// of the revision that the page before ended with, so pages do not shift.
func (s *Server) listRevisions(w http.ResponseWriter, r *http.Request, _ *caller) {
	query, p := parameters(r, "cursor", "limit")
	if p != nil {
		refuse(w, r, p)
		return
	}
	limit, next := defaultPage, s.policy.Latest().Revision
	var err error
	if query.Has("limit") {
		if limit, err = readLimit(query.Get("limit")); err != nil {
			refuse(w, r, badParameter("limit", err.Error()))
			return
		}
	}
	if query.Has("cursor") {
		before, err := strconv.ParseInt(query.Get("cursor"), 10, 64)
		if err != nil || before < 1 {
			refuse(w, r, badParameter("cursor", "is none that was given"))
			return
		}
		next = min(next, before-1)
	}
	page := client.RevisionPage{Revisions: []client.Revision{}}
	for ; next > 0 && len(page.Revisions) < limit; next-- {
		rev, parent := s.revision(r, next), s.revision(r, next-1)
		if rev == nil || parent == nil {
			break // the caller has left
		}
		changes := schemas.DiffPolicy(&parent.Policy, &rev.Policy)
		if changes == nil {
			changes = []schemas.Change{}
		}
		page.Revisions = append(page.Revisions, client.Revision{Revision: rev.Revision, At: rev.At, By: rev.By, Changes: changes})
	}
	if next > 0 {
		page.NextCursor = strconv.FormatInt(next+1, 10)
	}
	answer(w, http.StatusOK, "application/json", page)
}

// getRevision shows the whole policy as it was.
func (s *Server) getRevision(w http.ResponseWriter, r *http.Request, _ *caller) {
	if p := noParameters(r); p != nil {
		refuse(w, r, p)
		return
	}
	rev := s.namedRevision(w, r)
	if rev == nil {
		return
	}
	out := client.PolicyRevision{Revision: rev.Revision, Parent: rev.Parent, At: rev.At, By: rev.By, Policy: rev.Policy}
	out.Policy.Keys = nil
	for _, k := range rev.Policy.Keys {
		out.Policy.Keys = append(out.Policy.Keys, k.WithoutHashes())
	}
	answer(w, http.StatusOK, "application/json", out)
}

// postRollback brings back what decides about messages as a revision has it.
func (s *Server) postRollback(w http.ResponseWriter, r *http.Request, c *caller) {
	o, p := editOptions(r, schemas.ResourceLimit, "dry_run", "accept_loss")
	if p != nil {
		refuse(w, r, p)
		return
	}
	to := s.namedRevision(w, r)
	if to == nil {
		return
	}
	res, p := s.edit(r, c, o, func(have *schemas.Revision) (*schemas.Policy, error) {
		next, err := revise.Rollback(&have.Policy, &to.Policy, o.loss || o.dryRun)
		switch {
		case errors.Is(err, revise.ErrRefused):
			return nil, policyConflict.problem("To roll back nevertheless, add ?accept_loss=true.", client.FieldError{Code: schemas.ReasonBadValue, Detail: err.Error()})
		case err != nil:
			return nil, conflicting("It does not fit the tenants, keys, alerts and inputs of today, as errors lists.", err)
		}
		return next, nil
	})
	if p != nil {
		refuse(w, r, p)
		return
	}
	rep := res.Report(o.dryRun, time.Now())
	out := client.Rollback{Revision: rep.Revision, DryRun: o.dryRun, Changes: rep.Changes, Unroutable: rep.Unroutable}
	out.Warming, out.Lost = historyOf(rep)
	if o.dryRun {
		out.Topics = topicsOf(res)
	}
	answer(w, http.StatusOK, "application/json", out)
}

// namedRevision returns the revision in the address; nil where that was refused.
func (s *Server) namedRevision(w http.ResponseWriter, r *http.Request) *schemas.Revision {
	n, err := strconv.ParseInt(chi.URLParam(r, "revision"), 10, 64)
	if err != nil || n < 0 || n > s.policy.Latest().Revision {
		refuse(w, r, unknownResource.problem("There is no revision of this number. GET /v1/revisions lists them."))
		return nil
	}
	return s.revision(r, n) // nil: the caller has left
}

// revision returns one that has been read already: it does not wait.
func (s *Server) revision(r *http.Request, n int64) *schemas.Revision {
	rev, _ := s.policy.Get(r.Context(), n)
	return rev
}
