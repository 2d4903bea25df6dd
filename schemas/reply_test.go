package schemas

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseReplyTo(t *testing.T) {
	for _, good := range []string{"0/a", "7/9f86d081884c7d65", "2147483647/" + strings.Repeat("x", maxCorrelation), "12/A-b_c.9"} {
		p, c, ok := ParseReplyTo(good)
		if !ok || ReplyTo(p, c) != good {
			t.Errorf("%q was read as %d, %q, %v", good, p, c, ok)
		}
	}
	for _, bad := range []string{"", "/", "1", "1/", "/a", "-1/a", "+1/a", "01/a", "x/a", "1/a b", "1/a/b", "1/\x00", "1/é", "2147483648/a", "99999999999999999999/a", "1/" + strings.Repeat("x", maxCorrelation+1), " 1/a", "1/a\n"} {
		if p, c, ok := ParseReplyTo(bad); ok {
			t.Errorf("%q was read as %d, %q", bad, p, c)
		}
	}
}

// TestReply holds AppendReply to encoding/json, and DecodeReply to AppendReply.
func TestReply(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &Reply{Event: genEvent().Draw(t, "event"), Limits: genStates().Draw(t, "limits"), Suppressed: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Suppression {
			name := rapid.SampledFrom([]string{"", "acme", "sms", "a\"b<é"})
			return Suppression{Tenant: name.Draw(t, "tenant"), Channel: name.Draw(t, "channel"), Class: name.Draw(t, "class"), At: Millis(rapid.Int64Range(0, 4_000_000_000_000).Draw(t, "at"))}
		}), 0, 3).Draw(t, "suppressed")}
		text := AppendReply(nil, r)
		var want Reply
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(r); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); got != string(text)+"\n" {
			t.Fatalf("written as\n%s\nencoding/json has\n%s", text, got)
		}
		got, err := DecodeReply(text)
		if err != nil || !reflect.DeepEqual(got, &want) {
			t.Fatalf("%s: %v, %+v", text, err, got)
		}
	})
	for _, bad := range []string{``, `null`, `{}`, `{"event":null}`, `{"event":{}`, `[]`, `{"limits":[]}`} {
		if r, err := DecodeReply([]byte(bad)); err == nil {
			t.Errorf("%q was read as %+v", bad, r)
		}
	}
}

func TestQuotaAsk(t *testing.T) {
	want := &QuotaAsk{To: "+8613800000000", Scopes: []QuotaScope{{"verify", "+8613800000000"}, {"all", ""}}, Of: "acme"}
	got, err := DecodeQuotaAsk(EncodeQuotaAsk(want))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %+v", err, got)
	}
	for _, bad := range []string{``, `[]`, `{"scopes":{}}`, `{"to":1}`} {
		if q, err := DecodeQuotaAsk([]byte(bad)); err == nil {
			t.Errorf("%q was read as %+v", bad, q)
		}
	}
	if e := (&Envelope{Reason: ReadmitQuota, Reply: "1/a"}); !e.Inquires() {
		t.Error("a question is none")
	}
	for _, e := range []Envelope{{Reason: ReadmitForward}, {Reason: ReadmitQuota, ID: "i"}, {Reason: ReadmitQuota, Key: "k"}, {Reason: ReadmitQuota, Place: []Charge{{}}}, {Reason: ReadmitQuota, Restore: []Charge{{}}}, {Reason: ReadmitQuota, Round: &Round{}}} {
		if e.Inquires() {
			t.Errorf("%+v is a question", e)
		}
	}
}
