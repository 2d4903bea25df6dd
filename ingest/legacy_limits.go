package ingest

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"

	"github.com/weirhq/weir/ingest/legacy"
	"github.com/weirhq/weir/processor/policy"
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
	// A caller who leaves does not leave an edit half made.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), s.editFor)
	defer cancel()
	_, err := s.editor.Revise(ctx, c.by(), revise.Tries, func(have *schemas.Revision) (next *schemas.Policy, err error) {
		next, made, err = edit(&have.Policy)
		return next, err
	}, nil)
	_, invalid := errors.AsType[schemas.PolicyErrors](err)
	switch {
	case err == nil:
		legacyAnswer(w, legacy.OK(done, made))
	case legacyFault(w, err):
	case errors.Is(err, legacy.ErrNotFound):
		legacyAnswer(w, legacy.Refused(http.StatusNotFound, legacy.MsgUnknownLimit))
	case errors.Is(err, policy.ErrConflict):
		legacyAnswer(w, legacy.Refused(http.StatusConflict, legacy.MsgOtherEdit))
	case invalid, errors.Is(err, revise.ErrRefused):
		s.logger.Warn("a rate limit cannot come into force", "error", err)
		legacyAnswer(w, legacy.Refused(http.StatusConflict, legacy.MsgRefusedByPolicy))
	default:
		s.logger.Warn("editing the policy failed", "error", err)
		refuse(w, r, after(kafkaUnavailable.problem("Whether the change is in force is not known: ask for it."), retryKafka))
	}
}
