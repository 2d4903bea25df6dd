package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirhq/weir/ingest/client"
)

func quietLog() *log.Logger { return log.New(io.Discard, "", 0) }

// The key goes only where nobody can read it on the way.
func TestWhereTheKeyGoes(t *testing.T) {
	tests := []struct {
		base, key string
		plain     bool
		ok        bool
	}{
		{base: "https://weir.example", key: "k", ok: true},
		{base: "https://weir.example/behind/a/proxy/", key: "k", ok: true},
		{base: "http://127.0.0.1:8080", key: "k", ok: true},
		{base: "http://127.255.3.4", key: "k", ok: true},
		{base: "http://[::1]:8080", key: "k", ok: true},
		{base: "http://[::ffff:127.0.0.1]:8080", key: "k", ok: true},
		{base: "http://localhost:8080", key: "k", ok: true},
		{base: "http://LOCALHOST.:8080", key: "k", ok: true},
		{base: "http://weir.localhost", key: "k", ok: true},
		{base: "http://weir.example", ok: true},
		{base: "http://weir.example", key: "k", plain: true, ok: true},
		{base: "http://weir.example", key: "k"},
		{base: "HTTP://weir.example", key: "k"},
		{base: "http://10.0.0.1", key: "k"},
		{base: "http://127.0.0.1.example.com", key: "k"},
		{base: "http://localhost.example.com", key: "k"},
		{base: "http://notlocalhost", key: "k"},
		{base: "http://[fe80::1]", key: "k"},
		{base: "http://0.0.0.0", key: "k"},
		{base: "https://user:pass@weir.example"},
		{base: "https://weir.example?x=1"},
		{base: "https://weir.example", key: "k\nX-Other: 1"},
		{base: "https://weir.example", key: "k k"},
		{base: "ftp://weir.example"},
		{base: "weir.example:8080"},
		{base: "::"},
		{base: ""},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.base, tt.plain), func(t *testing.T) {
			asked := false
			options := []client.Option{client.WithHTTPClient(&http.Client{Transport: handler(func(w http.ResponseWriter, r *http.Request) {
				asked = true
				if got := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "); got != tt.key {
					t.Errorf("the key is %q", got)
				}
				accept(w)
			})})}
			if tt.plain {
				options = append(options, client.AllowPlainHTTP())
			}
			_, err := client.New(tt.base, tt.key, options...).Send(t.Context(), message)
			if (err == nil) != tt.ok || asked != tt.ok || errors.Is(err, client.ErrConfig) == tt.ok {
				t.Errorf("asked: %v: %v", asked, err)
			}
		})
	}
}

// Neither the key nor the recipient shows in errors or when a client is
// printed, and the key is not taken along by a redirect.
func TestSecretsStay(t *testing.T) {
	const key, to = "weir_live_secret", "+8613800000000"
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("redirected, with %q", r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	defer srv.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, base := range []string{srv.URL, gone.URL, "http://weir.example", "http://%zz" + key} {
		c := client.New(base, key, client.WithRetry(quick))
		calls := map[string]func(context.Context) error{
			"send":   func(ctx context.Context) error { _, err := c.Send(ctx, message); return err },
			"list":   func(ctx context.Context) error { _, err := c.List(ctx, client.MessageQuery{To: to}); return err },
			"quota":  func(ctx context.Context) error { _, err := c.Quota(ctx, client.QuotaQuery{To: to}); return err },
			"cancel": func(ctx context.Context) error { _, err := c.Cancel(ctx, "x", client.Recipient{To: to}); return err },
			"events": func(ctx context.Context) error {
				for _, err := range c.Events(ctx, client.EventQuery{To: to}) {
					return err
				}
				return nil
			},
		}
		for name, call := range calls {
			err := call(t.Context())
			if err == nil {
				t.Errorf("%s %s succeeds", base, name)
				continue
			}
			for _, secret := range []string{key, to, to[1:]} {
				if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), secret) {
					t.Errorf("%s %s: %v", base, name, err)
				}
			}
		}
		if text := fmt.Sprintf("%v %+v %#v %+v", c, c, c, *c); strings.Contains(text, key) && !strings.Contains(base, key) {
			t.Errorf("printed: %s", text)
		}
	}
}
