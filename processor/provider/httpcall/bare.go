package httpcall

import (
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/retry"
)

// Bare judges by its status an answer that is not the provider's or broke off, where
// the provider always says with a code of its own why it refuses. Who refuses without
// one stands in between, such as a proxy or a gateway: that is no reason to give a
// message up.
func (a *Answer) Bare(now time.Time) provider.Outcome {
	status := strconv.Itoa(a.Status)
	o := provider.Outcome{Kind: provider.Transient, Code: "http_" + status, Text: "an answer without a code of the provider's, status " + status}
	switch {
	case a.Status >= 200 && a.Status <= 299:
		return provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "unreadable_answer", Text: "the answer is not one of the provider's"}
	case a.Status == http.StatusTooManyRequests:
		o.Kind, o.RetryAfter = provider.Throttled, a.RetryAfter(now)
	case a.Status < 400, a.Status >= 500 && a.Status != http.StatusServiceUnavailable:
		o.MayBeReceived = true
	}
	return o
}

// RetryAfter is how long the answer's Retry-After asks to wait; 0 without one.
func (a *Answer) RetryAfter(now time.Time) time.Duration {
	wait, _ := retry.After(a.Header.Get("Retry-After"), now)
	return wait
}

const maxID = 128 // bytes of a provider's id; none has been seen with more than 60

// ID is a provider's id of a message, and empty where text is none: too long, or with
// spaces or what is not printed in it.
func ID(text string) string {
	if len(text) > maxID || strings.ContainsFunc(text, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) || r == ' ' }) {
		return ""
	}
	return text
}
