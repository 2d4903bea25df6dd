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

// Coded judges an answer with a code of the provider's. Of one that is not known under
// a status of 5xx nothing is known but that the provider failed.
func (a *Answer) Coded(codes *provider.Codes, code string, now time.Time) provider.Outcome {
	o := codes.Outcome(code)
	if _, known := codes.Of(code); !known && a.Status >= http.StatusInternalServerError {
		bare := a.Bare(now)
		bare.Code = o.Code
		return bare
	}
	if o.Kind == provider.Throttled {
		o.RetryAfter = a.RetryAfter(now)
	}
	return o
}

// Uncoded judges by its status an answer of who's own, without a code that is known:
// here, unlike in Bare, a 4xx is a refusal of the message, but for one of who calls.
func (a *Answer) Uncoded(who string) provider.Outcome {
	status := strconv.Itoa(a.Status)
	o := provider.Outcome{Code: "http_" + status, Text: who + " answered " + status + " without a code that is known"}
	switch {
	case a.Status == http.StatusTooManyRequests:
		o.Kind = provider.Throttled
	case a.Status == http.StatusServiceUnavailable, Unauthorized(a.Status):
		o.Kind = provider.Transient
	case a.Status >= 400 && a.Status <= 499:
		o.Kind = provider.Permanent
	case a.Status >= 500:
		o.Kind, o.MayBeReceived = provider.Transient, true
	default:
		o.Kind, o.MayBeReceived = provider.Unknown, true
	}
	return o
}

// Unauthorized reports whether a status refuses who calls, and not what he asks for: the
// account, or a proxy's. 403 says either.
func Unauthorized(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusProxyAuthRequired
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
