package outbound

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestGet(t *testing.T) {
	followed := false
	mux := http.NewServeMux()
	mux.HandleFunc("/a.pem", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	mux.HandleFunc("/elsewhere", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/followed", http.StatusFound) })
	mux.HandleFunc("/followed", func(http.ResponseWriter, *http.Request) { followed = true })
	mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", maxGot+1)) })
	srv := httptest.NewTLSServer(mux)
	defer srv.Close()
	networks, err := ParseNetworks([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, address string
		allow         Networks
		code          int
		body          string
		refused, bad  bool
	}{
		{"an answer", srv.URL + "/a.pem", networks, 200, "hello", false, false},
		{"a redirect is not followed", srv.URL + "/elsewhere", networks, 302, "", false, false},
		{"a long answer", srv.URL + "/long?secret", networks, 0, "", false, true},
		{"a private address", srv.URL + "/a.pem?secret", nil, 0, "", true, true},
		{"not encrypted", strings.Replace(srv.URL, "https", "http", 1) + "/?secret", networks, 0, "", false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := New(Config{Allow: tt.allow})
			defer c.Close()
			c.http.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
			a, err := c.Get(t.Context(), tt.address)
			if (err != nil) != tt.bad || errors.Is(err, ErrRefused) != tt.refused || err != nil && strings.Contains(err.Error(), "secret") {
				t.Fatal(err)
			}
			if err == nil && (a.Code != tt.code || tt.body != "" && a.Body != tt.body) {
				t.Errorf("%+v", a)
			}
		})
	}
	if followed {
		t.Error("the redirect was followed")
	}
	// An address that nobody vouches for.
	c := New(Config{Allow: networks})
	defer c.Close()
	if a, err := c.Get(t.Context(), srv.URL+"/a.pem"); err == nil {
		t.Errorf("%+v", a)
	}
}
