package http

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/retry"
)

// The table of answers. What the operator maps comes first, the exact status
// before its class:
//
//	2xx          accepted
//	429          throttled, not received
//	503          transient, not received
//	other 5xx    transient, perhaps received
//	4xx          permanent
//	1xx, 3xx     transient, perhaps received: redirects are not followed, and a
//	             302 or 303 to a POST often means that it was done

// kindOf returns what a status means without a map.
func kindOf(status int) provider.Kind {
	switch {
	case status >= 200 && status <= 299:
		return provider.Accepted
	case status == http.StatusTooManyRequests:
		return provider.Throttled
	case status >= 400 && status <= 499:
		return provider.Permanent
	}
	return provider.Transient
}

// mayBeReceived says whether a call that failed with this status may have
// reached the recipient.
func mayBeReceived(status int) bool {
	return status < 400 || status >= 500 && status != http.StatusServiceUnavailable
}

// answer is what the body of an answer can say.
type answer struct {
	ID   json.RawMessage `json:"id"`
	Code json.RawMessage `json:"code"`
}

// codeForm keeps what an answer calls its code from carrying a recipient or a
// sentence into status events.
var codeForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$|^-?[0-9]{1,6}$`)

const maxID = 256 // bytes of a provider's message id

// decide maps an answer to its outcome. body may be cut short, or garbage: then
// it says nothing.
func (m statusMap) decide(status int, header http.Header, body []byte, now time.Time) provider.Outcome {
	kind, ok := m[strconv.Itoa(status)]
	if !ok {
		kind, ok = m[fmt.Sprintf("%dxx", status/100)]
	}
	if !ok {
		kind = kindOf(status)
	}
	var a answer
	_ = json.Unmarshal(body, &a) // garbage says nothing
	o := provider.Outcome{Kind: kind}
	if kind == provider.Accepted {
		if id := scalar(a.ID); len(id) <= maxID {
			o.ProviderMessageID = id
		}
		return o
	}
	o.Code = "http_" + strconv.Itoa(status)
	o.Text = "the provider answered " + strconv.Itoa(status)
	if t := http.StatusText(status); t != "" {
		o.Text += " " + t
	}
	if c := scalar(a.Code); codeForm.MatchString(c) {
		o.Text += ", code " + c
	}
	switch kind {
	case provider.Unknown:
		o.MayBeReceived = true
	case provider.Transient, provider.Throttled:
		o.MayBeReceived = mayBeReceived(status)
		o.RetryAfter, _ = retry.After(header.Get("Retry-After"), now)
	case provider.Permanent:
		o.MayBeReceived = mayBeReceived(status)
	case provider.Accepted:
	}
	return o
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

// statusMap overrides what statuses mean: by a status (409) or a class (5xx).
type statusMap map[string]provider.Kind

var statusForm = regexp.MustCompile(`^[1-5]([0-9][0-9]|xx)$`)

func readMap(v any) (statusMap, error) {
	if v == nil {
		return nil, nil
	}
	in, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("settings.map must be a mapping from status to outcome, such as {409: accepted}")
	}
	out := make(statusMap)
	for _, k := range slices.Sorted(maps.Keys(in)) {
		text, _ := in[k].(string)
		if !statusForm.MatchString(k) {
			return nil, fmt.Errorf("settings.map: %q is no status: write a number such as 409, or a class such as 5xx", k)
		}
		if !slices.Contains(provider.Kinds, provider.Kind(text)) {
			return nil, fmt.Errorf("settings.map.%s must be one of accepted, throttled, transient, permanent, unknown", k)
		}
		out[k] = provider.Kind(text)
	}
	return out, nil
}
