package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var requestSeeds = []string{
	``, `{}`, `[]`, `null`, plainRequest, benchRequest, plainRequest + `{}`,
	`{"to":"a","to":"b"}`, `{"x":[{"y":[null,true,false,-1.5e-3]}],"vars":{"a":1,"b":true,"c":null}}`,
	`{"body":"\ud83d\ude00\ud83d\u2028\/\"\\"}`, "{\"body\":\"\xff\u2028\"}",
	`{"send_at":"1970-01-01T00:00:00Z","expires_at":"9999-12-31T23:59:59-01:00","at":"0001-01-01T00:00:00Z"}`,
	`{"cost":3}`, `{"cost":1,"to":"a"}`, `{"cost":-5}`, `{"cost":2147483648}`,
	`{"id":"0192F0C1-2A3B-7C4D-8E5F-60718293A4B5","action":"cancel"}`,
}

// sameAgain holds a decoded request to what it is written as, in both
// encodings.
func sameAgain(t *testing.T, q *Request) {
	t.Helper()
	b := RequestJSON(q)
	if len(b) > MaxRequestBytes {
		return // numbers gained quotes
	}
	again, err := DecodeRequestStrict(b)
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	if d := cmp.Diff(q, again); d != "" {
		t.Fatal(d)
	}
	if pb, err := RequestProto(q); err == nil && len(pb) > 0 && len(pb) <= MaxRequestBytes {
		again, err := DecodeRequest(pb, headersOf(map[string]string{"content-type": "application/protobuf"}))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(q, again); d != "" {
			t.Fatal(d)
		}
	}
	_ = q.Validate(testNow) // must not panic
}

func checkRequestError(t *testing.T, err error) {
	t.Helper()
	fault, ok := errors.AsType[*RequestError](err)
	if !ok || len(fault.Problems) == 0 || fault.Reason() == "" || len(fault.Error()) > 8<<10 || !utf8.ValidString(fault.Error()) {
		t.Fatalf("%T: %v", err, err)
	}
}

func FuzzDecodeRequestStrict(f *testing.F) {
	for _, s := range requestSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := DecodeRequestStrict(body)
		if err != nil {
			checkRequestError(t, err)
			if fault, _ := errors.AsType[*RequestError](err); fault.Reason() == ReasonNotJSON && json.Valid(body) && bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) <= maxJSONDepth {
				t.Fatalf("encoding/json takes it: %v\n%q", err, body)
			}
			return
		}
		if !json.Valid(body) {
			t.Fatalf("encoding/json does not take it: %q", body)
		}
		sameAgain(t, q)
		lenient, err := DecodeRequest(body, nil)
		if err != nil {
			t.Fatalf("what is strictly right is not leniently so: %v", err)
		}
		if d := cmp.Diff(q, lenient); d != "" {
			t.Fatal(d)
		}
	})
}

func FuzzDecodeRequest(f *testing.F) {
	for _, s := range requestSeeds {
		f.Add([]byte(s), "", "", "")
		f.Add([]byte(registered(nil, s)), "application/json", "1.0", someUUID)
	}
	q, err := DecodeRequestStrict([]byte(benchRequest))
	if err != nil {
		f.Fatal(err)
	}
	pb, err := RequestProto(q)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(pb, "application/x-protobuf", "", "")
	f.Add([]byte(registered([]byte{0}, string(pb))), "", "", "")
	f.Add([]byte(registered(varints(2, 1, 0), string(pb))), "application/protobuf", "0.3", "x")
	f.Fuzz(func(t *testing.T, value []byte, contentType, version, id string) {
		q, err := DecodeRequest(value, headersOf(map[string]string{"content-type": contentType, "ce_specversion": version, "ce_id": id}))
		if err != nil {
			checkRequestError(t, err)
			return
		}
		sameAgain(t, q)
	})
}

func FuzzDecodeEvent(f *testing.F) {
	f.Add(AppendEvent(nil, benchEvent()))
	for _, s := range []string{
		`{}`, `[]`, `{"kind":null,"decision":{"marker":{"since":{"a":{"60s":null},"b":null,"c":{}}}}}`,
		`{"decision":{"charges":[null,{"cost":-9223372036854775808}],"evidence":[{"start":"0001-01-01T00:00:00Z"}]}}`,
		"{\"error\":\"\xff\\ud800\\u2029\"}", `{"source":{"partition":2147483648}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		e, err := DecodeEvent(value)
		if err != nil {
			return
		}
		b := AppendEvent(nil, e)
		again, err := DecodeEvent(b)
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		if d := cmp.Diff(e, again); d != "" {
			t.Fatal(d)
		}
		if want := plainJSON(t, e); string(b) != want {
			t.Fatalf("%s\n%s", b, want)
		}
	})
}
