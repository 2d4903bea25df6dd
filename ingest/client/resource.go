package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/weirhq/weir/schemas"
)

// Resources is one kind of the policy's entries. They need a key of scope
// policy, keys one of scope keys. A change is in force within a second.
type Resources[T any] struct {
	c    *Client
	kind schemas.ResourceKind
}

// The kinds of resources.
func (c *Client) Limits() Resources[schemas.Limit] {
	return Resources[schemas.Limit]{c, schemas.ResourceLimit}
}
func (c *Client) Providers() Resources[schemas.Provider] {
	return Resources[schemas.Provider]{c, schemas.ResourceProvider}
}
func (c *Client) Routes() Resources[schemas.Route] {
	return Resources[schemas.Route]{c, schemas.ResourceRoute}
}
func (c *Client) Templates() Resources[schemas.Template] {
	return Resources[schemas.Template]{c, schemas.ResourceTemplate}
}
func (c *Client) Classes() Resources[schemas.Class] {
	return Resources[schemas.Class]{c, schemas.ResourceClass}
}
func (c *Client) Tenants() Resources[schemas.Tenant] {
	return Resources[schemas.Tenant]{c, schemas.ResourceTenant}
}
func (c *Client) Keys() Resources[schemas.Key] {
	return Resources[schemas.Key]{c, schemas.ResourceKey}
}
func (c *Client) Alerts() Resources[schemas.Alert] {
	return Resources[schemas.Alert]{c, schemas.ResourceAlert}
}

func (c *Client) Inputs() Resources[schemas.Input] {
	return Resources[schemas.Input]{c, schemas.ResourceInput}
}

func (r Resources[T]) path(name string) string {
	p := "/v1/" + r.kind.Plural()
	if name != "" {
		p += "/" + url.PathEscape(name)
	}
	return p
}

// List returns all of the kind.
func (r Resources[T]) List(ctx context.Context) (*ResourceList[T], error) {
	var a ResourceList[T]
	if _, err := r.c.do(ctx, &call{method: http.MethodGet, path: r.path("")}, &a); err != nil {
		return nil, fmt.Errorf("list %s: %w", r.kind.Plural(), err)
	}
	return &a, nil
}

// Get returns the one with the name; a *Problem with status 404 when there is
// none.
func (r Resources[T]) Get(ctx context.Context, name string) (*Resource[T], error) {
	var a Resource[T]
	header, err := r.c.do(ctx, &call{method: http.MethodGet, path: r.path(name)}, &a)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", r.kind, err)
	}
	if a.ETag == "" {
		a.ETag = header.Get("ETag")
	}
	return &a, nil
}

// Change says on what condition, and whether at all.
type Change struct {
	IfMatch string // the ETag that was read: another version is a *Problem with status 412 and Current
	IfNone  bool   // only where none has the name, else 412
	DryRun  bool   // say what would change
	Before  string // of a limit or a route: the one of its kind that it is to stand before; as it stands, or last, when empty
	Loss    bool   // of a limit: though limits lose history by it
	Force   bool   // of a key: even where it is the last that may change the policy
}

func (o Change) header() http.Header {
	h := make(http.Header)
	if o.IfMatch != "" {
		h.Set("If-Match", o.IfMatch)
	}
	if o.IfNone {
		h.Set("If-None-Match", "*")
	}
	return h
}

func (o Change) query() url.Values {
	v := make(url.Values)
	if o.DryRun {
		v.Set("dry_run", "true")
	}
	if o.Loss {
		v.Set("accept_loss", "true")
	}
	if o.Force {
		v.Set("force", "true")
	}
	set(v, "before", o.Before)
	return v
}

// conditional reports whether the change, made once, fails when it is made
// again.
func (o Change) conditional() bool { return (o.IfMatch != "" || o.IfNone) && !o.DryRun }

// Put makes or replaces the one with the name, whole; the value may lack it. With a condition it is not
// repeated where it may have been made; nor is it for keys, whose secret is
// shown once.
func (r Resources[T]) Put(ctx context.Context, name string, value T, o Change) (*Resource[T], error) {
	body, err := unnamed(value)
	var a Resource[T]
	if err == nil {
		_, err = r.c.do(ctx, &call{
			method: http.MethodPut, path: r.path(name), query: o.query(), header: o.header(), body: body,
			once: o.conditional() || r.kind == schemas.ResourceKey && !o.DryRun,
		}, &a)
	}
	if err != nil {
		return nil, fmt.Errorf("put %s: %w", r.kind, err)
	}
	return &a, nil
}

// unnamed writes a resource, without its name where that is empty: the path has
// it.
func unnamed(value any) ([]byte, error) {
	body, err := encode(value)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, fmt.Errorf("write the body: %w", err)
	}
	for _, name := range []string{"name", "topic"} { // an input's name is its topic
		if string(fields[name]) == `""` {
			delete(fields, name)
			return encode(fields)
		}
	}
	return body, nil
}

// Delete removes the one with the name; a *Problem with status 404 when there
// is none, and with 409 or 400 when others refer to it.
func (r Resources[T]) Delete(ctx context.Context, name string, o Change) error {
	q := &call{method: http.MethodDelete, path: r.path(name), query: o.query(), header: o.header(), once: o.conditional()}
	_, err := r.c.do(ctx, q, nil)
	if p, ok := errors.AsType[*Problem](err); ok && p.Status == http.StatusNotFound && q.unsure {
		return nil // an earlier try has done it
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", r.kind, err)
	}
	return nil
}

// RotateKey gives a key a new secret, which is in the answer and nowhere else;
// the old one is good for the given time on. It is not repeated where it may
// have been done: a second rotation ends the first one's secret.
func (c *Client) RotateKey(ctx context.Context, name string, overlap time.Duration) (*Resource[schemas.Key], error) {
	body, err := encode(map[string]schemas.Duration{"overlap": schemas.Duration(overlap)})
	var a Resource[schemas.Key]
	if err == nil {
		_, err = c.do(ctx, &call{method: http.MethodPost, path: c.Keys().path(name) + "/rotate", body: body, once: true}, &a)
	}
	if err != nil {
		return nil, fmt.Errorf("rotate key: %w", err)
	}
	return &a, nil
}

// Revisions returns one page of the policy's history, the newest first; limit 0
// is the server's default.
func (c *Client) Revisions(ctx context.Context, cursor string, limit int) (*RevisionPage, error) {
	v := make(url.Values)
	set(v, "cursor", cursor)
	setNumber(v, "limit", limit)
	var a RevisionPage
	if _, err := c.do(ctx, &call{method: http.MethodGet, path: "/v1/revisions", query: v}, &a); err != nil {
		return nil, fmt.Errorf("list revisions: %w", err)
	}
	return &a, nil
}

// Revision returns the whole policy as it was in one revision.
func (c *Client) Revision(ctx context.Context, number int64) (*PolicyRevision, error) {
	var a PolicyRevision
	if _, err := c.do(ctx, &call{method: http.MethodGet, path: fmt.Sprint("/v1/revisions/", number)}, &a); err != nil {
		return nil, fmt.Errorf("get revision: %w", err)
	}
	return &a, nil
}

// Rollback brings back limits, classes, providers, routes and templates as a revision has
// them; of o, DryRun and Loss count. A *Problem with status 409 says that they do
// not fit the tenants, keys, alerts and inputs of today.
func (c *Client) Rollback(ctx context.Context, number int64, o Change) (*Rollback, error) {
	var a Rollback
	if _, err := c.do(ctx, &call{method: http.MethodPost, path: fmt.Sprintf("/v1/revisions/%d/rollback", number), query: o.query()}, &a); err != nil {
		return nil, fmt.Errorf("roll the policy back: %w", err)
	}
	return &a, nil
}

// encode writes a body. It never fails for a body that could be sent.
func encode(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write the body: %w", err)
	}
	return body, nil
}
