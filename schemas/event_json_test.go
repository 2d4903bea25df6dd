package schemas

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func plainJSON(t testing.TB, v any) string {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func TestAppendEventIsWhatEncodingJSONWrites(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		e := genEvent().Draw(rt, "event")
		got := string(AppendEvent([]byte("x"), e))
		if want := "x" + plainJSON(t, e); got != want {
			rt.Fatalf("AppendEvent and encoding/json differ:\n%s\n%s", got, want)
		}
		back, err := DecodeEvent([]byte(got[1:]))
		if err != nil {
			rt.Fatalf("%v\n%s", err, got)
		}
		if d := cmp.Diff(e, back, cmpopts.EquateEmpty()); d != "" {
			rt.Fatal(d)
		}
		var plain Event
		if err := json.Unmarshal([]byte(got[1:]), &plain); err != nil {
			rt.Fatal(err)
		}
		if d := cmp.Diff(&plain, back, cmpopts.EquateEmpty()); d != "" {
			rt.Fatal(d)
		}
	})
}

func TestAppendEventMendsText(t *testing.T) {
	e := &Event{Kind: KindStatus, Error: "a\xffb\xed\xa0\x80", At: 1}
	if got, want := string(AppendEvent(nil, e)), plainJSON(t, e); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestDecodeEvent(t *testing.T) {
	tests := []struct {
		name  string
		value string
		want  *Event // nil is an error
	}{
		{"unknown fields", `{"new":{"a":[1,{"b":null}]},"kind":"status","decision":{"new":1,"seq":7,"charges":[{"new":"x","cost":2}]}}`,
			&Event{Kind: KindStatus, Decision: &Decision{Seq: 7, Charges: []Charge{{Cost: 2}}}}},
		{"nulls", `{"kind":null,"at":null,"attempt":null,"observed":null,"source":null,"decision":{"charges":null,"marker":null}}`,
			&Event{Decision: &Decision{}}},
		{"the last of a name counts", `{"reason":"a","reason":"b"}`, &Event{Reason: "b"}},
		{"any zone and precision", `{"at":"2026-11-22T09:00:00.123456+08:00"}`, &Event{At: 1795309200123}},
		{"broken text is mended", "{\"error\":\"\xff\\ud800\"}", &Event{Error: "\ufffd\ufffd"}},
		{"empty", ``, nil},
		{"not JSON", `x`, nil},
		{"not an object", `[]`, nil},
		{"trailing data", `{}{}`, nil},
		{"cut short", `{"decision":{"seq":1`, nil},
		{"string for a number", `{"attempt":"1"}`, nil},
		{"fraction", `{"attempt":1.5}`, nil},
		{"number too large", `{"source":{"partition":2147483648}}`, nil},
		{"number for text", `{"to":1}`, nil},
		{"no time", `{"at":"now"}`, nil},
		{"number for a boolean", `{"observed":1}`, nil},
		{"object for an array", `{"decision":{"charges":{}}}`, nil},
		{"misspelt null", `{"decision":nil}`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := DecodeEvent([]byte(tt.value))
			if (err != nil) != (tt.want == nil) {
				t.Fatalf("error %v", err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestCharges(t *testing.T) {
	for _, charges := range [][]Charge{nil, {{"verify", "+8613800000000", 1795309200123, 1}, {"day", "a", 1, 2}}} {
		b := AppendCharges(nil, charges)
		if charges != nil && string(b) != plainJSON(t, charges) {
			t.Errorf("%s", b)
		}
		got, err := DecodeCharges(b)
		if err != nil || !cmp.Equal(got, charges) {
			t.Errorf("%s: %v, %v", b, got, err)
		}
	}
	for _, bad := range []string{``, `{}`, `[`, `[] []`, `[{"cost":"1"}]`} {
		if got, err := DecodeCharges([]byte(bad)); err == nil {
			t.Errorf("%q gave %v", bad, got)
		}
	}
}

func benchEvent() *Event {
	return &Event{
		Kind: KindStatus, MessageID: "0192f0c1-2a3b-7c4d-8e5f-60718293a4b5", Tenant: "acme", Channel: "sms", Class: "verify",
		Template: "login-code", To: "+8613812345678", Status: StatusQueued, At: testNow, Provider: "aliyun", AcceptedAt: testNow,
		Segments: 1, Source: &Source{"weir.requests", 3, 4711},
		Decision: &Decision{
			Verdict: VerdictAdmit, Partition: 3, Seq: 90210, T: testNow, Revision: 7, Input: &Source{"weir.requests", 3, 4711},
			Charges: []Charge{{"verify", "+8613812345678", testNow, 1}},
		},
	}
}

func BenchmarkAppendEvent(b *testing.B) {
	e := benchEvent()
	b.Run("weir", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf = AppendEvent(buf[:0], e)
		}
	})
	b.Run("encoding json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal(e); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDecodeEvent(b *testing.B) {
	value := AppendEvent(nil, benchEvent())
	b.Run("weir", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeEvent(value); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var e Event
			if err := json.Unmarshal(value, &e); err != nil {
				b.Fatal(err)
			}
		}
	})
}
