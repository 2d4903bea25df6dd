package legacy

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// fields are those of a JSON object, by their names in lower case: that API's
// servers read names in any case, and ignored those that they did not know.
type fields map[string]json.RawMessage

// readFields returns the fields of a body; false when it is no JSON object. Of a
// name that stands in several spellings the one in lower case counts, else the
// last by alphabet.
func readFields(body []byte) (fields, bool) {
	var given map[string]json.RawMessage
	if !utf8.Valid(body) || json.Unmarshal(body, &given) != nil || given == nil {
		return nil, false
	}
	f := make(fields, len(given))
	for _, name := range slices.Sorted(maps.Keys(given)) { // upper case sorts first
		f[strings.ToLower(name)] = given[name]
	}
	return f, true
}

func (f fields) get(name string) (json.RawMessage, bool) {
	v, ok := f[strings.ToLower(name)]
	return v, ok
}

// text returns a field that is a string; "" where it is null or missing, and
// false where it is anything else.
func (f fields) text(name string) (string, bool) {
	v, _ := f.get(name)
	if len(v) == 0 || string(v) == "null" {
		return "", true
	}
	var s string
	return s, json.Unmarshal(v, &s) == nil
}

// scalar returns a value as text, a string's without its quotes and null as
// nothing; false for an object or an array.
func scalar(v json.RawMessage) (string, bool) {
	switch v[0] {
	case '"':
		var s string
		return s, json.Unmarshal(v, &s) == nil
	case '{', '[':
		return "", false
	case 'n':
		return "", true
	}
	return string(v), true
}

// number reads a whole number, also as 10.0 or 1e2.
func number(v json.RawMessage) (int64, bool) {
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}
