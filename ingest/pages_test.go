package ingest

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/weirhq/weir/ingest/console"
)

func TestConsole(t *testing.T) {
	built, err := console.New(fstest.MapFS{"index.html": {Data: []byte("<p>index")}, "assets/a.js": {Data: []byte("let a")}})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, settings{keys: true, policy: keyedPolicy, server: func(s *Server) { s.console = built }}) // nobody has a key yet who sees it
	ask := func(method, path string, headers ...string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequest(method, "http://"+w.addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultTransport.RoundTrip(req) // follows nothing
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(body)
	}
	for _, c := range []struct {
		method, path string
		code         int
		body, header string
	}{
		{"GET", "/", 302, "", "Location: /console/"},
		{"HEAD", "/", 302, "", "Location: /console/"},
		{"GET", "/console", 302, "", "Location: /console/"},
		{"GET", "/console/", 200, "<p>index", "Content-Security-Policy: " + console.Policy},
		{"HEAD", "/console/", 200, "", "Content-Length: 8"},
		{"GET", "/console/assets/a.js", 200, "let a", "Cache-Control: public, max-age=31536000, immutable"},
		{"GET", "/console/assets/a.js", 200, "let a", "X-Content-Type-Options: nosniff"},
		{"GET", "/console/recipients", 404, `"not_found"`, "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'"},
		{"GET", "/console/../healthz", 404, `"not_found"`, "Cache-Control: no-store"},
		{"GET", "/console/%2e%2e/healthz", 404, `"not_found"`, "Content-Type: application/problem+json"},
		{"POST", "/console/", 405, `"method_not_allowed"`, "Allow: GET, HEAD, OPTIONS"},
		{"DELETE", "/", 405, `"method_not_allowed"`, "Allow: GET, HEAD, OPTIONS"},
		{"OPTIONS", "/console/", 204, "", "Allow: GET, HEAD, OPTIONS"},
		{"GET", "/consoles/", 404, `"not_found"`, ""},
		{"GET", "/v1/messages", 401, `"unauthenticated"`, "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'"},
	} {
		resp, body := ask(c.method, c.path)
		name, value, _ := strings.Cut(c.header, ": ")
		if resp.StatusCode != c.code || !strings.Contains(body, c.body) || name != "" && resp.Header.Get(name) != value {
			t.Errorf("%s %s: %d %q %v", c.method, c.path, resp.StatusCode, body, resp.Header)
		}
	}
	if _, body := ask("GET", "/metrics"); !strings.Contains(body, `weir_http_request_seconds_count{code="200",route="/console/*"}`) {
		t.Error("the pages are not measured by themselves")
	}
	// Where the role is absent there are none.
	w = newWorld(t, settings{})
	for _, path := range []string{"/", "/console", "/console/", "/console/assets/a.js"} {
		w.do("GET", path, "").problem(http.StatusNotFound, "not_found")
	}
}
