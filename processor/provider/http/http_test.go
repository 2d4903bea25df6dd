package http_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	httpprovider "github.com/weirhq/weir/processor/provider/http"
	"github.com/weirhq/weir/schemas"
)

func open(t *testing.T, settings map[string]any) provider.Provider {
	t.Helper()
	p, err := provider.Types{"http": {Open: httpprovider.Open}}.Open(schemas.Provider{Name: "p", Type: "http", Settings: settings}, provider.Deps{Private: outbound.Loopback,
		Getenv: func(k string) string { return map[string]string{"TOKEN": "s3cret"}[k] },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

var call = provider.Call{
	ID: "0193f1a0-0000-7000-8000-000000000001", Attempt: 2, To: "+8613800000000", From: "Weir", Channel: schemas.ChannelSMS,
	Content: content.Content{Body: "code <1>"}, Template: "login", Vars: map[string]string{"code": "1"}, Data: map[string]string{"a": "b"},
}

func send(t *testing.T, p provider.Provider, timeout time.Duration) provider.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	c := call
	return p.Send(ctx, &c)
}

func TestRequestAsDocumented(t *testing.T) {
	var got struct {
		Method  string
		Header  http.Header
		Body    map[string]any
		Decoded error
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Method, got.Header = r.Method, r.Header
		got.Decoded = json.NewDecoder(r.Body).Decode(&got.Body)
		fmt.Fprint(w, `{"id": "abc-1"}`)
	}))
	defer srv.Close()
	o := send(t, open(t, map[string]any{"url": srv.URL, "headers": map[string]any{"Authorization": "Bearer ${TOKEN}"}}), 5*time.Second)
	if diff := cmp.Diff(provider.Outcome{Kind: provider.Accepted, ProviderMessageID: "abc-1"}, o); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]any{
		"id": call.ID, "to": call.To, "from": "Weir", "channel": "sms", "body": "code <1>", "data": map[string]any{"a": "b"},
		"template": "login", "vars": map[string]any{"code": "1"}, "attempt": 2.0,
	}, got.Body); diff != "" || got.Decoded != nil {
		t.Error(got.Decoded, diff)
	}
	if got.Method != "POST" || got.Header.Get("Idempotency-Key") != call.ID || got.Header.Get("Authorization") != "Bearer s3cret" || got.Header.Get("Content-Type") != "application/json" || got.Header.Get("Accept-Encoding") != "" {
		t.Errorf("%s %v", got.Method, got.Header)
	}
}

func TestAnswers(t *testing.T) {
	var followed atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	defer elsewhere.Close()
	date := time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat)
	for _, tt := range []struct {
		name   string
		status int
		header map[string]string
		body   string
		remap  map[string]any
		want   provider.Outcome
		wait   time.Duration // least RetryAfter, where it is not exact
	}{
		{name: "200 with a numeric id", status: 200, body: `{"id": 12345678901234567890}`, want: provider.Outcome{Kind: provider.Accepted, ProviderMessageID: "12345678901234567890"}},
		{name: "202 with garbage", status: 202, body: "\x00\xff<html>", want: provider.Outcome{Kind: provider.Accepted}},
		{name: "200 with an error inside is accepted unless mapped", status: 200, body: `{"error": "no"}`, want: provider.Outcome{Kind: provider.Accepted}},
		{name: "200 with an object as id", status: 200, body: `{"id": {}}`, want: provider.Outcome{Kind: provider.Accepted}},
		{name: "200 with 10 MB", status: 200, body: strings.Repeat("x", 10<<20), want: provider.Outcome{Kind: provider.Accepted}},
		{name: "204", status: 204, want: provider.Outcome{Kind: provider.Accepted}},
		{name: "429 with seconds", status: 429, header: map[string]string{"Retry-After": "7"}, want: provider.Outcome{Kind: provider.Throttled, RetryAfter: 7 * time.Second, Code: "http_429", Text: "the provider answered 429 Too Many Requests"}},
		{name: "429 with a date", status: 429, header: map[string]string{"Retry-After": date}, wait: 80 * time.Second, want: provider.Outcome{Kind: provider.Throttled, Code: "http_429", Text: "the provider answered 429 Too Many Requests"}},
		{name: "429 with a year", status: 429, header: map[string]string{"Retry-After": "31536000"}, want: provider.Outcome{Kind: provider.Throttled, RetryAfter: time.Hour, Code: "http_429", Text: "the provider answered 429 Too Many Requests"}},
		{name: "503 was not received", status: 503, want: provider.Outcome{Kind: provider.Transient, Code: "http_503", Text: "the provider answered 503 Service Unavailable"}},
		{name: "500 perhaps", status: 500, body: `{"code": "E17"}`, want: provider.Outcome{Kind: provider.Transient, MayBeReceived: true, Code: "http_500", Text: "the provider answered 500 Internal Server Error, code E17"}},
		{name: "400", status: 400, body: `{"code": 4001, "message": "no +8613800000000"}`, want: provider.Outcome{Kind: provider.Permanent, Code: "http_400", Text: "the provider answered 400 Bad Request, code 4001"}},
		{name: "400 with a recipient as code", status: 400, body: `{"code": "8613800000000"}`, want: provider.Outcome{Kind: provider.Permanent, Code: "http_400", Text: "the provider answered 400 Bad Request"}},
		{name: "302 is not followed", status: 302, header: map[string]string{"Location": elsewhere.URL}, want: provider.Outcome{Kind: provider.Transient, MayBeReceived: true, Code: "http_302", Text: "the provider answered 302 Found"}},
		{name: "308 is not followed", status: 308, header: map[string]string{"Location": elsewhere.URL}, want: provider.Outcome{Kind: provider.Transient, MayBeReceived: true, Code: "http_308", Text: "the provider answered 308 Permanent Redirect"}},
		{name: "mapped status", status: 409, remap: map[string]any{"409": "accepted"}, body: `{"id":"x"}`, want: provider.Outcome{Kind: provider.Accepted, ProviderMessageID: "x"}},
		{name: "mapped class, and the status before it", status: 502, remap: map[string]any{"5xx": "permanent", "502": "unknown"}, want: provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "http_502", Text: "the provider answered 502 Bad Gateway"}},
		{name: "mapped 2xx", status: 201, remap: map[string]any{"201": "permanent"}, want: provider.Outcome{Kind: provider.Permanent, MayBeReceived: true, Code: "http_201", Text: "the provider answered 201 Created"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for k, v := range tt.header {
					w.Header().Set(k, v)
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			}))
			defer srv.Close()
			settings := map[string]any{"url": srv.URL}
			if tt.remap != nil {
				settings["map"] = tt.remap
			}
			o := send(t, open(t, settings), 10*time.Second)
			if tt.wait > 0 {
				if o.RetryAfter < tt.wait {
					t.Errorf("told to wait %v", o.RetryAfter)
				}
				o.RetryAfter = 0
			}
			if diff := cmp.Diff(tt.want, o); diff != "" {
				t.Error(diff)
			}
		})
	}
	if followed.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

// raw serves each connection with fn, for servers that no HTTP library would be.
func raw(t *testing.T, fn func(net.Conn, int)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go fn(c, n)
		}
	}()
	return "http://" + l.Addr().String()
}

// readRequest reads one whole request.
func readRequest(r *bufio.Reader) error {
	req, err := http.ReadRequest(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err
}

func TestBrokenServers(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://" + closed.Addr().String()
	closed.Close()
	for _, tt := range []struct {
		name    string
		url     func(t *testing.T) string
		timeout time.Duration
		kind    provider.Kind
		maybe   bool
		code    string
	}{
		{"connection refused", func(*testing.T) string { return refused }, 5 * time.Second, provider.Transient, false, "not_connected"},
		{"hung TLS handshake", func(t *testing.T) string {
			return "https" + strings.TrimPrefix(raw(t, func(net.Conn, int) {}), "http")
		}, time.Second, provider.Transient, false, "connect_timeout"},
		{"not TLS", func(t *testing.T) string {
			return "https" + strings.TrimPrefix(raw(t, func(c net.Conn, _ int) { fmt.Fprint(c, "hello\n"); c.Close() }), "http")
		}, 5 * time.Second, provider.Transient, false, "not_connected"},
		{"reset after the request was written", func(t *testing.T) string {
			return raw(t, func(c net.Conn, _ int) {
				_ = readRequest(bufio.NewReader(c))
				_ = c.(*net.TCPConn).SetLinger(0)
				c.Close()
			})
		}, 5 * time.Second, provider.Unknown, true, "connection_broken"},
		{"never answers", func(t *testing.T) string { return raw(t, func(net.Conn, int) {}) }, time.Second, provider.Unknown, true, "timeout"},
		{"garbage for an answer", func(t *testing.T) string {
			return raw(t, func(c net.Conn, _ int) {
				_ = readRequest(bufio.NewReader(c))
				fmt.Fprint(c, "+8613800000000 garbage\r\n\r\n")
				c.Close()
			})
		}, 5 * time.Second, provider.Unknown, true, "connection_broken"},
		{"headers that drip", func(t *testing.T) string {
			return raw(t, func(c net.Conn, _ int) {
				_ = readRequest(bufio.NewReader(c))
				for {
					if _, err := fmt.Fprint(c, "H"); err != nil {
						return
					}
					if _, err := c.Read(make([]byte, 1)); err != nil { // never more than one byte
						return
					}
				}
			})
		}, time.Second, provider.Unknown, true, "timeout"},
		{"a body that never ends", func(t *testing.T) string {
			return raw(t, func(c net.Conn, _ int) {
				_ = readRequest(bufio.NewReader(c))
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"id\"")
			})
		}, time.Second, provider.Accepted, false, ""},
		{"a body cut short", func(t *testing.T) string {
			return raw(t, func(c net.Conn, _ int) {
				_ = readRequest(bufio.NewReader(c))
				fmt.Fprint(c, "HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\n{")
				c.Close()
			})
		}, 5 * time.Second, provider.Transient, true, "http_500"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			started := time.Now()
			o := send(t, open(t, map[string]any{"url": tt.url(t)}), tt.timeout)
			if o.Kind != tt.kind || o.MayBeReceived != tt.maybe || o.Code != tt.code {
				t.Errorf("%+v", o)
			}
			if strings.Contains(o.Text, "13800000000") {
				t.Errorf("the answer's text is repeated: %s", o.Text)
			}
			if took := time.Since(started); took > tt.timeout+10*time.Second {
				t.Errorf("took %v with a deadline of %v", took, tt.timeout)
			}
		})
	}
}

// TestOneCallOneRequest: on a kept connection that breaks after the request,
// net/http would repeat a request that has an Idempotency-Key.
func TestOneCallOneRequest(t *testing.T) {
	var requests atomic.Int32
	p := open(t, map[string]any{"url": raw(t, func(c net.Conn, n int) {
		r := bufio.NewReader(c)
		for i := 0; readRequest(r) == nil; i++ {
			requests.Add(1)
			if n == 0 && i == 1 {
				c.Close()
				return
			}
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})})
	if o := send(t, p, 5*time.Second); o.Kind != provider.Accepted {
		t.Fatalf("%+v", o)
	}
	if o := send(t, p, 5*time.Second); o.Kind != provider.Unknown || requests.Load() != 2 {
		t.Errorf("%+v after %d requests; want unknown after 2", o, requests.Load())
	}
}

func TestSettings(t *testing.T) {
	for _, tt := range []struct {
		name     string
		settings map[string]any
		want     string
	}{
		{"no url", nil, "settings.url is missing"},
		{"url of another scheme", map[string]any{"url": "ftp://user:hunter2@x"}, "settings.url is not an http or https address"},
		{"variable that is not there", map[string]any{"url": "http://x", "headers": map[string]any{"X-Key": "${NOPE}"}}, "settings.headers.X-Key: the environment has no NOPE"},
		{"file that is not there", map[string]any{"url": "http://x", "headers": map[string]any{"X-Key": "file:/nope/nope"}}, "settings.headers.X-Key: open /nope/nope"},
		{"header with a newline", map[string]any{"url": "http://x", "headers": map[string]any{"X-Key": "hunter2\r\nX: y"}}, "settings.headers.X-Key holds what no header can"},
		{"header of Weir", map[string]any{"url": "http://x", "headers": map[string]any{"idempotency-key": "1"}}, "is set by Weir"},
		{"unknown setting", map[string]any{"url": "http://x", "method": "GET"}, "settings.method is not a setting"},
		{"map to nothing", map[string]any{"url": "http://x", "map": map[string]any{"409": "fine"}}, "settings.map.409 must be one of"},
		{"map of no status", map[string]any{"url": "http://x", "map": map[string]any{"4x": "permanent"}}, "is no status"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := provider.Types{"http": {Open: httpprovider.Open}}.Open(schemas.Provider{Name: "p", Type: "http", Settings: tt.settings}, provider.Deps{Private: outbound.Loopback})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error tells the value: %v", err)
			}
		})
	}
}
