package schemas

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func manyPairs(n, size int) map[string]string {
	m := make(map[string]string, n)
	for i := range n {
		m[fmt.Sprintf("k%02d", i)] = strings.Repeat("v", size)
	}
	return m
}

func TestValidate(t *testing.T) {
	sms := func(change func(*Request)) *Request {
		q := &Request{Channel: ChannelSMS, To: "+8613812345678", Body: "code 1"}
		change(q)
		return q
	}
	record := func(change func(*Request)) *Request {
		q := &Request{Action: ActionRecord, Channel: ChannelSMS, To: "+8613812345678", At: testNow}
		change(q)
		return q
	}
	at := func(d time.Duration) Millis { return testNow.Add(d) }
	tests := []struct {
		name string
		q    *Request
		want []string
	}{
		{"sms", sms(func(q *Request) {}), nil},
		{"sms by template", sms(func(q *Request) { q.Body, q.Template, q.Vars = "", "login-code", map[string]string{"code": "1"} }), nil},
		{"nothing", &Request{}, []string{"/to required", "/channel required"}},
		{"unknown action", sms(func(q *Request) { q.Action = "send" }), []string{"/action unknown_value"}},
		{"unknown channel", sms(func(q *Request) { q.Channel = "fax" }), []string{"/channel unknown_value"}},
		{"unknown priority", sms(func(q *Request) { q.Priority = "high" }), []string{"/priority unknown_value"}},
		{"missing to", sms(func(q *Request) { q.To = "" }), []string{"/to required"}},
		{"a class nobody declared", sms(func(q *Request) { q.Class = "whatever_Else.2" }), nil},
		{"class with a space", sms(func(q *Request) { q.Class = "a b" }), []string{"/class bad_name"}},
		{"tenant beyond ASCII", sms(func(q *Request) { q.Tenant = "é" }), []string{"/tenant bad_name"}},
		{"64 is not too long", sms(func(q *Request) { q.Class = strings.Repeat("a", 64) }), nil},
		{"65 is", sms(func(q *Request) { q.Class = strings.Repeat("a", 65) }), []string{"/class too_long"}},
		{"provider's name", sms(func(q *Request) { q.Provider = "a\n" }), []string{"/provider bad_name"}},
		{"line feed in to", sms(func(q *Request) { q.To = "a\nb" }), []string{"/to control_character"}},
		{"line feed in from", sms(func(q *Request) { q.From = "a\r\nBcc: b" }), []string{"/from control_character"}},
		{"line separator in from", sms(func(q *Request) { q.From = "a\u2028b" }), []string{"/from control_character"}},
		{"to too long", sms(func(q *Request) { q.To = strings.Repeat("1", 2049) }), []string{"/to too_long"}},
		{"lines in the body", sms(func(q *Request) { q.Body = "a\r\n\tb\f" }), nil},
		{"DEL in the body", sms(func(q *Request) { q.Body = "a\x7f" }), []string{"/body control_character"}},
		{"NUL in the body", sms(func(q *Request) { q.Body = "a\x00" }), []string{"/body control_character"}},

		{"template and content", sms(func(q *Request) { q.Template = "a" }), []string{"/body template_and_content"}},
		{"neither", sms(func(q *Request) { q.Body = "" }), []string{"/body content_required"}},
		{"vars without a template", sms(func(q *Request) { q.Vars = map[string]string{"a": "b"} }), []string{"/vars not_permitted"}},
		{"subject of an sms", sms(func(q *Request) { q.Subject = "a" }), []string{"/subject not_permitted"}},
		{"subject of an sms by template", sms(func(q *Request) { q.Body, q.Template, q.Subject = "", "t", "a" }), []string{"/subject not_permitted"}},
		{"voice", &Request{Channel: ChannelVoice, To: "a", HTML: "b"}, []string{"/html not_permitted", "/body content_required"}},
		{"email", &Request{Channel: ChannelEmail, To: "a@b", Subject: "s", HTML: "<p>", ReplyTo: "c@d"}, nil},
		{"email without subject", &Request{Channel: ChannelEmail, To: "a@b", Body: "b"}, []string{"/subject content_required"}},
		{"email without text", &Request{Channel: ChannelEmail, To: "a@b", Subject: "s"}, []string{"/body content_required"}},
		{"header in the subject", &Request{Channel: ChannelEmail, To: "a@b", Subject: "s\r\nBcc: x", Body: "b"}, []string{"/subject control_character"}},
		{"answers to a template's email", &Request{Channel: ChannelEmail, To: "a@b", Template: "t", ReplyTo: "c@d"}, nil},
		{"push", &Request{Channel: ChannelPush, To: "u", Title: "t", Data: map[string]string{"a": "1"}}, nil},
		{"data alone is no push", &Request{Channel: ChannelPush, To: "u", Data: map[string]string{"a": "1"}}, []string{"/body content_required"}},
		{"webhook", &Request{Channel: ChannelWebhook, To: "https://a.example", Data: map[string]string{"a": "1"}}, nil},
		{"empty webhook", &Request{Channel: ChannelWebhook, To: "https://a.example"}, []string{"/body content_required"}},
		{"empty name in data", &Request{Channel: ChannelWebhook, To: "u", Data: map[string]string{"": "1"}}, []string{"/data bad_name"}},
		{"NUL in data", &Request{Channel: ChannelWebhook, To: "u", Data: map[string]string{"a": "\x00", "b": "\x01", "c": ""}},
			[]string{"/data/a control_character", "/data/b control_character"}},

		{"id", sms(func(q *Request) { q.ID = someUUID }), nil},
		{"id that is no UUID", sms(func(q *Request) { q.ID = "17" }), []string{"/id bad_id"}},
		{"id in braces", sms(func(q *Request) { q.ID = "{" + someUUID + "}" }), []string{"/id bad_id"}},
		{"id of 36 characters", sms(func(q *Request) { q.ID = strings.Repeat("x", 36) }), []string{"/id bad_id"}},
		{"nil id", sms(func(q *Request) { q.ID = "00000000-0000-0000-0000-000000000000" }), []string{"/id bad_id"}},
		{"longest key", sms(func(q *Request) { q.IdempotencyKey = strings.Repeat("k", 255) }), nil},
		{"key too long", sms(func(q *Request) { q.IdempotencyKey = strings.Repeat("k", 256) }), []string{"/idempotency_key too_long"}},
		{"16 pairs", sms(func(q *Request) { q.Metadata = manyPairs(16, 253) }), nil}, // 16 * 256 is 4 KiB
		{"17 pairs", sms(func(q *Request) { q.Metadata = manyPairs(17, 1) }), []string{"/metadata too_many"}},
		{"over 4 KiB", sms(func(q *Request) { q.Metadata = manyPairs(16, 254) }), []string{"/metadata too_long"}},
		{"line in metadata", sms(func(q *Request) { q.Metadata = map[string]string{"a": "b\n", "c\n": "d"} }),
			[]string{"/metadata/a control_character", "/metadata control_character"}},

		{"cost", sms(func(q *Request) { q.Cost = 3 }), nil},
		{"highest cost", sms(func(q *Request) { q.Cost = 1_000_000 }), nil},
		{"cost too high", sms(func(q *Request) { q.Cost = 1_000_001 }), []string{"/cost cost_out_of_range"}},
		{"cost below zero", sms(func(q *Request) { q.Cost = -1 }), []string{"/cost cost_out_of_range"}},
		{"cost of a record", record(func(q *Request) { q.Cost = 1_000_001 }), []string{"/cost cost_out_of_range"}},
		{"suppress reads no cost", &Request{Action: ActionSuppress, To: "a", Cost: -1}, nil},

		{"send now", sms(func(q *Request) { q.SendAt = at(-time.Hour) }), nil},
		{"send in 2000", sms(func(q *Request) { q.SendAt = oldestRequestAt }), nil},
		{"send in 1999", sms(func(q *Request) { q.SendAt = oldestRequestAt - 1 }), []string{"/send_at send_at_out_of_range"}},
		{"send before 1970", sms(func(q *Request) { q.SendAt = -1 }), []string{"/send_at send_at_out_of_range"}},
		{"send in 31 days", sms(func(q *Request) { q.SendAt = at(31 * 24 * time.Hour) }), nil},
		{"send later", sms(func(q *Request) { q.SendAt = at(31*24*time.Hour + time.Millisecond) }), []string{"/send_at send_at_out_of_range"}},
		{"expired", sms(func(q *Request) { q.ExpiresAt = at(-time.Hour) }), nil},
		{"expired in 1999", sms(func(q *Request) { q.ExpiresAt = 1 }), []string{"/expires_at expires_at_out_of_range"}},
		{"at of a send", sms(func(q *Request) { q.At = testNow }), []string{"/at not_permitted"}},
		{"callback", sms(func(q *Request) { q.CallbackURL = "https://example.com/x?y=z" }), nil},
		{"callback to a file", sms(func(q *Request) { q.CallbackURL = "file:///etc/passwd" }), []string{"/callback_url bad_url"}},
		{"callback without host", sms(func(q *Request) { q.CallbackURL = "https:///x" }), []string{"/callback_url bad_url"}},
		{"callback with a line feed", sms(func(q *Request) { q.CallbackURL = "https://a/\n" }), []string{"/callback_url control_character"}},

		{"cancel", &Request{Action: ActionCancel, ID: someUUID, To: "a"}, nil},
		{"release", &Request{Action: ActionRelease, ID: someUUID, To: "a"}, nil},
		{"release nothing", &Request{Action: ActionRelease}, []string{"/to required", "/id required"}},
		{"cancel nothing", &Request{Action: ActionCancel}, []string{"/to required", "/id required"}},
		{"cancel with the message beside it", sms(func(q *Request) { q.Action, q.ID, q.Template = ActionCancel, someUUID, "x y" }), nil},
		{"suppress", &Request{Action: ActionSuppress, To: "a"}, nil},
		{"suppress a class", &Request{Action: ActionSuppress, To: "a", Channel: ChannelEmail, Class: "marketing"}, nil},
		{"suppress for a while", &Request{Action: ActionSuppress, To: "a", ExpiresAt: testNow + 1}, nil},
		{"suppress until now", &Request{Action: ActionSuppress, To: "a", ExpiresAt: testNow}, []string{"/expires_at expires_at_out_of_range"}},
		{"suppress for a reason", &Request{Action: ActionSuppress, To: "a", Metadata: map[string]string{"reason": strings.Repeat("é", 64), "provider": "ses", "more": "x\n"}}, nil},
		{"suppress for a long reason", &Request{Action: ActionSuppress, To: "a", Metadata: map[string]string{"reason": strings.Repeat("é", 65)}}, []string{"/metadata/reason too_long"}},
		{"suppress for lines", &Request{Action: ActionSuppress, To: "a", Metadata: map[string]string{"reason": "a\nb", "provider": "a b"}}, []string{"/metadata/reason control_character", "/metadata/provider bad_name"}},
		{"unsuppress reads no time", &Request{Action: ActionUnsuppress, To: "a", ExpiresAt: 1}, nil},
		{"unsuppress for a long reason", &Request{Action: ActionUnsuppress, To: "a", Metadata: map[string]string{"reason": strings.Repeat("a", 65)}}, []string{"/metadata/reason too_long"}},
		{"suppress nobody", &Request{Action: ActionSuppress}, []string{"/to required"}},
		{"unsuppress on a fax", &Request{Action: ActionUnsuppress, To: "a", Channel: "fax"}, []string{"/channel unknown_value"}},
		{"record", record(func(q *Request) {}), nil},
		{"record of nothing", &Request{Action: ActionRecord}, []string{"/to required", "/channel required", "/at required"}},
		{"record of 1999", record(func(q *Request) { q.At = oldestRequestAt - 1 }), []string{"/at at_out_of_range"}},
		{"record by a fast clock", record(func(q *Request) { q.At = at(time.Minute) }), nil},
		{"record of the future", record(func(q *Request) { q.At = at(time.Minute + time.Millisecond) }), []string{"/at at_out_of_range"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := problemsOf(t, tt.q.Validate(testNow)); !cmp.Equal(got, tt.want) {
				t.Errorf("problems %q, want %q", got, tt.want)
			}
		})
	}
}

func TestValidSendsAreValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := genValidSend().Draw(t, "request")
		if err := q.Validate(testNow); err != nil {
			t.Fatal(err)
		}
	})
}

func TestValidateNeverChangesARequestNorPanics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := genRequest().Draw(t, "request")
		before := RequestJSON(q)
		err := q.Validate(testNow)
		if after := RequestJSON(q); string(before) != string(after) {
			t.Fatalf("%s\n%s", before, after)
		}
		if http := q.ValidateHTTP(testNow); err != nil && http == nil {
			t.Fatalf("HTTP permits what Kafka does not: %v", err)
		}
	})
}

func TestEveryChannelHasContent(t *testing.T) {
	for _, c := range Channels {
		if !slices.ContainsFunc([]string{"/body", "/data"}, func(p string) bool { return channelHas(c, p) }) {
			t.Errorf("channel %s has no content", c)
		}
	}
}
