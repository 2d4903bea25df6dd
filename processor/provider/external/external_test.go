package external_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/bodysign"
	"github.com/weirhq/weir/processor/provider/external"
	"github.com/weirhq/weir/schemas"
)

const secret = "hunter2-hunter2-hunter2"

func listen(t *testing.T, channels ...schemas.Channel) provider.Listener {
	t.Helper()
	l, err := provider.Types{"external": external.Type}.Listen(schemas.Provider{Name: "own", Type: "external", Channels: channels, Settings: map[string]any{"receipt_secret": secret}}, provider.Deps{Private: outbound.Loopback})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var came = time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC)

func hook(body string) *provider.Hook {
	u := &url.URL{Scheme: "https", Host: "weir.example", Path: "/v1/receipts/own", RawQuery: "token=" + secret}
	return &provider.Hook{Method: "POST", URL: u, Header: http.Header{}, Body: []byte(body), At: came}
}

func TestReceipts(t *testing.T) {
	ref := provider.Reference{MessageID: "m1", To: "+8613800000000", Tenant: "acme", Channel: schemas.ChannelSMS, Class: "verify", Attempt: 3}
	byRef := ref.Receipt("own")
	byRef.Status, byRef.At = schemas.StatusDelivered, schemas.MillisOf(came)
	for _, tt := range []struct {
		name, body string
		want       []provider.Receipt
		err        string
	}{
		{"by id", `{"id": "m1", "to": "+8613800000000", "status": "delivered", "at": "2026-11-22T00:59:59Z"}`,
			[]provider.Receipt{{Provider: "own", MessageID: "m1", To: "+8613800000000", Channel: schemas.ChannelSMS, Status: schemas.StatusDelivered, At: schemas.MillisOf(came) - 1000}}, ""},
		{"by the provider's id", `{"provider_message_id": "p1", "status": "undelivered", "error_code": "E17", "error": "the line is dead", "suppress": "invalid"}`,
			[]provider.Receipt{{Provider: "own", ProviderMessageID: "p1", Channel: schemas.ChannelSMS, Status: schemas.StatusUndelivered, At: schemas.MillisOf(came), Code: "E17", Text: "the line is dead", Suppress: schemas.SuppressInvalid}}, ""},
		{"by reference", `{"reference": "` + ref.String() + `", "status": "delivered"}`, []provider.Receipt{byRef}, ""},
		{"a complaint", ` [{"id": "m1", "suppress": "complaint"}]`,
			[]provider.Receipt{{Provider: "own", MessageID: "m1", Channel: schemas.ChannelSMS, At: schemas.MillisOf(came), Suppress: schemas.SuppressComplaint}}, ""},
		{"none", `[]`, []provider.Receipt{}, ""},
		{"of no message", `[{"id": "m1", "status": "delivered"}, {"status": "delivered"}]`, nil, "receipt 1: it names no message"},
		{"of another status", `{"id": "m1", "status": "sent"}`, nil, "status is delivered or undelivered"},
		{"of no status", `{"id": "m1"}`, nil, "status is delivered or undelivered"},
		{"with another reason", `{"id": "m1", "status": "undelivered", "suppress": "whim"}`, nil, "suppress is hard_bounce"},
		{"with another's reference", `{"reference": "AAAA", "status": "delivered"}`, nil, "reference is none that Weir gave"},
		{"a sentence for a code", `{"id": "m1", "status": "undelivered", "error_code": "no such number"}`, nil, "error_code"},
		{"a recipient in the text", `{"id": "m1", "to": "+8613800000000", "status": "undelivered", "error": "8613800000000 is off"}`, nil, "must not hold the recipient"},
		{"a book for a text", `{"id": "m1", "status": "undelivered", "error": "` + strings.Repeat("x", 301) + `"}`, nil, "over 300 bytes"},
		{"a long id", `{"id": "` + strings.Repeat("x", 257) + `", "status": "delivered"}`, nil, "over 256 bytes"},
		{"a field that is not there", `{"id": "m1", "status": "delivered", "secret": "hunter2"}`, nil, "a field that it does not have"},
		{"a type", `{"id": 5, "status": "delivered"}`, nil, "the type of id"},
		{"a time that is none", `{"id": "m1", "status": "delivered", "at": "yesterday"}`, nil, "the syntax"},
		{"two documents", `{"id": "m1", "status": "delivered"}{}`, nil, "the syntax"},
		{"garbage", "\xff", nil, "the syntax"},
		{"nothing", "", nil, "the syntax"},
		{"null", "null", nil, "it names no message"},
		{"too many", `[` + strings.Repeat(`{},`, external.Most) + `{}]`, nil, "at most 10000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, reply, err := listen(t, schemas.ChannelSMS).Receipts(hook(tt.body))
			if tt.err != "" {
				if !errors.Is(err, provider.ErrHook) || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "13800000000") || strings.Contains(err.Error(), "hunter2") || len(got) > 0 {
					t.Errorf("%v, %v; want %q", got, err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil || reply.Status != 0 {
				t.Error(err, diff)
			}
		})
	}
}

func TestInbound(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       provider.Inbound
		err        string
	}{
		{"a message", `{"id": "i1", "from": "+8613800000000", "to": "10690", "text": "TD", "at": "2026-11-22T00:59:59Z"}`,
			provider.Inbound{ID: "i1", From: "+8613800000000", To: "10690", Channel: schemas.ChannelSMS, Text: "TD", At: came.Add(-time.Second)}, ""},
		{"one that is judged already", `[{"from": "a@b.example", "channel": "email", "word": "stop", "tenant": "acme", "class": "news"}]`,
			provider.Inbound{From: "a@b.example", Channel: schemas.ChannelEmail, Word: "stop", Tenant: "acme", Class: "news", At: came}, ""},
		{"of nobody", `{"text": "TD"}`, provider.Inbound{}, "message 0: from is missing"},
		{"on another channel", `{"from": "x", "channel": "pigeon"}`, provider.Inbound{}, "channel is sms"},
		{"another word", `{"from": "x", "word": "perhaps"}`, provider.Inbound{}, "word is stop"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := listen(t, schemas.ChannelSMS).Inbound(hook(tt.body))
			if tt.err != "" {
				if !errors.Is(err, provider.ErrHook) || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%v; want %q", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff([]provider.Inbound{tt.want}, got); diff != "" || err != nil {
				t.Error(err, diff)
			}
		})
	}
	if _, _, err := listen(t, schemas.ChannelSMS, schemas.ChannelVoice).Inbound(hook(`{"from": "x"}`)); !errors.Is(err, provider.ErrHook) {
		t.Errorf("of two channels none is said: %v", err)
	}
}

// TestWhoCalls: the secret, or the signature where there is no secret.
func TestWhoCalls(t *testing.T) {
	types := provider.Types{"none": external.Type}
	const good = `{"id": "m1", "status": "delivered"}`
	h := hook(good)
	h.URL.RawQuery = "token=wrong"
	if _, _, err := listen(t).Receipts(h); !errors.Is(err, provider.ErrForged) {
		t.Error(err)
	}
	p := schemas.Provider{Name: "own", Type: "none", Settings: map[string]any{"sign": map[string]any{"secret": "s3cret-of-both", "header": "X-Sig"}}}
	l, err := types.Listen(p, provider.Deps{Private: outbound.Loopback})
	if err != nil {
		t.Fatal(err)
	}
	h.Header = bodysign.Of(provider.SettingsOf(p, os.Getenv)).Sign("", came, h.Body)
	if got, _, err := l.Receipts(h); err != nil || len(got) != 1 {
		t.Error(err)
	}
	h.Body = append(h.Body, ' ')
	if _, _, err := l.Receipts(h); !errors.Is(err, provider.ErrForged) {
		t.Error(err)
	}
	p.Settings = nil
	if _, err := types.Listen(p, provider.Deps{Private: outbound.Loopback}); !errors.Is(err, provider.ErrNoListener) {
		t.Errorf("with neither: %v", err)
	}
	for want, settings := range map[string]map[string]any{
		"settings.receipt_secret is missing": nil,
		"settings.url is not a setting":      {"url": "http://x", "receipt_secret": secret},
		"settings.sign must be":              {"sign": "x"},
	} {
		p.Settings = settings
		if _, err := types.Listen(p, provider.Deps{Private: outbound.Loopback}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// FuzzReceipts: whatever comes, it is read or refused, and a receipt that is read
// has what the stage needs.
func FuzzReceipts(f *testing.F) {
	f.Add(`{"id": "m1", "status": "delivered"}`)
	f.Add(`[{"provider_message_id": "p", "status": "undelivered", "at": "2026-11-22T00:59:59+08:00"}]`)
	l, err := provider.Types{"external": external.Type}.Listen(schemas.Provider{Name: "own", Type: "external", Settings: map[string]any{"receipt_secret": secret}}, provider.Deps{Private: outbound.Loopback})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		got, _, err := l.Receipts(hook(body))
		if err != nil && !errors.Is(err, provider.ErrHook) {
			t.Error(err)
		}
		for _, r := range got {
			if r.MessageID+r.ProviderMessageID == "" || r.Provider != "own" {
				t.Errorf("%+v", r)
			}
			if _, err := json.Marshal(r); err != nil {
				t.Error(err)
			}
		}
	})
}
