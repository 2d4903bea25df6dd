package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/revise"
	"github.com/weirhq/weir/schemas"
)

// resourceRoutes are the routes of every kind of the policy's entries: alike
// for all. A tenant's key sees and changes its tenant's.
func (s *Server) resourceRoutes() []route {
	var out []route
	for _, k := range schemas.ResourceKinds {
		all := "/v1/" + k.Plural()
		scope := scopePolicy
		if k == schemas.ResourceKey {
			scope = scopeKeys
		}
		out = append(out,
			route{http.MethodGet, all, scope, paceQuery, s.listResources(k)},
			route{http.MethodGet, all + "/{name}", scope, paceQuery, s.getResource(k)},
			route{http.MethodPut, all + "/{name}", scope, paceWrite, s.putResource(k)},
			route{http.MethodDelete, all + "/{name}", scope, paceWrite, s.deleteResource(k)},
		)
	}
	return append(out,
		route{http.MethodPost, "/v1/keys/{name}/rotate", scopeKeys, paceWrite, s.rotateKey},
		route{http.MethodGet, "/v1/revisions", scopePolicy, paceQuery, operators(s.listRevisions)},
		route{http.MethodGet, "/v1/revisions/{revision}", scopePolicy, paceQuery, operators(s.getRevision)},
		route{http.MethodPost, "/v1/revisions/{revision}/rollback", scopePolicy, paceWrite, operators(s.postRollback)},
	)
}

func (s *Server) listResources(k schemas.ResourceKind) handler {
	return func(w http.ResponseWriter, r *http.Request, c *caller) {
		if p := noParameters(r); p != nil {
			refuse(w, r, p)
			return
		}
		in := s.policy.Latest()
		list := client.ResourceList[json.RawMessage]{Revision: in.Revision, Items: []client.RawResource{}}
		for _, v := range in.Policy.Resources(k) {
			if c.share(&in.Policy, k, v.Name) != hidden {
				list.Items = append(list.Items, shown(in.Revision, v))
			}
		}
		answer(w, http.StatusOK, "application/json", list)
	}
}

func (s *Server) getResource(k schemas.ResourceKind) handler {
	return func(w http.ResponseWriter, r *http.Request, c *caller) {
		if p := noParameters(r); p != nil {
			refuse(w, r, p)
			return
		}
		in := s.policy.Latest()
		name := chi.URLParam(r, "name")
		v, ok := in.Policy.Resource(k, name)
		if !ok || c.share(&in.Policy, k, name) == hidden {
			refuse(w, r, noResource(k))
			return
		}
		now := shown(in.Revision, v)
		if matchesNone(r.Header, now.ETag) {
			answerResource(w, http.StatusOK, now)
			return
		}
		w.Header().Set("ETag", now.ETag)
		w.WriteHeader(http.StatusNotModified)
	}
}

// matchesNone judges If-None-Match of a GET (RFC 9110, 13.1.2): whether the caller
// lacks what has this tag. Whether a tag is weak makes no difference here.
func matchesNone(h http.Header, tag string) bool {
	for _, v := range h.Values("If-None-Match") {
		for t := range strings.SplitSeq(v, ",") {
			if t = strings.TrimSpace(t); t == "*" || strings.TrimPrefix(t, "W/") == tag {
				return false
			}
		}
	}
	return true
}

func (s *Server) putResource(k schemas.ResourceKind) handler {
	return func(w http.ResponseWriter, r *http.Request, c *caller) {
		o, p := editOptions(r, k, "dry_run", "before", "force", "accept_loss")
		if p != nil {
			refuse(w, r, p)
			return
		}
		body, p := readBody(w, r)
		if p != nil {
			refuse(w, r, p)
			return
		}
		name := chi.URLParam(r, "name")
		var secret string
		var made bool
		res, p := s.edit(r, c, o, func(have *schemas.Revision) (*schemas.Policy, error) {
			was, there := have.Policy.Resource(k, name)
			made = !there
			if there && c.share(&have.Policy, k, name) == hidden {
				return nil, forbiddenTenant.problem("The name is in use, and the entry is not of the key's tenant. Nothing was changed.")
			}
			if p := s.since(o.holds(have.Revision, was, there), &o, have, name); p != nil {
				return nil, p
			}
			put, err := have.Policy.WithResource(k, name, body, o.before)
			if err == nil && k == schemas.ResourceKey {
				secret, err = completeKey(put, &have.Policy, schemas.MillisOf(time.Now()))
			}
			if err == nil {
				err = put.Check()
			}
			if err == nil && k == schemas.ResourceTenant {
				err = s.callable(put, &have.Policy)
			}
			if err == nil {
				err = revise.Decidable(put.Policy)
			}
			if err == nil && s.providers != nil {
				err = s.providers(put.Policy)
			}
			if err != nil {
				return nil, invalidResource(put, err)
			}
			return put.Policy, nil
		})
		if p != nil {
			refuse(w, r, p)
			return
		}
		v, _ := res.Next.Resource(k, name)
		out := shown(res.Now.Revision, v)
		status := http.StatusOK
		switch {
		case o.dryRun:
			out.Topics = topicsOf(res)
		case made:
			status = http.StatusCreated
			w.Header().Set("Location", r.URL.EscapedPath())
			out.Secret = secret
		}
		report(&out, res, o.dryRun)
		answerResource(w, status, out)
	}
}

// callable refuses a tenant with a new address for its callbacks that they never reach.
func (s *Server) callable(put *schemas.Edited, have *schemas.Policy) error {
	tenant := &put.Policy.Tenants[put.Item]
	was, _ := have.Tenant(tenant.Name)
	if tenant.Callback == nil || was.Callback != nil && was.Callback.URL == tenant.Callback.URL || s.callbacks.JudgeURL(tenant.Callback.URL) == nil {
		return nil
	}
	return schemas.PolicyErrors{{Path: put.Path() + ".callback.url", Message: privateURL}}
}

func (s *Server) deleteResource(k schemas.ResourceKind) handler {
	return func(w http.ResponseWriter, r *http.Request, c *caller) {
		o, p := editOptions(r, k, "dry_run", "force")
		if p != nil {
			refuse(w, r, p)
			return
		}
		name := chi.URLParam(r, "name")
		res, p := s.edit(r, c, o, func(have *schemas.Revision) (*schemas.Policy, error) {
			was, there := have.Policy.Resource(k, name)
			if !there || c.share(&have.Policy, k, name) == hidden {
				return nil, noResource(k)
			}
			if p := s.since(o.holds(have.Revision, was, true), &o, have, name); p != nil {
				return nil, p
			}
			next, _, err := revise.Without(&have.Policy, k, name)
			if err != nil {
				return nil, conflicting("Others refer to it, as errors lists: change those first.", err)
			}
			return next, nil
		})
		switch {
		case p != nil:
			refuse(w, r, p)
		case o.dryRun:
			rep := res.Report(true, time.Now())
			answer(w, http.StatusOK, "application/json", client.Removal{Revision: rep.Revision, DryRun: true, Changes: rep.Changes, Unroutable: rep.Unroutable})
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}
}

func shown(revision int64, v schemas.Resource) client.RawResource {
	return client.RawResource{ETag: `"` + v.Tag + `"`, Revision: revision, Value: v.Value}
}

func answerResource(w http.ResponseWriter, status int, v client.RawResource) {
	w.Header().Set("ETag", v.ETag)
	answer(w, status, "application/json", v)
}

// report adds what an edit changed.
func report(out *client.RawResource, res *revise.Result, dryRun bool) {
	rep := res.Report(dryRun, time.Now())
	out.DryRun, out.Changes, out.Unroutable = dryRun, rep.Changes, rep.Unroutable
	out.Warming, out.Lost = historyOf(rep)
}

// historyOf is which windows begin to count with an edit, and what limits lose by it.
func historyOf(rep *revise.Report) (begins []client.Warming, lost []client.Loss) {
	for _, v := range rep.Warming {
		begins = append(begins, client.Warming(v))
	}
	for _, v := range rep.Lost {
		lost = append(lost, client.Loss(v))
	}
	return begins, lost
}

// topicsOf names the topics that an edit needs made or altered.
func topicsOf(res *revise.Result) []string {
	names := make(map[string]bool)
	for _, t := range res.Topics.Create {
		names[t.Name] = true
	}
	for _, t := range res.Topics.Grow {
		names[t.Topic] = true
	}
	for _, t := range res.Topics.Alter {
		names[t.Topic] = true
	}
	return slices.Sorted(maps.Keys(names))
}

func noResource(k schemas.ResourceKind) *client.Problem {
	return unknownResource.problem("There is no " + string(k) + " of this name. GET /v1/" + k.Plural() + " lists them.")
}

// options are what an edit is asked with beside its body.
type options struct {
	kind   schemas.ResourceKind
	match  []string // of If-Match: entity tags with their quotes, or *; nil when there is none
	fresh  bool     // If-None-Match: *
	dryRun bool
	force  bool
	loss   bool // limits may lose history
	before string
}

// editOptions reads the conditions and the query's parameters, of which allowed
// are known; before only where the order means something, force and accept_loss
// only where there is something to force or to lose.
func editOptions(r *http.Request, k schemas.ResourceKind, allowed ...string) (options, *client.Problem) {
	o := options{kind: k}
	if k != schemas.ResourceLimit && k != schemas.ResourceRoute {
		allowed = slices.DeleteFunc(allowed, func(a string) bool { return a == "before" })
	}
	if k != schemas.ResourceLimit {
		allowed = slices.DeleteFunc(allowed, func(a string) bool { return a == "accept_loss" })
	}
	if k != schemas.ResourceKey {
		allowed = slices.DeleteFunc(allowed, func(a string) bool { return a == "force" })
	}
	query, p := parameters(r, allowed...)
	if p != nil {
		return o, p
	}
	for name, into := range map[string]*bool{"dry_run": &o.dryRun, "force": &o.force, "accept_loss": &o.loss} {
		if !query.Has(name) {
			continue
		}
		var err error
		if *into, err = strconv.ParseBool(query.Get(name)); err != nil {
			return o, badParameter(name, "is true or false")
		}
	}
	o.before = query.Get("before")
	if query.Has("before") && o.before == "" {
		return o, badParameter("before", "names the one that it is to stand before")
	}
	for _, v := range r.Header.Values("If-Match") {
		for tag := range strings.SplitSeq(v, ",") {
			o.match = append(o.match, strings.TrimSpace(tag))
		}
	}
	if none := r.Header.Values("If-None-Match"); len(none) > 0 {
		if o.fresh = len(none) == 1 && none[0] == "*"; !o.fresh {
			return o, invalidRequest.problem("If-None-Match takes * here, which asks that there be none of the name.")
		}
	}
	return o, nil
}

// holds judges the conditions on what is in force (RFC 9110, 13.1). A weak tag
// matches nothing.
func (o *options) holds(revision int64, was schemas.Resource, there bool) *client.Problem {
	current := shown(revision, was)
	switch {
	case o.fresh && there:
		p := preconditionFailed.problem("There is one of the name, as current shows it.")
		p.Current = &current
		return p
	case o.match == nil:
		return nil
	case !there:
		return preconditionFailed.problem("There is none of the name any more, or there never was one.")
	case slices.Contains(o.match, "*") || slices.Contains(o.match, current.ETag):
		return nil
	}
	p := preconditionFailed.problem("It was changed meanwhile, to what current shows. Make the change to that, and send its ETag.")
	p.Current = &current
	return p
}

// edited bounds how many revisions back the version that a caller edited is looked for.
const edited = 1000

// since adds to a failed If-Match what was changed of the entry since the version that the caller edited.
func (s *Server) since(p *client.Problem, o *options, have *schemas.Revision, name string) *client.Problem {
	if p == nil || p.Current == nil || o.fresh {
		return p
	}
	now, cancel := context.WithCancel(context.Background())
	cancel() // a revision that was skipped is not waited for
	for n := have.Revision - 1; n > max(0, have.Revision-edited); n-- {
		old, err := s.editor.Policy.Get(now, n)
		if err != nil {
			continue
		}
		was, there := old.Policy.Resource(o.kind, name)
		if !there || !slices.Contains(o.match, shown(n, was).ETag) {
			continue
		}
		p.Detail = fmt.Sprintf("You edited revision %d, and revision %d is in force: errors lists what was changed of it. Make the change to what current shows, and send its ETag.", n, have.Revision)
		for _, c := range schemas.DiffPolicy(old.Policy.Only(o.kind, name), have.Policy.Only(o.kind, name)) {
			p.Errors = append(p.Errors, client.FieldError{Code: "changed", Detail: c.String()})
		}
		return p
	}
	return p
}

// parameters reads a query of which all parameters are known and given once.
func parameters(r *http.Request, allowed ...string) (url.Values, *client.Problem) {
	query := make(url.Values)
	wrong, p := readQuery(r, func(name, value string) error {
		if !slices.Contains(allowed, name) {
			return errUnknownField
		}
		query.Set(name, value)
		return nil
	})
	if p == nil {
		p = invalidParameters(wrong)
	}
	return query, p
}

func noParameters(r *http.Request) *client.Problem {
	_, p := parameters(r)
	return p
}

func badParameter(name, what string) *client.Problem {
	return invalidParameters([]client.FieldError{wrongParameter(name, errors.New(what))})
}

// invalidResource makes a problem of what is wrong with an entry: 400 with
// pointers into the body; 409 if all of it is what others need of it.
func invalidResource(put *schemas.Edited, err error) error {
	errs, ok := errors.AsType[schemas.PolicyErrors](err)
	if !ok {
		return err
	}
	var own []client.FieldError
	for _, e := range errs {
		if pointer, ok := put.Within(e.Path); ok {
			own = append(own, client.FieldError{Pointer: pointer, Code: e.Code(), Detail: e.Message})
		} else if e.Path == "" {
			own = append(own, client.FieldError{Code: "bad_parameter", Detail: e.Message})
		}
	}
	if len(own) == 0 {
		return conflicting("Others need it otherwise, as errors lists.", errs.Named(put.Policy))
	}
	return invalidRequest.problem("errors lists what is wrong. Nothing was changed.", own[:min(len(own), maxErrors)]...)
}

// maxErrors bounds what one answer lists.
const maxErrors = 32

func conflicting(detail string, err error) error {
	errs, ok := errors.AsType[schemas.PolicyErrors](err)
	if !ok {
		return err
	}
	var out []client.FieldError
	for _, e := range errs[:min(len(errs), maxErrors)] {
		out = append(out, client.FieldError{Code: e.Code(), Detail: e.Error()})
	}
	return policyConflict.problem(detail+" Nothing was changed.", out...)
}
