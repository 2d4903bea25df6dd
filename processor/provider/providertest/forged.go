package providertest

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/weirhq/weir/processor/provider"
)

// forged calls the listener with requests that nobody signed.
func (e *env) forged() {
	l, err := provider.Types{e.a.Name: e.a.Type}.Listen(e.policy(e.settings()), e.deps)
	if err != nil {
		e.Fatalf("listen: %v", err)
	}
	reads := 0
	for _, tt := range []struct{ name, query, kind, auth, body string }{
		{"nothing", "", "", "", ""},
		{"JSON", "", "application/json", "", `{"id": "x", "status": "delivered"}`},
		{"JSON array", "", "application/json", "", `[{"status": "DELIVERED"}]`},
		{"a form", "", "application/x-www-form-urlencoded", "", "MessageSid=x&MessageStatus=delivered"},
		{"a wrong token", "?token=wrong", "application/json", "", `{}`},
		{"an empty token", "?token=", "application/json", "", `[]`},
		{"a wrong password", "", "application/json", "Basic d2Vpcjp3cm9uZw==", `[]`},
		{"bytes", "", "text/plain", "Basic \xff", "\x00\xff\xfe"},
	} {
		for path, read := range map[string]func(*provider.Hook) error{
			"/v1/receipts/theirs": func(h *provider.Hook) error { _, _, err := l.Receipts(h); return err },
			"/v1/inbound/theirs":  func(h *provider.Hook) error { _, _, err := l.Inbound(h); return err },
		} {
			u, err := url.Parse(e.deps.PublicURL + path + tt.query)
			if err != nil {
				e.Fatal(err)
			}
			h := http.Header{}
			if tt.kind != "" {
				h.Set("Content-Type", tt.kind)
			}
			if tt.auth != "" {
				h.Set("Authorization", tt.auth)
			}
			err = read(&provider.Hook{Method: http.MethodPost, URL: u, Header: h, Body: []byte(tt.body), At: time.Now(), Source: "203.0.113.9"})
			switch {
			case errors.Is(err, provider.ErrForged):
				reads++
			case errors.Is(err, provider.ErrNoHook):
			default:
				e.Errorf("%s to %s: %v, want ErrForged", tt.name, path, err)
			}
		}
	}
	if reads == 0 {
		e.Errorf("the listener reads neither receipts nor inbound messages")
	}
}
