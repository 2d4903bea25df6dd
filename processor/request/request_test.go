package request

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

func headers(of ...string) (out []kgo.RecordHeader) {
	for i := 0; i < len(of); i += 2 {
		out = append(out, kgo.RecordHeader{Key: of[i], Value: []byte(of[i+1])})
	}
	return out
}

// TestHeaders: what is Weir's own is not believed where producers write, and does
// not go on.
func TestHeaders(t *testing.T) {
	r := &kgo.Record{Key: []byte("theirs"), Value: []byte("v"), Headers: headers("WEIR-Key", "forged", "weir-id", "forged", "Content-Type", "text/x", "weirdo", "1")}
	find := Header(r)
	if v, ok := find("content-type"); !ok || v != "text/x" {
		t.Errorf("content-type %q, %v", v, ok)
	}
	for _, name := range []string{"weir-key", "WEIR-Key", "weir-id", "gone"} {
		if v, ok := find(name); ok {
			t.Errorf("%s is believed: %q", name, v)
		}
	}
	for _, key := range []string{"", "theirs too"} {
		out := Onward(r, "to", 3, &schemas.Envelope{Key: key, Tenant: "acme"})
		got := make(map[string]string)
		for _, h := range out.Headers {
			got[h.Key] = string(h.Value)
		}
		want := "theirs"
		if key != "" {
			want = key
		}
		if string(out.Key) != want || string(out.Value) != "v" || out.Topic != "to" || out.Partition != 3 || got["weirdo"] != "1" || got["WEIR-Key"] != "" || got["weir-id"] != "" || got["weir-tenant"] != "acme" {
			t.Errorf("passed on under %q with %v", out.Key, got)
		}
	}
}

func TestTime(t *testing.T) {
	at := schemas.MillisOf(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	for name, tt := range map[string]struct {
		headers []kgo.RecordHeader
		want    schemas.Millis
	}{
		"none":                    {nil, 0},
		"its own":                 {headers("weir-timestamp", "2026-11-21T09:00:00Z"), at},
		"in any case":             {headers("Weir-Timestamp", "2026-11-21T09:00:00Z"), at},
		"CloudEvents'":            {headers("ce_time", "2026-11-21T09:00:00Z"), at},
		"its own beats the other": {headers("ce_time", "2026-11-20T09:00:00Z", "weir-timestamp", "2026-11-21T09:00:00Z"), at},
		"no time":                 {headers("weir-timestamp", "yesterday"), 0},
	} {
		if got := Time(&kgo.Record{Headers: tt.headers}); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

type coded struct{}

func (coded) Error() string { return "text" }
func (coded) Code() string  { return "code" }

func TestReason(t *testing.T) {
	_, unread := schemas.DecodeRequest([]byte("x"), nil)
	for _, tt := range []struct {
		err  error
		want string
	}{{unread, "not_json"}, {coded{}, "code"}, {errors.New("x"), "invalid"}} {
		if got := Reason(tt.err); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.err, got, tt.want)
		}
	}
}

// TestDescribe: what a request leaves out is filled in, but not for actions that
// cover everything that they do not name.
func TestDescribe(t *testing.T) {
	pol := &schemas.Policy{Classes: []schemas.Class{{Name: "verify", Priority: schemas.PriorityUrgent, ExpiresAfter: schemas.Duration(time.Minute)}}}
	env, event := schemas.Envelope{AcceptedAt: 1000}, schemas.Event{}
	q := schemas.Request{Class: "verify", Channel: schemas.ChannelSMS, To: "12"}
	Describe(&q, pol, &env, &event)
	if q.Tenant != "default" || env.Tenant != "default" || env.Priority != schemas.PriorityUrgent || env.ExpiresAt != 61_000 || event.Class != "verify" || event.To != "12" {
		t.Errorf("%+v %+v %+v", q, env, event)
	}
	env, event = schemas.Envelope{AcceptedAt: 1000}, schemas.Event{}
	q = schemas.Request{Action: schemas.ActionSuppress, To: "12"}
	Describe(&q, pol, &env, &event)
	if q.Tenant != "" || q.Class != "" || env.Tenant != "" || env.ExpiresAt != 0 || event.To != "12" {
		t.Errorf("a suppression of all: %+v %+v %+v", q, env, event)
	}
	for _, tt := range []struct {
		q    schemas.Request
		want schemas.Millis
	}{{schemas.Request{}, 61_000}, {schemas.Request{SendAt: 5000}, 65_000}, {schemas.Request{SendAt: 500}, 61_000}, {schemas.Request{SendAt: 5000, ExpiresAt: 7}, 7}} {
		if got := Expires(&tt.q, 1000, &pol.Classes[0]); got != tt.want {
			t.Errorf("%+v expires at %d, want %d", tt.q, got, tt.want)
		}
	}
}

func TestRecipientWithoutChannel(t *testing.T) {
	pol := &schemas.Policy{Tenants: []schemas.Tenant{{Name: "default", DefaultRegion: "CN"}}}
	for _, c := range []struct{ to, channel, want string }{
		{"138 0000 0000", "", "+8613800000000"},
		{"+8613800000000", "", "+8613800000000"},
		{"a@Example.COM", "", "a@example.com"},
		{"HTTPS://Example.com/x", "", "https://example.com/x"},
		{"token-17", "", "token-17"},
		{"13800000000", "push", "13800000000"},
		{"12", "", ""}, // neither a number nor clearly a token
	} {
		got, err := Addressee(&schemas.Request{To: c.to, Channel: schemas.Channel(c.channel)}, pol)
		if got.Key != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q on %q is %q, %v; want %q", c.to, c.channel, got.Key, err, c.want)
		}
	}
}
