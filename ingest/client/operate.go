package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/weirhq/weir/schemas"
)

// ErrorsQuery chooses what is counted; what is empty chooses all, and times that
// are 0 the server's default, the last day.
type ErrorsQuery struct {
	From, Until schemas.Millis
	Provider    string
	Class       string
	Tenant      string // as in StatsQuery
}

// Errors counts what providers answered the caller's messages.
func (c *Client) Errors(ctx context.Context, q ErrorsQuery) (*Errors, error) {
	v := make(url.Values)
	set(v, "from", q.From.String())
	set(v, "until", q.Until.String())
	set(v, "provider", q.Provider)
	set(v, "class", q.Class)
	set(v, "tenant", q.Tenant)
	var a Errors
	if _, err := c.do(ctx, &call{method: http.MethodGet, path: "/v1/stats/errors", query: v}, &a); err != nil {
		return nil, fmt.Errorf("get errors: %w", err)
	}
	return &a, nil
}

// RefusedQuery chooses what is counted, as ErrorsQuery does.
type RefusedQuery struct {
	From, Until schemas.Millis
	Class       string
	Tenant      string // as in StatsQuery
	Limit       int    // recipients; 0 is the server's default
}

// Refused tells whom limits refused most.
func (c *Client) Refused(ctx context.Context, q RefusedQuery) (*Refused, error) {
	v := make(url.Values)
	set(v, "from", q.From.String())
	set(v, "until", q.Until.String())
	set(v, "class", q.Class)
	set(v, "tenant", q.Tenant)
	setNumber(v, "limit", q.Limit)
	var a Refused
	if _, err := c.do(ctx, &call{method: http.MethodGet, path: "/v1/stats/recipients", query: v}, &a); err != nil {
		return nil, fmt.Errorf("get refused recipients: %w", err)
	}
	return &a, nil
}

// ProvidersHealth tells how providers are. It needs a key of the tenant
// default with scope operate, as do Proof, Delays and Backlog; TryLimits needs scope policy.
func (c *Client) ProvidersHealth(ctx context.Context) (*ProvidersHealth, error) {
	var a ProvidersHealth
	if _, err := c.do(ctx, &call{method: http.MethodGet, path: "/v1/health"}, &a); err != nil {
		return nil, fmt.Errorf("get health: %w", err)
	}
	return &a, nil
}

// Proof returns what the last audit and each sink said of their work.
func (c *Client) Proof(ctx context.Context) (*Proof, error) {
	var a Proof
	if _, err := c.do(ctx, &call{method: http.MethodGet, path: "/v1/proof"}, &a); err != nil {
		return nil, fmt.Errorf("get proof: %w", err)
	}
	return &a, nil
}

// Delays returns what waits.
func (c *Client) Delays(ctx context.Context) (*Delays, error) {
	var a Delays
	if _, err := c.do(ctx, &call{method: http.MethodGet, path: "/v1/delays"}, &a); err != nil {
		return nil, fmt.Errorf("get delays: %w", err)
	}
	return &a, nil
}

// Backlog returns what waits to be worked on.
func (c *Client) Backlog(ctx context.Context) (*Backlog, error) {
	var a Backlog
	if _, err := c.do(ctx, &call{method: http.MethodGet, path: "/v1/backlog"}, &a); err != nil {
		return nil, fmt.Errorf("get backlog: %w", err)
	}
	return &a, nil
}

// tryTime is how long the server takes at most to try limits.
const tryTime = 2 * time.Minute

// TryLimits says what limits would have done to recorded traffic. It changes
// nothing, and takes up to two minutes.
func (c *Client) TryLimits(ctx context.Context, q LimitTry) (*Backtest, error) {
	body, err := encode(q)
	var a Backtest
	if err == nil {
		_, err = c.do(ctx, &call{method: http.MethodPost, path: "/v1/limits/try", body: body, more: tryTime}, &a)
	}
	if err != nil {
		return nil, fmt.Errorf("try limits: %w", err)
	}
	return &a, nil
}
