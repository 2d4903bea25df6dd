package bodysign_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/bodysign"
	"github.com/weirhq/weir/schemas"
)

func read(sign any) (bodysign.Scheme, error) {
	in := provider.SettingsOf(schemas.Provider{Settings: map[string]any{"sign": sign}}, func(string) string { return "" })
	return bodysign.Of(in), in.Err()
}

func of(t *testing.T, sign map[string]any) bodysign.Scheme {
	t.Helper()
	s, err := read(sign)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var (
	now    = time.Unix(1795309200, 0)
	secret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
)

func TestKnownSignatures(t *testing.T) {
	for _, tt := range []struct {
		name string
		sign map[string]any
		want http.Header
	}{
		// printf 1795309200.body | openssl dgst -sha256 -hmac s3cret
		{"hex of timestamp and body", map[string]any{"secret": "s3cret", "header": "X-Signature"}, http.Header{"X-Timestamp": {"1795309200"}, "X-Signature": {"9ac9c46ac129729957ff012bc713f420b4070e0f149b490a8479c99a2249020f"}}},
		// printf body | openssl dgst -sha256 -hmac s3cret
		{"hex of the body, with a prefix", map[string]any{"secret": "s3cret", "header": "X-Hub-Signature-256", "signs": "body", "prefix": "sha256="}, http.Header{"X-Hub-Signature-256": {"sha256=63d7d468988fe3de60e994cf90f219719ea4b63df0ee7521079ed251fa76e83d"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := of(t, tt.sign).Sign("m1", now, []byte("body"))
			for k := range tt.want {
				if h.Get(k) != tt.want.Get(k) {
					t.Errorf("%s: %s, want %s", k, h.Get(k), tt.want.Get(k))
				}
			}
			if len(h) != len(tt.want) {
				t.Errorf("%v", h)
			}
		})
	}
}

// TestStandardWebhooks: the official library takes what is signed, and what it signs
// is verified.
func TestStandardWebhooks(t *testing.T) {
	w, err := webhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	s := of(t, map[string]any{"secret": secret})
	body := []byte(`{"a": "ü"}`)
	if err := w.VerifyIgnoringTimestamp(body, s.Sign("m1", now, body)); err != nil {
		t.Error(err)
	}
	sig, err := w.Sign("m2", now, body)
	if err != nil {
		t.Fatal(err)
	}
	h := &provider.Hook{At: now, Body: body, Header: http.Header{"Webhook-Id": {"m2"}, "Webhook-Timestamp": {"1795309200"}, "Webhook-Signature": {"v1,AAAA " + sig}}}
	if err := s.Verify(h); err != nil {
		t.Error(err)
	}
}

func TestVerify(t *testing.T) {
	for name, sign := range map[string]map[string]any{
		"standard": {"secret": secret}, "own": {"secret": "s3cret", "header": "X-Sig", "encoding": "base64"}, "body": {"secret": "s3cret", "header": "X-Sig", "signs": "body"},
	} {
		t.Run(name, func(t *testing.T) {
			s := of(t, sign)
			for what, change := range map[string]func(*provider.Hook){
				"nothing": func(*provider.Hook) {},
				"body":    func(h *provider.Hook) { h.Body = []byte("other") },
				"another secret": func(h *provider.Hook) {
					h.Header = of(t, with(sign, "secret", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAA")).Sign("m1", now, h.Body)
				},
				"no headers":           func(h *provider.Hook) { h.Header = http.Header{} },
				"late":                 func(h *provider.Hook) { h.At = now.Add(bodysign.Tolerance + time.Second) },
				"early":                func(h *provider.Hook) { h.At = now.Add(-bodysign.Tolerance - time.Second) },
				"in time":              func(h *provider.Hook) { h.At = now.Add(bodysign.Tolerance) },
				"id":                   func(h *provider.Hook) { h.Header.Set("Webhook-Id", "m2") },
				"signed without an id": func(h *provider.Hook) { h.Header = s.Sign("", now, h.Body); h.Header.Del("Webhook-Id") },
				"time": func(h *provider.Hook) {
					h.Header.Set("Webhook-Timestamp", "1795309201")
					h.Header.Set("X-Timestamp", "1795309201")
				},
			} {
				h := &provider.Hook{At: now, Body: []byte("body"), Header: s.Sign("m1", now, []byte("body"))}
				change(h)
				ok := what == "nothing" || what == "in time" || (what == "id" || what == "signed without an id") && name != "standard" ||
					name == "body" && (what == "late" || what == "early" || what == "time")
				if err := s.Verify(h); (err == nil) != ok || err != nil && !errors.Is(err, provider.ErrForged) {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
	if err := (bodysign.Scheme{}).Verify(&provider.Hook{Header: http.Header{}}); !errors.Is(err, provider.ErrForged) {
		t.Errorf("no scheme at all: %v", err)
	}
}

func with(in map[string]any, k string, v any) map[string]any {
	out := map[string]any{}
	for k, v := range in {
		out[k] = v
	}
	out[k] = v
	return out
}

func TestSettings(t *testing.T) {
	for _, tt := range []struct {
		name string
		sign any
		want string
	}{
		{"text", "x", "settings.sign must be a mapping"},
		{"no secret", map[string]any{"header": "X"}, "settings.sign.secret is missing"},
		{"secret that the environment lacks", map[string]any{"secret": "${NOPE}"}, "settings.sign.secret: the environment has no NOPE"},
		{"secret that is no base64", map[string]any{"secret": "hunter2!"}, "settings.sign.secret cannot sign: a webhook's secret is base64"},
		{"algorithm", map[string]any{"secret": "x", "header": "X", "algorithm": "md5"}, "settings.sign.algorithm must be one of sha256"},
		{"header", map[string]any{"secret": "x", "header": "X Y"}, "settings.sign.header cannot be a header's name"},
		{"prefix", map[string]any{"secret": "x", "header": "X", "prefix": "a\r\nb"}, "settings.sign.prefix holds"},
		{"header's part without header", map[string]any{"secret": secret, "encoding": "hex"}, "settings.sign.encoding is not a setting"},
		{"unknown", map[string]any{"secret": secret, "key": "x"}, "settings.sign.key is not a setting"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := read(tt.sign)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
