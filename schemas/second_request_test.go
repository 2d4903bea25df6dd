package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// TestSecondRequest compares DecodeRequestStrict with another reader of requests, on
// encoding/json's tokens: what is accepted, and all that is read.
func TestSecondRequest(t *testing.T) {
	documents := 30_000
	if os.Getenv("WEIR_CHAOS") != "" {
		documents = 2_000_000
	}
	rnd := rand.New(rand.NewPCG(5, 6))
	valid := 0
	for range documents {
		body := requestText(rnd)
		got, err := DecodeRequestStrict([]byte(body))
		want, why := secondRequest(body)
		if (err == nil) != (why == nil) {
			t.Fatalf("%q: %v; the second reader says %v", body, err, why)
		}
		if err == nil {
			valid++
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("%q: %s", body, d)
			}
		}
	}
	if valid < documents/10 || valid > documents*9/10 {
		t.Errorf("%d of %d are valid", valid, documents)
	}
	t.Logf("%d documents, %d of them valid", documents, valid)
}

var (
	textFields = []string{"action", "tenant", "channel", "to", "class", "template", "subject", "body", "html", "reply_to", "title", "from", "priority", "provider",
		"idempotency_key", "id", "callback_url"}
	mapFields  = []string{"vars", "data", "metadata"}
	timeFields = []string{"send_at", "expires_at", "at"}
	costField  = []string{"cost"}
)

// requestText draws a request's body: fields with values of their type, some of another one,
// some twice or unknown, and a byte changed in one of ten.
func requestText(rnd *rand.Rand) string {
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	text := func() string {
		return pick(`""`, `"sms"`, `"+8613812345678"`, `"a b"`, `"\u0041\n\/\"\\"`, `"😀"`, `"\ud83d\ude00"`, `"\u00e9é"`, `"0192F0C1-2A3B-7C4D-8E5F-60718293A4B5"`, `"\t\r\b\f"`)
	}
	odd := func() string {
		return pick("null", "1", "true", `"\ud83d"`, "\"\xff\"", `{}`, `[]`, `["a"]`, `{"a":1}`, "01", "1.", "-", `"\x"`, "\"\x01\"", "nul", `"`, "")
	}
	space := func() string { return pick("", "", "", " ", "\n\t", "\r") }
	var b strings.Builder
	b.WriteString(space() + "{")
	for i := range rnd.IntN(6) {
		if i > 0 {
			b.WriteString(space() + ",")
		}
		var name, value string
		switch rnd.IntN(3) {
		case 0:
			name, value = pick(textFields...), text()
			if rnd.IntN(6) == 0 {
				name, value = "cost", pick("1", "2", "1000000", "1000001", "-3", "0", "-0", "2147483647", "2147483648", "-2147483649", "3.0", "3e0", "1.5", `"3"`, "123456789012345678901")
			}
		case 1:
			name = pick(timeFields...)
			value = pick(`""`, `"2026-11-22T09:00:00Z"`, `"2026-11-22T09:00:00.123456789+08:00"`, `"2024-02-29T23:59:59.9-11:30"`, `"2026-02-29T00:00:00Z"`, `"1970-01-01T00:00:00Z"`,
				`"2026-11-22 09:00:00Z"`, `"2026-11-22T09:00:00"`, `"2026-11-22T24:00:00Z"`, `"0001-01-01T00:00:00Z"`, `"9999-12-31T23:59:59Z"`, `"2026-11-22T09:00:00z"`, `"2026-11-22T09:00:00+24:00"`,
				`"2026-11-22T09:00:60Z"`, `"2026-13-01T00:00:00Z"`, `"2026-11-22T9:00:00Z"`, `"2026-11-22T09:00:00,5Z"`, `"2026-11-22T09:00:00+0800"`, `"2026-11-22T09:00:00+08:60"`)
		default:
			name = pick(mapFields...)
			var pairs []string
			for range rnd.IntN(3) {
				of := text()
				if rnd.IntN(2) == 0 {
					of = pick("1", "-1.50e+3", "0", "true", "false", "12345678901234567890123", "1E9", "0.1")
				}
				if rnd.IntN(20) == 0 {
					of = odd()
				}
				pairs = append(pairs, pick(`"a"`, `"b"`, `"\u0061"`, `"code"`, `""`)+space()+":"+of)
			}
			value = "{" + strings.Join(pairs, ",") + space() + "}"
		}
		if rnd.IntN(40) == 0 {
			name = pick("unknown", "To", "\\u0074o", "a/b", "")
		}
		if rnd.IntN(25) == 0 {
			value = odd()
		}
		fmt.Fprintf(&b, "%s\"%s\"%s:%s%s", space(), name, space(), space(), value)
	}
	b.WriteString("}" + space())
	s := b.String()
	if rnd.IntN(10) == 0 {
		i := rnd.IntN(len(s))
		s = s[:i] + pick("", "{", "}", ",", "\"", "\\", "\x00", "\xc3", " ", "0") + s[i+1:]
	}
	return s
}

var surrogates = regexp.MustCompile(`\\(?:u([0-9a-fA-F]{4})|.)`)

// pairedSurrogates reports whether each half of a pair that is escaped has its other half.
func pairedSurrogates(body string) bool {
	high := -1 // where the text after a first half begins
	for _, m := range surrogates.FindAllStringSubmatchIndex(body, -1) {
		n := uint64(0)
		if m[2] >= 0 {
			n, _ = strconv.ParseUint(body[m[2]:m[3]], 16, 16)
		}
		second := 0xdc00 <= n && n <= 0xdfff
		if second != (high == m[0]) || high >= 0 && !second {
			return false
		}
		high = -1
		if 0xd800 <= n && n <= 0xdbff {
			high = m[1]
		}
	}
	return high < 0
}

func secondRequest(body string) (*Request, error) {
	if !json.Valid([]byte(body)) || !utf8.ValidString(body) || !pairedSurrogates(body) {
		return nil, fmt.Errorf("not JSON")
	}
	dec := json.NewDecoder(strings.NewReader(body))
	dec.UseNumber()
	fields := make(map[string]any)
	if first, _ := dec.Token(); first != json.Delim('{') {
		return nil, fmt.Errorf("no object")
	}
	for dec.More() {
		name, _ := dec.Token()
		if _, twice := fields[name.(string)]; twice {
			return nil, fmt.Errorf("%s twice", name)
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, err
		}
		fields[name.(string)] = raw
	}
	plain := make(map[string]any) // what encoding/json then reads as a Request
	for name, v := range fields {
		raw := v.(json.RawMessage)
		is := func(of []string) bool {
			for _, f := range of {
				if f == name {
					return true
				}
			}
			return false
		}
		if !is(textFields) && !is(mapFields) && !is(timeFields) && !is(costField) {
			return nil, fmt.Errorf("%s is unknown", name)
		}
		if string(raw) == "null" {
			continue
		}
		switch {
		case is(mapFields):
			pairs, err := secondPairs(raw)
			if err != nil {
				return nil, err
			}
			plain[name] = pairs
		case is(costField):
			n, err := strconv.Atoi(string(raw))
			if err != nil || n < 1 || n > 1_000_000 {
				return nil, fmt.Errorf("%s is no cost", raw)
			}
			if n != 1 {
				plain[name] = n
			}
		default:
			var s string
			if err := json.Unmarshal(raw, &s); err != nil {
				return nil, err
			}
			if is(timeFields) && s != "" {
				if _, ok := secondTime(s); !ok {
					return nil, fmt.Errorf("%s is no time", s)
				}
			}
			if name == "id" && regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`).MatchString(s) {
				s = strings.ToLower(s)
			}
			plain[name] = s
		}
	}
	again, err := json.Marshal(plain)
	if err != nil {
		return nil, err
	}
	q := new(Request)
	if err := json.Unmarshal(again, q); err != nil {
		return nil, err
	}
	return q, nil
}

// secondPairs reads texts by name; numbers and booleans as they are written.
func secondPairs(raw json.RawMessage) (pairs map[string]string, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if first, _ := dec.Token(); first != json.Delim('{') {
		return nil, fmt.Errorf("no object")
	}
	for dec.More() {
		name, _ := dec.Token()
		if _, twice := pairs[name.(string)]; twice {
			return nil, fmt.Errorf("%s twice", name)
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, err
		}
		s := string(v)
		switch s[0] {
		case '"':
			if err := json.Unmarshal(v, &s); err != nil {
				return nil, err
			}
		case '{', '[', 'n':
			return nil, fmt.Errorf("%s is no text", s)
		}
		if pairs == nil {
			pairs = make(map[string]string)
		}
		pairs[name.(string)] = s
	}
	return pairs, nil
}
