package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/weirhq/weir/schemas"
)

// Suppression is what a recipient is not sent: messages that have each field it
// gives.
type Suppression struct {
	To        string         `json:"to"`               // canonical
	Tenant    string         `json:"tenant,omitempty"` // empty: every tenant's, which only operators make and lift
	Channel   string         `json:"channel,omitempty"`
	Class     string         `json:"class,omitempty"`
	At        schemas.Millis `json:"at"`                  // when it was made or changed last
	ExpiresAt schemas.Millis `json:"expires_at,omitzero"` // from then on it covers nothing; 0: until it is lifted
	Reason    string         `json:"reason,omitempty"`
	Provider  string         `json:"provider,omitempty"` // whose answer or receipt it came of; api:KEY over HTTP
}

// SuppressionPage is a part of a list of suppressions, in the order of recipients.
type SuppressionPage struct {
	Suppressions []Suppression `json:"suppressions"`
	NextCursor   string        `json:"next_cursor,omitempty"` // brings the next page; empty at the end
}

// SuppressionQuery chooses suppressions; what is empty chooses all. With To the
// answer is exact, and has what is suppressed for every tenant too.
type SuppressionQuery struct {
	To      string
	Channel schemas.Channel // those that name this channel
	Class   string
	Reason  string
	Tenant  string // the caller's own when empty; an operator may list another's
	Limit   int
	Cursor  string // of the page before, with the same query
}

// Suppressions returns what is suppressed of one recipient, or a page of all that is.
func (c *Client) Suppressions(ctx context.Context, q SuppressionQuery) (*SuppressionPage, error) {
	v := make(url.Values)
	set(v, "to", q.To)
	set(v, "channel", string(q.Channel))
	set(v, "class", q.Class)
	set(v, "reason", q.Reason)
	set(v, "tenant", q.Tenant)
	set(v, "cursor", q.Cursor)
	setNumber(v, "limit", q.Limit)
	var a SuppressionPage
	if _, err := c.do(ctx, &call{method: http.MethodGet, path: "/v1/suppressions", query: v}, &a); err != nil {
		return nil, fmt.Errorf("list suppressions: %w", err)
	}
	return &a, nil
}

// SuppressRequest asks not to send to a recipient any more.
type SuppressRequest struct {
	To        string          `json:"to"`
	Tenant    string          `json:"tenant,omitempty"`  // the caller's own; another's is refused
	Channel   schemas.Channel `json:"channel,omitempty"` // empty: on any
	Class     string          `json:"class,omitempty"`   // empty: of any
	ExpiresAt schemas.Millis  `json:"expires_at,omitzero"`
	Reason    string          `json:"reason,omitempty"` // at most 64 characters
}

// SuppressionDone is what came of a change. Outcome is suppress or unsuppress where
// it changed something, repeated or not_suppressed where all was so already, and
// empty where nothing was decided in the time.
type SuppressionDone struct {
	To        string         `json:"to"` // canonical
	Channel   string         `json:"channel,omitempty"`
	Class     string         `json:"class,omitempty"`
	ExpiresAt schemas.Millis `json:"expires_at,omitzero"`
	Reason    string         `json:"reason,omitempty"`
	Status    schemas.Status `json:"status"`
	Outcome   string         `json:"outcome,omitempty"`
}

// Suppress suppresses a recipient, or says anew until when and why. It waits a little
// for the decision. To do it twice is as good as once.
func (c *Client) Suppress(ctx context.Context, q SuppressRequest) (*SuppressionDone, error) {
	body, err := encode(q)
	var a SuppressionDone
	if err == nil {
		_, err = c.do(ctx, &call{method: http.MethodPut, path: "/v1/suppressions", body: body}, &a)
	}
	if err != nil {
		return nil, fmt.Errorf("suppress: %w", err)
	}
	return &a, nil
}

// Unsuppress lifts the suppression of exactly this scope: To, and Channel and Class
// as it names them.
func (c *Client) Unsuppress(ctx context.Context, q SuppressionQuery) (*SuppressionDone, error) {
	v := make(url.Values)
	set(v, "to", q.To)
	set(v, "channel", string(q.Channel))
	set(v, "class", q.Class)
	set(v, "tenant", q.Tenant)
	var a SuppressionDone
	if _, err := c.do(ctx, &call{method: http.MethodDelete, path: "/v1/suppressions", query: v}, &a); err != nil {
		return nil, fmt.Errorf("lift a suppression: %w", err)
	}
	return &a, nil
}

// MaxImport is how many rows one import has at most.
const MaxImport = 10_000

// Imported is what came of an import.
type Imported struct {
	Accepted int            `json:"accepted"`
	Refused  int            `json:"refused"`
	DryRun   bool           `json:"dry_run"`
	Results  []ImportResult `json:"results"` // of each row, in their order
}

// ImportResult is what came of one row: a Status, which is accepted, or valid in a dry
// run; or an Error.
type ImportResult struct {
	Line   int      `json:"line"` // of the body, where the row begins, from 1; 0 is the rest, which was not read
	Status string   `json:"status,omitempty"`
	Error  *Problem `json:"error,omitempty"`
}

// ImportSuppressions takes in at most MaxImport suppressions as CSV, whose first row
// names its columns: to, and any of channel, class, expires_at and reason. A dry run
// judges the rows and writes nothing. To import the same again changes nothing.
func (c *Client) ImportSuppressions(ctx context.Context, csv []byte, dryRun bool) (*Imported, error) {
	v := make(url.Values)
	if dryRun {
		v.Set("dry_run", "true")
	}
	var a Imported
	if _, err := c.do(ctx, &call{method: http.MethodPost, path: "/v1/suppressions/import", query: v, body: csv, more: importTime, header: http.Header{"Content-Type": {"text/csv"}}}, &a); err != nil {
		return nil, fmt.Errorf("import suppressions: %w", err)
	}
	return &a, nil
}

// importTime is what an import may take beyond another call.
const importTime = redriveTime
