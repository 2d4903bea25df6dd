package ingest

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/ingest/legacy"
	"github.com/weirhq/weir/processor/revise"
	"github.com/weirhq/weir/schemas"
)

// The rate limits of that API are the operator's, over all tenants: whoever may
// edit the policy edits them.

func (s *Server) getLegacyLimits(w http.ResponseWriter, _ *http.Request, _ *caller) {
	legacyAnswer(w, legacy.OK(legacy.MsgFound, legacy.RateLimits(&s.policy.Latest().Policy)))
}

func (s *Server) getLegacyLimit(w http.ResponseWriter, r *http.Request, _ *caller) {
	found, err := legacy.Find(&s.policy.Latest().Policy, legacyID(r))
	if err != nil {
		legacyAnswer(w, legacy.Refused(http.StatusNotFound, legacy.MsgUnknownLimit))
		return
	}
	legacyAnswer(w, legacy.OK(legacy.MsgFound, found))
}

// legacyID is the path's id; 0, which no limit has, where it is no number.
func legacyID(r *http.Request) int64 {
	id, err := strconv.ParseInt(chi.URLParam(r, "id"), 10, 64)
	if err != nil {
		return 0
	}
	return id
}

func (s *Server) postLegacyLimit(w http.ResponseWriter, r *http.Request, c *caller) {
	body, p := readBody(w, r)
	if p != nil {
		refuse(w, r, p)
		return
	}
	s.reviseLegacy(w, r, c, legacy.MsgCreated, func(have *schemas.Policy) (*schemas.Policy, any, error) {
		next, made, err := legacy.Create(have, body)
		return next, made, err
	})
}

func (s *Server) putLegacyLimit(w http.ResponseWriter, r *http.Request, c *caller) {
	body, p := readBody(w, r)
	if p != nil {
		refuse(w, r, p)
		return
	}
	s.reviseLegacy(w, r, c, legacy.MsgUpdated, func(have *schemas.Policy) (*schemas.Policy, any, error) {
		next, is, err := legacy.Change(have, legacyID(r), body)
		return next, is, err
	})
}

func (s *Server) deleteLegacyLimit(w http.ResponseWriter, r *http.Request, c *caller) {
	s.reviseLegacy(w, r, c, legacy.MsgDeleted, func(have *schemas.Policy) (*schemas.Policy, any, error) {
		next, err := legacy.Remove(have, legacyID(r))
		return next, nil, err
	})
}

// reviseLegacy brings an edit into force and answers with what it made. One that
// another edit overtakes is made anew, so neither is lost.
func (s *Server) reviseLegacy(w http.ResponseWriter, r *http.Request, c *caller, done string, edit func(*schemas.Policy) (*schemas.Policy, any, error)) {
	var made any
	var wrong error // with what was asked for, where it stood at last
	_, p := s.edit(r, c, options{kind: schemas.ResourceLimit, loss: true}, func(have *schemas.Revision) (next *schemas.Policy, err error) {
		if next, made, wrong = edit(&have.Policy); wrong != nil {
			return nil, invalidRequest.problem("") // said below
		}
		if err := revise.Judge(next); err != nil {
			return nil, policyConflict.problem("", client.FieldError{Code: schemas.ReasonBadValue, Detail: err.Error()})
		}
		return next, nil
	})
	switch {
	case p == nil:
		legacyAnswer(w, legacy.OK(done, made))
	case legacyFault(w, wrong):
	case errors.Is(wrong, legacy.ErrNotFound):
		legacyAnswer(w, legacy.Refused(http.StatusNotFound, legacy.MsgUnknownLimit))
	default:
		refuse(w, r, p)
	}
}
