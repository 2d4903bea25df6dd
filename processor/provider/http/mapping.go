package http

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhq/weir/processor/provider"
)

// result is what a status, or a value in an answer, means.
type result struct {
	kind        provider.Kind
	maybe       *bool // may be received; nil follows from the status
	ofRecipient bool
}

// received returns whether the message may have been received: what the
// operator says, or else what follows from the status.
func (r result) received(otherwise bool) bool {
	if r.maybe != nil {
		return *r.maybe
	}
	return otherwise
}

// byField lets a field of the answer decide.
type byField struct {
	path      []string
	values    map[string]result
	otherwise *result // a value that is not listed, or no such field
}

// entry is a status's meaning: field's, or else result.
type entry struct {
	result result
	field  *byField
}

// statusMap overrides what statuses mean: by a status (409) or a class (5xx).
type statusMap map[string]entry

// lookup returns what an answer means, and the value that decided if one did.
// The exact status comes before its class.
func (m statusMap) lookup(status int, body []byte) (result, string) {
	e, ok := m[strconv.Itoa(status)]
	if !ok {
		e, ok = m[strconv.Itoa(status/100)+"xx"]
	}
	switch {
	case !ok:
		return result{kind: kindOf(status)}, ""
	case e.field == nil:
		return e.result, ""
	}
	if json.Valid(body) {
		value, has := at(body, e.field.path)
		if r, listed := e.field.values[value]; has && listed {
			return r, value
		}
		if e.field.otherwise != nil {
			return *e.field.otherwise, value
		}
	}
	// Where the answer decides and cannot be read, nobody knows what a 2xx
	// meant. Other statuses keep their own meaning: a gateway's 502 in HTML.
	if kindOf(status) == provider.Accepted {
		return result{kind: provider.Unknown}, ""
	}
	return result{kind: kindOf(status)}, ""
}

// at returns the text, number, true or false at a path of an object, as it is
// written there.
func at(body []byte, path []string) (string, bool) {
	for _, name := range path {
		var object map[string]json.RawMessage
		if json.Unmarshal(body, &object) != nil || object[name] == nil {
			return "", false
		}
		body = object[name]
	}
	if b := bytes.TrimSpace(body); bytes.Equal(b, []byte("true")) || bytes.Equal(b, []byte("false")) {
		return string(b), true
	}
	value := scalar(body)
	return value, value != ""
}

var statusForm = regexp.MustCompile(`^[1-5]([0-9][0-9]|xx)$`)

func readMap(v any) (statusMap, error) {
	if v == nil {
		return nil, nil
	}
	in, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("settings.map must be a mapping from status to outcome, such as {409: accepted}")
	}
	out := make(statusMap)
	for _, k := range slices.Sorted(maps.Keys(in)) {
		if !statusForm.MatchString(k) {
			return nil, fmt.Errorf("settings.map: %q is no status: write a number such as 409, or a class such as 5xx", k)
		}
		e, err := readEntry("settings.map."+k, in[k])
		if err != nil {
			return nil, err
		}
		out[k] = e
	}
	return out, nil
}

func readEntry(at string, v any) (entry, error) {
	in, ok := v.(map[string]any)
	if !ok || in["field"] == nil {
		r, err := readResult(at, v)
		return entry{result: r}, err
	}
	if err := only(at, in, "field", "values", "else"); err != nil {
		return entry{}, err
	}
	path, _ := in["field"].(string)
	f := &byField{path: strings.Split(path, "."), values: make(map[string]result)}
	if slices.Contains(f.path, "") {
		return entry{}, fmt.Errorf("%s.field must be a name, or names with dots between, such as result.code", at)
	}
	values, ok := in["values"].(map[string]any)
	if !ok || len(values) == 0 {
		return entry{}, fmt.Errorf("%s.values must be a mapping from the field's values to outcomes, such as {OK: accepted}", at)
	}
	for _, k := range slices.Sorted(maps.Keys(values)) {
		r, err := readResult(at+".values."+k, values[k])
		if err != nil {
			return entry{}, err
		}
		f.values[k] = r
	}
	if in["else"] != nil {
		r, err := readResult(at+".else", in["else"])
		if err != nil {
			return entry{}, err
		}
		f.otherwise = &r
	}
	return entry{field: f}, nil
}

// readResult reads an outcome's name, or {outcome, may_be_received,
// of_recipient}.
func readResult(at string, v any) (result, error) {
	var r result
	in, ok := v.(map[string]any)
	if !ok {
		in = map[string]any{"outcome": v}
	}
	if err := only(at, in, "outcome", "may_be_received", "of_recipient"); err != nil {
		return r, err
	}
	text, _ := in["outcome"].(string)
	if r.kind = provider.Kind(text); !slices.Contains(provider.Kinds, r.kind) {
		return r, fmt.Errorf("%s must be one of accepted, throttled, transient, permanent, unknown", at)
	}
	if v := in["may_be_received"]; v != nil {
		maybe, ok := v.(bool)
		if !ok || r.kind == provider.Accepted || r.kind == provider.Unknown && !maybe {
			return r, fmt.Errorf("%s.may_be_received is true or false, for an outcome that leaves it open: throttled, transient, permanent", at)
		}
		r.maybe = &maybe
	}
	if v := in["of_recipient"]; v != nil {
		if r.ofRecipient, ok = v.(bool); !ok || r.kind == provider.Accepted {
			return r, fmt.Errorf("%s.of_recipient is true or false, for an outcome that is a failure", at)
		}
	}
	return r, nil
}

func only(at string, in map[string]any, names ...string) error {
	for _, k := range slices.Sorted(maps.Keys(in)) {
		if !slices.Contains(names, k) {
			return fmt.Errorf("%s.%s is unknown: it has %s", at, k, strings.Join(names, ", "))
		}
	}
	return nil
}
