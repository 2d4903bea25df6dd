package client

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/schemas"
)

// Problem is an answer that is no success: problem+json (RFC 9457). Code is
// stable and what programs branch on; Title and Detail are for people.
type Problem struct {
	Type     string       `json:"type"`
	Title    string       `json:"title"`
	Status   int          `json:"status"`
	Detail   string       `json:"detail,omitempty"`
	Instance string       `json:"instance,omitempty"`
	Code     string       `json:"code"`
	Errors   []FieldError `json:"errors,omitempty"`

	// Of a 429, and of a 422 of a message: its id, the state of the limits that
	// were asked, those that were full by their names in RateLimit-Policy ("verify
	// 1/60s"; draft-ietf-httpapi-ratelimit-headers-11), and when all of them would
	// pass: as a time, and in whole seconds from the answer, rounded up.
	ID                string         `json:"id,omitempty"`
	Limits            []LimitState   `json:"limits,omitempty"`
	ViolatedPolicies  []string       `json:"violated-policies,omitempty"`
	RetryAt           schemas.Millis `json:"retry_at,omitzero"`
	RetryAfterSeconds int64          `json:"retryAfter,omitempty"`

	// Current is the version in force, in a 412.
	Current *Resource[json.RawMessage] `json:"current,omitempty"`

	// RetryAfter is what the Retry-After header says; 0 when it says nothing.
	RetryAfter time.Duration `json:"-"`
}

// The types of the two kinds of 429, and their codes. After the first the
// message has ended: to send it again is another message. The second says that
// the request was not looked at.
const (
	TypeQuotaExceeded = "https://github.com/weirhq/weir/problems/quota-exceeded" // a recipient's limit, or a wider one
	TypeClientRate    = "https://github.com/weirhq/weir/problems/client-rate"    // the caller's own pace
	CodeQuotaExceeded = "quota_exceeded"
	CodeClientRate    = "client_rate"
)

// FieldError is one thing wrong with a request. It never holds a value of it.
type FieldError struct {
	Pointer string `json:"pointer"` // RFC 6901 into the body; "" is all of it
	Code    string `json:"code"`    // a schemas.Reason… or recipient.Reason…
	Detail  string `json:"detail"`
}

// Error gives the problem with all its parts on one line.
func (p *Problem) Error() string {
	text := fmt.Sprintf("%d %s", p.Status, p.Title)
	if p.Detail != "" {
		text += ": " + p.Detail
	}
	for _, e := range p.Errors {
		text = strings.TrimSuffix(text, ".") + "; "
		if e.Pointer != "" {
			text += e.Pointer + ": "
		}
		text += e.Detail
	}
	return text
}
