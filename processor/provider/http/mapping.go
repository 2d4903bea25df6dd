package http

import (
	"bytes"
	"encoding/json"
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
	ofRecipient *bool // nil: the answer may say
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

func readMap(in *provider.Settings) statusMap {
	all := in.Under("map", "{409: accepted}")
	if all == nil {
		return nil
	}
	out := make(statusMap)
	for _, k := range all.Names() {
		if v, isMap := all.Any(k).(map[string]any); isMap && v["field"] != nil {
			out[k] = readField(all.Under(k, ""))
		} else {
			out[k] = entry{result: readResult(all, k)}
		}
		if !statusForm.MatchString(k) {
			all.Fail(k, "is no status: write a number such as 409, or a class such as 5xx")
		}
	}
	return out
}

func readField(in *provider.Settings) entry {
	path, _ := in.Any("field").(string)
	f := &byField{path: strings.Split(path, "."), values: make(map[string]result)}
	if slices.Contains(f.path, "") {
		in.Fail("field", "must be a name, or names with dots between, such as result.code")
	}
	if values := in.Under("values", "{OK: accepted}"); values != nil {
		for _, k := range values.Names() {
			f.values[k] = readResult(values, k)
		}
	}
	if len(f.values) == 0 {
		in.Fail("values", "must be a mapping from the field's values to outcomes, such as {OK: accepted}")
	}
	if in.Any("else") != nil {
		f.otherwise = new(readResult(in, "else"))
	}
	return entry{field: f}
}

// readResult reads an outcome's name, or {outcome, may_be_received,
// of_recipient}.
func readResult(in *provider.Settings, name string) (r result) {
	at, text := in, in.Any(name)
	field := func(string) string { return name }
	if _, ok := text.(map[string]any); ok {
		at, field = in.Under(name, ""), func(f string) string { return f }
		text = at.Any("outcome")
	}
	kind, _ := text.(string)
	if r.kind = provider.Kind(kind); !slices.Contains(provider.Kinds, r.kind) {
		at.Fail(field("outcome"), "must be one of accepted, throttled, transient, permanent, unknown")
	}
	if at == in {
		return r
	}
	if v := at.Any("may_be_received"); v != nil {
		maybe, ok := v.(bool)
		if !ok || r.kind == provider.Accepted || r.kind == provider.Unknown && !maybe {
			at.Fail("may_be_received", "is true or false, for an outcome that leaves it open: throttled, transient, permanent")
		}
		r.maybe = &maybe
	}
	if v := at.Any("of_recipient"); v != nil {
		of, ok := v.(bool)
		if !ok || r.kind == provider.Accepted {
			at.Fail("of_recipient", "is true or false, for an outcome that is a failure")
		}
		r.ofRecipient = &of
	}
	return r
}
