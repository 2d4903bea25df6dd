package client

import (
	"fmt"
	"strings"
	"time"
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

	// RetryAfter is what the Retry-After header says; 0 when it says nothing.
	RetryAfter time.Duration `json:"-"`
}

// FieldError is one thing wrong with a request. It never holds a value of it.
type FieldError struct {
	Pointer string `json:"pointer"` // RFC 6901 into the body; "" is all of it
	Code    string `json:"code"`    // a schemas.Reason… or recipient.Reason…
	Detail  string `json:"detail"`
}

// Error gives the problem with all its parts on one line.
func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s", p.Status, p.Title)
	if p.Detail != "" {
		b.WriteString(": " + p.Detail)
	}
	for _, e := range p.Errors {
		b.WriteString("; ")
		if e.Pointer != "" {
			b.WriteString(e.Pointer + ": ")
		}
		b.WriteString(e.Detail)
	}
	return b.String()
}
