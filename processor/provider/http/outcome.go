package http

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/retry"
)

// kindOf returns what a status means without a map:
//
//	2xx          accepted
//	408, 425     transient: by RFC 9110 and RFC 8470 the request was not taken;
//	             servers send 408 also to a connection that they find idle
//	429          throttled
//	other 4xx    permanent
//	5xx          transient
//	1xx, 3xx     transient: redirects are not followed
func kindOf(status int) provider.Kind {
	switch {
	case status >= 200 && status <= 299:
		return provider.Accepted
	case status == http.StatusTooManyRequests:
		return provider.Throttled
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly:
		return provider.Transient
	case status >= 400 && status <= 499:
		return provider.Permanent
	}
	return provider.Transient
}

// mayBeReceived says whether a call that failed with this status may have
// reached the recipient. 4xx and 503 say that the request was not taken. A 302
// or 303 to a POST often means that it was done.
func mayBeReceived(status int) bool {
	return status < 400 || status >= 500 && status != http.StatusServiceUnavailable
}

// codeForm keeps what an answer calls its code from carrying a recipient or a
// sentence into status events.
var codeForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$|^-?[0-9]{1,6}$`)

const maxID = 256 // bytes of a provider's message id

// decide maps an answer to its outcome. An empty body, or one that is not JSON,
// says nothing. sent reports whether a code repeats what was sent; it then
// stays out of the outcome.
func (m statusMap) decide(in answerAt, status int, header http.Header, body []byte, now time.Time, sent func(code string) bool) provider.Outcome {
	r, value := m.lookup(status, body)
	o := provider.Outcome{Kind: r.kind}
	if r.kind == provider.Accepted {
		if id := in.id.in(body); len(id) <= maxID && printable(id) {
			o.ProviderMessageID = id
		}
		return o
	}
	of, said := r.ofOne(body)
	o.OfRecipient, o.OfProvider = said && of, said && !of && r.kind == provider.Throttled
	o.Code = "http_" + strconv.Itoa(status)
	o.Text = "the provider answered " + strconv.Itoa(status)
	if t := http.StatusText(status); t != "" {
		o.Text += " " + t
	}
	if value == "" {
		value = in.code.in(body)
	}
	if codeForm.MatchString(value) && !sent(value) {
		o.Text += ", code " + value
	}
	switch r.kind {
	case provider.Unknown:
		o.MayBeReceived = true
	case provider.Throttled:
		o.MayBeReceived = r.received(false) // "not now" is a refusal, under whichever status
	case provider.Transient, provider.Permanent:
		o.MayBeReceived = r.received(mayBeReceived(status))
	case provider.Accepted:
	}
	if r.kind == provider.Transient || r.kind == provider.Throttled {
		o.RetryAfter, _ = retry.After(header.Get("Retry-After"), now)
	}
	return o
}

// ofOne returns whether a failure is the recipient's own, and whether the operator's
// map or, of a throttled call, of_recipient in the answer says so.
func (r result) ofOne(body []byte) (ofRecipient, said bool) {
	if r.ofRecipient != nil {
		return *r.ofRecipient, true
	}
	if r.kind != provider.Throttled {
		return false, false
	}
	switch v, _ := at(body, []string{"of_recipient"}); v {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) })
}

// scalar returns a JSON string or number as text, and nothing for the rest.
func scalar(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var n json.Number
	if json.Unmarshal(raw, &n) == nil {
		return n.String()
	}
	return ""
}
