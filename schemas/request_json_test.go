package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// problemsOf lists an error's problems as "pointer code".
func problemsOf(t testing.TB, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	fault, ok := errors.AsType[*RequestError](err)
	if !ok {
		t.Fatalf("error is a %T, want *RequestError: %v", err, err)
	}
	var out []string
	for _, p := range fault.Problems {
		out = append(out, p.Pointer+" "+p.Code)
		if p.Message == "" {
			t.Errorf("%s %s has no message", p.Pointer, p.Code)
		}
	}
	if len(out) == 0 {
		t.Fatal("a RequestError without problems")
	}
	return out
}

func TestDecodeRequestStrict(t *testing.T) {
	deep := strings.Repeat("[", 100_000)
	tests := []struct {
		name string
		body string
		want []string // problems
	}{
		{"empty", ``, []string{" empty"}},
		{"white space", " \n", []string{" empty"}},
		{"not JSON", `hello`, []string{" not_json"}},
		{"cut short", `{"to":"a"`, []string{" not_json"}},
		{"cut in a string", `{"to":"a`, []string{" not_json"}},
		{"cut in an escape", `{"to":"a\`, []string{" not_json"}},
		{"single quotes", `{'to':"a"}`, []string{" not_json"}},
		{"trailing comma", `{"to":"a",}`, []string{" not_json"}},
		{"no colon", `{"to" "a"}`, []string{" not_json"}},
		{"comment", `{"to":"a"/**/}`, []string{" not_json"}},
		{"NaN", `{"vars":{"n":NaN}}`, []string{" not_json"}},
		{"leading zero", `{"vars":{"n":01}}`, []string{" not_json"}},
		{"bare point", `{"vars":{"n":1.}}`, []string{" not_json"}},
		{"bare exponent", `{"vars":{"n":1e}}`, []string{" not_json"}},
		{"raw line feed in a string", "{\"body\":\"a\nb\"}", []string{" not_json"}},
		{"unknown escape", `{"body":"\x41"}`, []string{" not_json"}},
		{"broken \\u", `{"body":"\u12g4"}`, []string{" not_json"}},
		{"a NUL", "\x00", []string{" not_json"}},
		{"too deep", `{"x":` + deep, []string{" not_json"}},
		{"array", `[{"to":"a"}]`, []string{" not_object"}},
		{"string", `"a"`, []string{" not_object"}},
		{"null", `null`, []string{" not_object"}},
		{"number", `17`, []string{" not_object"}},
		{"trailing data", `{"to":"a"} {"to":"b"}`, []string{" trailing_data"}},
		{"trailing NUL", "{\"to\":\"a\"}\x00", []string{" trailing_data"}},
		{"too large", `{"body":"` + strings.Repeat("a", MaxRequestBytes) + `"}`, []string{" too_large"}},
		{"unknown field", `{"chanel":"sms"}`, []string{"/chanel unknown_field"}},
		{"names are case-sensitive", `{"To":"a"}`, []string{"/To unknown_field"}},
		{"pointer is escaped", `{"a/b~c":1}`, []string{"/a~1b~0c unknown_field"}},
		{"duplicate", `{"to":"a","to":"b"}`, []string{"/to duplicate_field"}},
		{"duplicate by escape", `{"to":"a","\u0074o":"b"}`, []string{"/to duplicate_field"}},
		{"duplicate in vars", `{"vars":{"a":"1","a":"2"}}`, []string{"/vars/a duplicate_field"}},
		{"number for to", `{"to":8613812345678}`, []string{"/to wrong_type"}},
		{"object for to", `{"to":{"a":1}}`, []string{"/to wrong_type"}},
		{"array for vars", `{"vars":["a"]}`, []string{"/vars wrong_type"}},
		{"null in vars", `{"vars":{"code":null}}`, []string{"/vars/code wrong_type"}},
		{"object in metadata", `{"metadata":{"a":{}}}`, []string{"/metadata/a wrong_type"}},
		{"number for a time", `{"send_at":1700000000}`, []string{"/send_at wrong_type"}},
		{"no time", `{"send_at":"tomorrow"}`, []string{"/send_at bad_time"}},
		{"time without zone", `{"send_at":"2026-11-22T01:00:00"}`, []string{"/send_at bad_time"}},
		{"time past the year 9999", `{"send_at":"9999-12-31T23:59:59-01:00"}`, []string{"/send_at bad_time"}},
		{"the epoch is not absent", `{"send_at":"1970-01-01T00:00:00Z"}`, []string{"/send_at send_at_out_of_range"}},
		{"the epoch in another zone", `{"expires_at":"1970-01-01T08:00:00+08:00"}`, []string{"/expires_at expires_at_out_of_range"}},
		{"text for a cost", `{"cost":"3"}`, []string{"/cost wrong_type"}},
		{"a cost of a half", `{"cost":1.5}`, []string{"/cost wrong_type"}},
		{"a cost with a fraction of zero", `{"cost":3.0}`, []string{"/cost wrong_type"}},
		{"a cost with an exponent", `{"cost":3e0}`, []string{"/cost wrong_type"}},
		{"true for a cost", `{"cost":true}`, []string{"/cost wrong_type"}},
		{"a cost of nothing", `{"cost":0}`, []string{"/cost cost_out_of_range"}},
		{"a cost of minus nothing", `{"cost":-0}`, []string{"/cost cost_out_of_range"}},
		{"a cost that no counter holds", `{"cost":99999999999999999999}`, []string{"/cost cost_out_of_range"}},
		{"two costs", `{"cost":1,"cost":1}`, []string{"/cost duplicate_field"}},
		{"not UTF-8", "{\"body\":\"a\xff\"}", []string{"/body bad_text"}},
		{"not UTF-8 beside an escape", "{\"body\":\"\\n\xff\"}", []string{"/body bad_text"}},
		{"half a pair", `{"body":"\ud83d"}`, []string{"/body bad_text"}},
		{"half a pair, then an escape", `{"body":"\ud83d\n"}`, []string{"/body bad_text"}},
		{"not UTF-8 in a name", "{\"vars\":{\"\xff\":\"a\"}}", []string{"/vars bad_text"}},
		{"all at once", `{"to":1,"x":[{}],"send_at":"no","vars":{"a":[],"b":"1"},"class":"c"}`,
			[]string{"/to wrong_type", "/x unknown_field", "/send_at bad_time", "/vars/a wrong_type"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q, err := DecodeRequestStrict([]byte(tt.body))
			if got := problemsOf(t, err); !cmp.Equal(got, tt.want) {
				t.Errorf("problems %q, want %q", got, tt.want)
			}
			if q != nil {
				t.Error("a request beside an error")
			}
			notOneValue := slices.Contains([]string{" not_json", " empty", " trailing_data"}, tt.want[0])
			if notOneValue == json.Valid([]byte(tt.body)) {
				t.Errorf("encoding/json disagrees whether this is JSON")
			}
		})
	}
}

func TestDecodeRequestStrictReads(t *testing.T) {
	body := ` {"action":null,"channel":"sms", "to":"+86138\u0031\/","class":"\ud83d\ude00",
		"vars":{"code":123456,"rate":-1.50e+3,"vip":true,"no":false,"t":"x\"\\\b\f\n\r\t"}, "metadata":{},
		"send_at":"2026-11-22T09:00:00.123456+08:00","expires_at":"","cost": 3} `
	want := &Request{
		Channel: ChannelSMS, To: "+861381/", Class: "😀", Cost: 3,
		Vars:   map[string]string{"code": "123456", "rate": "-1.50e+3", "vip": "true", "no": "false", "t": "x\"\\\b\f\n\r\t"},
		SendAt: 1795309200123,
	}
	got, err := DecodeRequestStrict([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestRequestIDHasOneSpelling(t *testing.T) {
	q, err := DecodeRequestStrict([]byte(`{"id":"0192F0C1-2A3B-7C4D-8E5F-60718293A4B5"}`))
	if err != nil || q.ID != "0192f0c1-2a3b-7c4d-8e5f-60718293a4b5" {
		t.Errorf("got %q, %v", q.ID, err)
	}
}

// An answer never grows with the input, nor repeats its values.
func TestRequestErrorIsBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"to":{"secret":1},"` + strings.Repeat("é", 10_000) + `":"secret"`)
	for i := range 1000 {
		fmt.Fprintf(&b, `,"f%d":"secret"`, i)
	}
	b.WriteString(`}`)
	_, err := DecodeRequestStrict([]byte(b.String()))
	if n := len(problemsOf(t, err)); n != maxProblems {
		t.Errorf("%d problems, want %d", n, maxProblems)
	}
	if text := err.Error(); len(text) > 4096 || strings.Contains(text, "secret") || !strings.Contains(text, "é…") {
		t.Errorf("%d bytes: %.300s", len(text), text)
	}
}

func TestDecodeHTTPRequest(t *testing.T) {
	tests := []struct {
		name string
		body string
		want []string
	}{
		{"fine", `{"channel":"sms","to":"+8613812345678","class":"verify","body":"code 1"}`, nil},
		{"nothing but an object", `{}`, []string{"/to required", "/channel required"}},
		{"form and values together", `{"chanel":"sms","to":"a","priority":"high"}`,
			[]string{"/chanel unknown_field", "/channel required", "/priority unknown_value"}},
		{"one mistake, one problem", `{"channel":7,"to":"a","body":"b"}`, []string{"/channel wrong_type"}},
		{"id is Kafka's", `{"id":"0192f0c1-2a3b-7c4d-8e5f-60718293a4b5","channel":"sms","to":"a","body":"b"}`, []string{"/id not_permitted"}},
		{"so are the other actions", `{"action":"cancel","to":"a"}`, []string{"/action not_permitted"}},
		{"not JSON", `{`, []string{" not_json"}},
		{"1970", `{"channel":"sms","to":"a","body":"b","send_at":"1970-06-01T00:00:00Z"}`, []string{"/send_at send_at_out_of_range"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q, err := DecodeHTTPRequest([]byte(tt.body), testNow)
			if got := problemsOf(t, err); !cmp.Equal(got, tt.want) {
				t.Errorf("problems %q, want %q", got, tt.want)
			}
			if (q == nil) != (err != nil) {
				t.Errorf("request %v beside error %v", q, err)
			}
		})
	}
}

func TestRequestRoundTripsThroughJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := genRequest().Draw(t, "request")
		b := RequestJSON(q)
		got, err := DecodeRequestStrict(b)
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		if d := cmp.Diff(q, got); d != "" {
			t.Fatal(d)
		}
		var plain bytes.Buffer
		enc := json.NewEncoder(&plain)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(q); err != nil {
			t.Fatal(err)
		}
		if got, want := string(b), strings.TrimSuffix(plain.String(), "\n"); got != want {
			t.Fatalf("RequestJSON and encoding/json differ:\n%s\n%s", got, want)
		}
	})
}

func TestRequestRoundTripsThroughProtobuf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := genRequest().Draw(t, "request")
		b, err := RequestProto(q)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) == 0 {
			return // a null record
		}
		got, err := DecodeRequest(b, headersOf(map[string]string{"content-type": "application/x-protobuf"}))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(q, got); d != "" {
			t.Fatal(d)
		}
		fromJSON, err := DecodeRequest(RequestJSON(q), nil)
		if err != nil {
			t.Fatal(err)
		}
		if ContentHash(got) != ContentHash(fromJSON) {
			t.Fatal("the encodings give different hashes")
		}
	})
}

const benchRequest = `{"tenant":"acme","channel":"sms","to":"+8613812345678","class":"verify","template":"login-code","vars":{"code":"123456"},"priority":"urgent","idempotency_key":"order-17","send_at":"2026-11-22T01:00:00Z","callback_url":"https://example.com/weir","metadata":{"order":"17","ip":"203.0.113.9"}}`

func BenchmarkDecodeRequest(b *testing.B) {
	body := []byte(benchRequest)
	b.Run("weir strict", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeRequestStrict(body); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("weir with validation", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeHTTPRequest(body, testNow); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding json strict", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d := json.NewDecoder(bytes.NewReader(body))
			d.DisallowUnknownFields()
			var q Request
			if err := d.Decode(&q); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkContentHash(b *testing.B) {
	q, err := DecodeRequestStrict([]byte(benchRequest))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		ContentHash(q)
	}
}
