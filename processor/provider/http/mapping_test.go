package http_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	httpprovider "github.com/weirhq/weir/processor/provider/http"
	"github.com/weirhq/weir/schemas"
)

// TestAFieldOfTheAnswerDecides: 200 with an error inside.
func TestAFieldOfTheAnswerDecides(t *testing.T) {
	with := func(more map[string]any) map[string]any {
		in := map[string]any{"field": "result.code", "values": map[string]any{
			"OK": "accepted", "0": "accepted", "true": "accepted",
			"LIMITED":     "throttled",
			"BAD_NUMBER":  map[string]any{"outcome": "permanent", "may_be_received": false},
			"HANDSET_OFF": map[string]any{"outcome": "transient", "may_be_received": false, "of_recipient": true},
			"ODD":         "permanent",
			"BUSY":        map[string]any{"outcome": "throttled", "may_be_received": true},
			"SLOW_ONE":    map[string]any{"outcome": "throttled", "of_recipient": true},
			"SLOW_ALL":    map[string]any{"outcome": "throttled", "of_recipient": false},
			"4711":        map[string]any{"outcome": "unknown", "of_recipient": true},
		}}
		for k, v := range more {
			in[k] = v
		}
		return map[string]any{"2xx": in, "502": in, "409": map[string]any{"outcome": "transient", "may_be_received": true}}
	}
	plain := with(nil)
	code := func(c string) string { return "the provider answered 200 OK" + c }
	unknown := provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "http_200", Text: code("")}
	for _, tt := range []struct {
		name   string
		status int
		body   string
		remap  map[string]any
		want   provider.Outcome
	}{
		{name: "text", body: `{"id": "x", "result": {"code": "OK"}}`, want: provider.Outcome{Kind: provider.Accepted, ProviderMessageID: "x"}},
		{name: "a number", body: `{"result": {"code": 0}}`, want: provider.Outcome{Kind: provider.Accepted}},
		{name: "a truth", body: `{"result": {"code": true}}`, want: provider.Outcome{Kind: provider.Accepted}},
		{name: "throttled is not received", body: `{"result": {"code": "LIMITED"}}`, want: provider.Outcome{Kind: provider.Throttled, Code: "http_200", Text: code(", code LIMITED"), RetryAfter: 3 * time.Second}},
		{name: "throttled, perhaps received", body: `{"result": {"code": "BUSY"}}`, want: provider.Outcome{Kind: provider.Throttled, MayBeReceived: true, Code: "http_200", Text: code(", code BUSY"), RetryAfter: 3 * time.Second}},
		{name: "permanent, said to be refused", body: `{"result": {"code": "BAD_NUMBER"}}`, want: provider.Outcome{Kind: provider.Permanent, Code: "http_200", Text: code(", code BAD_NUMBER")}},
		{name: "permanent, as the status goes", body: `{"result": {"code": "ODD"}}`, want: provider.Outcome{Kind: provider.Permanent, MayBeReceived: true, Code: "http_200", Text: code(", code ODD")}},
		{name: "the recipient's", body: `{"result": {"code": "HANDSET_OFF"}}`, want: provider.Outcome{Kind: provider.Transient, OfRecipient: true, Code: "http_200", Text: code(", code HANDSET_OFF"), RetryAfter: 3 * time.Second}},
		{name: "unknown, the recipient's", body: `{"result": {"code": 4711}}`, want: provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, OfRecipient: true, Code: "http_200", Text: code(", code 4711")}},
		{name: "the map says who is throttled", body: `{"result": {"code": "SLOW_ONE"}, "of_recipient": false}`, want: provider.Outcome{Kind: provider.Throttled, OfRecipient: true, Code: "http_200", Text: code(", code SLOW_ONE"), RetryAfter: 3 * time.Second}},
		{name: "the map says that all are throttled", body: `{"result": {"code": "SLOW_ALL"}, "of_recipient": true}`, want: provider.Outcome{Kind: provider.Throttled, OfProvider: true, Code: "http_200", Text: code(", code SLOW_ALL"), RetryAfter: 3 * time.Second}},
		{name: "the answer says who is throttled", status: 429, body: `{"of_recipient": true}`, want: provider.Outcome{Kind: provider.Throttled, OfRecipient: true, Code: "http_429", Text: "the provider answered 429 Too Many Requests", RetryAfter: 3 * time.Second}},
		{name: "the answer says that all are throttled", status: 429, body: `{"of_recipient": false}`, want: provider.Outcome{Kind: provider.Throttled, OfProvider: true, Code: "http_429", Text: "the provider answered 429 Too Many Requests", RetryAfter: 3 * time.Second}},
		{name: "the answer does not say", status: 429, body: `{"of_recipient": "some"}`, want: provider.Outcome{Kind: provider.Throttled, Code: "http_429", Text: "the provider answered 429 Too Many Requests", RetryAfter: 3 * time.Second}},
		{name: "a failure that is no throttling is the provider's", status: 503, body: `{"of_recipient": true}`, want: provider.Outcome{Kind: provider.Transient, Code: "http_503", Text: "the provider answered 503 Service Unavailable", RetryAfter: 3 * time.Second}},
		{name: "not listed", body: `{"result": {"code": "NEW"}}`, want: unknown},
		{name: "not there", body: `{"result": {}}`, want: unknown},
		{name: "not an object", body: `{"result": "OK"}`, want: unknown},
		{name: "an object", body: `{"result": {"code": {}}}`, want: unknown},
		{name: "not listed, with else", body: `{"result": {"code": "NEW"}}`, remap: with(map[string]any{"else": "permanent"}), want: provider.Outcome{Kind: provider.Permanent, MayBeReceived: true, Code: "http_200", Text: code(", code NEW")}},
		{name: "not there, with else", body: `[]`, remap: with(map[string]any{"else": "accepted"}), want: provider.Outcome{Kind: provider.Accepted}},
		{name: "garbage is not else", body: `OK`, remap: with(map[string]any{"else": "accepted"}), want: unknown},
		{name: "nothing is not else", body: ``, remap: with(map[string]any{"else": "accepted"}), want: unknown},
		{name: "over 64 KiB is not else", body: `{"result": {"code": "OK"}, "x": "` + strings.Repeat("x", 64<<10) + `"}`, remap: with(map[string]any{"else": "permanent"}), want: unknown},
		{name: "a gateway's error keeps its own meaning", status: 502, body: `<html>`, want: provider.Outcome{Kind: provider.Transient, MayBeReceived: true, Code: "http_502", Text: "the provider answered 502 Bad Gateway", RetryAfter: 3 * time.Second}},
		{name: "a provider's error does not", status: 502, body: `{"result": {"code": "BAD_NUMBER"}}`, want: provider.Outcome{Kind: provider.Permanent, Code: "http_502", Text: "the provider answered 502 Bad Gateway, code BAD_NUMBER"}},
		{name: "a status that says more", status: 409, want: provider.Outcome{Kind: provider.Transient, MayBeReceived: true, Code: "http_409", Text: "the provider answered 409 Conflict", RetryAfter: 3 * time.Second}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", "3")
				if tt.status != 0 {
					w.WriteHeader(tt.status)
				}
				_, _ = io.WriteString(w, tt.body)
			}))
			defer srv.Close()
			remap := tt.remap
			if remap == nil {
				remap = plain
			}
			if diff := cmp.Diff(tt.want, at(t, srv.URL, ample, map[string]any{"map": remap})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestCodesThatRepeatWhatWasSent are not told: an answer's code may be the code
// that was to be sent, a device's token or the operator's secret.
func TestCodesThatRepeatWhatWasSent(t *testing.T) {
	c := call
	c.To = "dGhpcyBpcyBhIGRldmljZSB0b2tlbg"
	c.Vars = map[string]string{"code": "482913"}
	for _, tt := range []struct{ code, text string }{
		{`"E17"`, ", code E17"},
		{`"quota_exceeded"`, ", code quota_exceeded"},
		{`482913`, ""},
		{`"` + c.To + `"`, ""},
		{`"` + c.To[2:20] + `"`, ""},
		{`"` + secret + `"`, ""},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(400)
			_, _ = io.WriteString(w, `{"code": `+tt.code+`}`)
		}))
		call := c
		if o := openAt(t, srv.URL, nil).Send(t.Context(), &call); o.Text != "the provider answered 400 Bad Request"+tt.text {
			t.Errorf("%s: %s", tt.code, o.Text)
		}
		srv.Close()
	}
}

func TestMapsThatAreRefused(t *testing.T) {
	field := func(more map[string]any) map[string]any {
		in := map[string]any{"field": "code", "values": map[string]any{"0": "accepted"}}
		for k, v := range more {
			in[k] = v
		}
		return map[string]any{"2xx": in}
	}
	outcome := func(in map[string]any) map[string]any { return map[string]any{"409": in} }
	for _, tt := range []struct {
		name string
		m    any
		want string
	}{
		{"a list", []any{}, "settings.map must be a mapping"},
		{"a number", map[string]any{"409": 1}, "settings.map.409 must be one of"},
		{"no outcome", outcome(map[string]any{"of_recipient": true}), "settings.map.409.outcome must be one of"},
		{"an unknown word", outcome(map[string]any{"outcome": "permanent", "recieved": false}), "settings.map.409.recieved is not a setting"},
		{"accepted and not received", outcome(map[string]any{"outcome": "accepted", "may_be_received": false}), "settings.map.409.may_be_received"},
		{"unknown and not received", outcome(map[string]any{"outcome": "unknown", "may_be_received": false}), "settings.map.409.may_be_received"},
		{"received as text", outcome(map[string]any{"outcome": "permanent", "may_be_received": "no"}), "settings.map.409.may_be_received"},
		{"accepted of the recipient", outcome(map[string]any{"outcome": "accepted", "of_recipient": true}), "settings.map.409.of_recipient"},
		{"a field without a name", field(map[string]any{"field": "a..b"}), "settings.map.2xx.field"},
		{"a field that is a number", field(map[string]any{"field": 3}), "settings.map.2xx.field"},
		{"no values", field(map[string]any{"values": map[string]any{}}), "settings.map.2xx.values"},
		{"a value to nothing", field(map[string]any{"values": map[string]any{"1": "fine"}}), "settings.map.2xx.values.1 must be one of"},
		{"else to nothing", field(map[string]any{"else": "fine"}), "settings.map.2xx.else must be one of"},
		{"a word that is not of a field", field(map[string]any{"default": "accepted"}), "settings.map.2xx.default is not a setting"},
		{"a proxy that is none", nil, "settings.proxy is not an http or https address"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			settings := map[string]any{"url": "http://x", "map": tt.m}
			if tt.m == nil {
				settings["proxy"] = "ftp://user:hunter2@x"
			}
			_, err := provider.Types{"http": {Open: httpprovider.Open}}.Open(schemas.Provider{Name: "p", Type: "http", Settings: settings}, provider.Deps{Private: outbound.Loopback})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
