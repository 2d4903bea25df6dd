package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/weirhq/weir/schemas"
)

// QuotaQuery says whose quota: what a message with these fields would meet.
type QuotaQuery struct {
	To       string
	Channel  schemas.Channel // email where To has an @, else sms, when empty
	Class    string          // the default class when empty
	Template string
	Provider string
	Metadata map[string]string
	Tenant   string // the caller's own when empty; another's with an operator's key
}

// Quota returns what the limits leave to a recipient.
func (c *Client) Quota(ctx context.Context, q QuotaQuery) (*Quota, error) {
	v := make(url.Values)
	set(v, "to", q.To)
	set(v, "channel", string(q.Channel))
	set(v, "class", q.Class)
	set(v, "template", q.Template)
	set(v, "provider", q.Provider)
	set(v, "tenant", q.Tenant)
	for name, value := range q.Metadata {
		v.Set("metadata."+name, value)
	}
	var a Quota
	if _, err := c.do(ctx, &call{method: http.MethodGet, path: "/v1/quota", query: v}, &a); err != nil {
		return nil, fmt.Errorf("get quota: %w", err)
	}
	return &a, nil
}

// StatsQuery chooses what is counted; what is empty chooses all, and times that
// are 0 the server's default.
type StatsQuery struct {
	From, Until schemas.Millis
	Channel     schemas.Channel
	Class       string
	Provider    string
	Tenant      string // the caller's own when empty; with an operator's key another's, or * for all

	By   []string // channel, class, provider, and one of minute, hour and day; by status it always is
	Days int      // the same span of so many days before, too

	Latency *bool // whether to say how long it took; nil is the server's default: where the span is short
}

// Stats counts what happened to the caller's messages.
func (c *Client) Stats(ctx context.Context, q StatsQuery) (*Stats, error) {
	v := make(url.Values)
	set(v, "from", q.From.String())
	set(v, "until", q.Until.String())
	set(v, "channel", string(q.Channel))
	set(v, "class", q.Class)
	set(v, "provider", q.Provider)
	set(v, "by", strings.Join(q.By, ","))
	set(v, "tenant", q.Tenant)
	setNumber(v, "days", q.Days)
	if q.Latency != nil {
		set(v, "latency", fmt.Sprint(*q.Latency))
	}
	var a Stats
	if _, err := c.do(ctx, &call{method: http.MethodGet, path: "/v1/stats", query: v}, &a); err != nil {
		return nil, fmt.Errorf("get stats: %w", err)
	}
	return &a, nil
}

// DeadLetterQuery chooses records of the dead letter queue; what is empty
// chooses all.
type DeadLetterQuery struct {
	Since, Until            schemas.Millis // of giving up
	Class, Provider, Reason string
	Tenant                  string // the caller's own when empty; another's with an operator's key
	Oldest                  bool   // first; else the newest
	Limit                   int
	Cursor                  string // of the page before, with the same query
}

// DeadLetters is a part of the dead letter queue. A page may be short, or
// empty, and not the last.
type DeadLetters struct {
	Entries []DeadLetter `json:"entries"`
	Cursor  string       `json:"cursor,omitempty"` // brings the next page; empty at the end
}

// DeadLetter is a message that Weir gave up on.
type DeadLetter struct {
	Position   string         `json:"position"` // PARTITION/OFFSET
	At         schemas.Millis `json:"at"`
	MessageID  string         `json:"message_id"`
	To         string         `json:"to,omitempty"` // masked
	Tenant     string         `json:"tenant,omitempty"`
	Channel    string         `json:"channel,omitempty"`
	Class      string         `json:"class,omitempty"`
	Template   string         `json:"template,omitempty"`
	Provider   string         `json:"provider,omitempty"`
	Reason     string         `json:"reason"`
	ErrorCode  string         `json:"error_code,omitempty"`
	Attempt    int            `json:"attempt,omitempty"` // how many were made
	AcceptedAt schemas.Millis `json:"accepted_at,omitzero"`
	Timestamp  schemas.Millis `json:"timestamp,omitzero"` // the producer's own
	Origin     string         `json:"origin,omitempty"`   // topic/partition/offset of the request
	RedriveOf  string         `json:"redrive_of,omitempty"`
	RedrivenAt schemas.Millis `json:"redriven_at,omitzero"` // when it was sent again
	Bytes      int            `json:"bytes"`
	Skip       string         `json:"skip,omitempty"` // why it cannot be sent again
}

// DeadLetters returns one page of what Weir gave up on.
func (c *Client) DeadLetters(ctx context.Context, q DeadLetterQuery) (*DeadLetters, error) {
	v := make(url.Values)
	set(v, "since", q.Since.String())
	set(v, "until", q.Until.String())
	set(v, "class", q.Class)
	set(v, "provider", q.Provider)
	set(v, "reason", q.Reason)
	set(v, "tenant", q.Tenant)
	set(v, "cursor", q.Cursor)
	setNumber(v, "limit", q.Limit)
	if q.Oldest {
		v.Set("order", "oldest")
	}
	var a DeadLetters
	if _, err := c.do(ctx, &call{method: http.MethodGet, path: "/v1/dlq", query: v}, &a); err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	return &a, nil
}

// RedriveRequest chooses what to send again. One without a filter needs All, unless it
// is a dry run.
type RedriveRequest struct {
	Since    schemas.Millis `json:"since,omitzero"`
	Until    schemas.Millis `json:"until,omitzero"`
	Class    string         `json:"class,omitempty"`
	Provider string         `json:"provider,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	IDs      []string       `json:"ids,omitempty"` // messages, or PARTITION/OFFSET; at most 60
	All      bool           `json:"all,omitempty"`
	Again    bool           `json:"again,omitempty"` // also what was sent again already
	Rate     float64        `json:"rate,omitempty"`  // messages a second
	DryRun   bool           `json:"dry_run,omitempty"`
	Cursor   string         `json:"cursor,omitempty"` // of the call before, with the same request; or a dry run's start
}

// Redriven is what one call sent again, or would.
type Redriven struct {
	Matched  int64            `json:"matched"`
	Redriven int64            `json:"redriven"`
	Skipped  map[string]int64 `json:"skipped"` // by why they are left out
	ByReason map[string]int64 `json:"by_reason"`
	// MayBeReceived is how many of the redriven may have been received: their recipients
	// may get them twice.
	MayBeReceived int64  `json:"may_be_received,omitempty"`
	DryRun        bool   `json:"dry_run"`
	Cursor        string `json:"cursor,omitempty"` // goes on; empty at the end
	// Start is of a dry run's first call: as Cursor of the same request without DryRun
	// it sends what the dry run counts, and nothing that was given up on since.
	Start string `json:"start,omitempty"`
}

// Redrive sends again what Weir gave up on, as new messages. A call does as
// much as fits in a few seconds; where there is more, Cursor goes on. Asking
// for the same again within a day sends nothing twice.
func (c *Client) Redrive(ctx context.Context, q RedriveRequest) (*Redriven, error) {
	body, err := encode(q)
	var a Redriven
	if err == nil {
		_, err = c.do(ctx, &call{method: http.MethodPost, path: "/v1/dlq/redrive", body: body, more: redriveTime}, &a)
	}
	if err != nil {
		return nil, fmt.Errorf("redrive dead letters: %w", err)
	}
	return &a, nil
}
