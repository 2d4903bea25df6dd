package ingest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

// dial connects from one of this machine's addresses, and writes text.
func (w *world) dial(from, text string) *net.TCPConn {
	w.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(w.t.Context(), "tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		w.t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// left reads until the server closes, and returns when that was and what came.
func (w *world) left(c net.Conn) (string, time.Duration) {
	w.t.Helper()
	began := time.Now()
	c.SetReadDeadline(began.Add(time.Minute))
	b, err := io.ReadAll(c)
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		w.t.Fatalf("still open after a minute; %d bytes came", len(b))
	}
	return string(b), time.Since(began)
}

// drip writes a byte every little while, until that fails.
func drip(c net.Conn, b byte) {
	for {
		if _, err := c.Write([]byte{b}); err != nil {
			return
		}
		time.Sleep(20 * time.Millisecond) // it is what is tested
	}
}

// Whatever a client is slow in, its connection ends in time, and others are served
// meanwhile.
func TestSlowClients(t *testing.T) {
	const soon = 1200 * time.Millisecond // for the others, too, on a busy machine
	w := newWorld(t, settings{server: func(s *Server) {
		s.http.ReadHeaderTimeout, s.http.ReadTimeout, s.http.WriteTimeout, s.http.IdleTimeout = soon, 2*soon, 3*soon, soon
	}})
	http.DefaultClient.CloseIdleConnections() // none is used again while the server closes it
	for _, tt := range []struct {
		name, text string
		drip       byte
		within     time.Duration
		answer     string // the beginning of the last one
	}{
		{"says nothing", "", 0, soon, ""},
		{"half a header", "GET /healthz HTTP/1.1\r\nHost: local", 0, soon, ""},
		{"a header that never ends", "GET /healthz HTTP/1.1\r\nX: ", 'x', soon, ""},
		{"headers that never end", "GET /healthz HTTP/1.1\r\n", '\n', soon, "HTTP/1.1 400"},
		{"half a body", "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{", 0, 2 * soon, "HTTP/1.1 408"},
		{"a body that never ends", "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{", ' ', 2 * soon, "HTTP/1.1 408"},
		{"chunks that never end", "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1", '0', 2 * soon, "HTTP/1.1 4"},
		{"an idle one", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 0, soon, "HTTP/1.1 200"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := *w
			w.t = t
			c := w.dial("127.0.0.1", tt.text)
			if tt.drip != 0 {
				go drip(c, tt.drip)
			}
			read[client.Sent](w.post(hello, "Connection: close"), http.StatusAccepted)
			got, took := w.left(c)
			if !strings.HasPrefix(got, tt.answer) || tt.answer == "" && got != "" {
				t.Errorf("%.100q", got)
			}
			if took > tt.within+10*time.Second {
				t.Errorf("open for %v", took)
			}
		})
	}
	t.Run("does not read its answers", func(t *testing.T) {
		t.Parallel()
		w := *w
		w.t = t
		began := time.Now()
		c := w.dial("127.0.0.1", "")
		c.SetReadBuffer(4 << 10)
		ask := strings.Repeat("GET /openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n", 50)
		go func() { // until the server is stuck, and then until it closes
			for {
				if _, err := io.WriteString(c, ask); err != nil {
					return
				}
			}
		}()
		w.until("closed", func() bool {
			_, err := c.Write([]byte("x"))
			return err != nil
		})
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("open for %v", took)
		}
	})
}

// None of the limits on connections is left at net/http's default, which is none.
func TestLimitsAreSet(t *testing.T) {
	w := newWorld(t, settings{})
	h := w.srv.http
	if h.ReadHeaderTimeout <= 0 || h.ReadTimeout <= 0 || h.WriteTimeout <= 0 || h.IdleTimeout <= 0 || h.MaxHeaderBytes <= 0 {
		t.Errorf("%+v", h)
	}
	if n := w.srv.conns.most; n < 1 || n > DefaultConns {
		t.Errorf("%d connections", n)
	}
	w.raw("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 12<<10) + "\r\n\r\n")[0].is(200)
	w.raw("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 17<<10) + "\r\n\r\n")[0].is(431)
}

func (r reply) is(status int) {
	r.t.Helper()
	if r.code != status {
		r.t.Errorf("%d, want %d: %s", r.code, status, r.body)
	}
}

// Where there are as many connections as may be, whoever has most of them loses
// some, and nobody else any.
func TestRoomIsMade(t *testing.T) {
	const most = 64
	w := newWorld(t, settings{server: func(s *Server) { s.conns.most = most }})
	mine := w.dial("127.0.0.1", "")
	in := bufio.NewReader(mine)
	ask := func() {
		t.Helper()
		fmt.Fprintf(mine, "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(hello), hello)
		mine.SetReadDeadline(time.Now().Add(time.Minute))
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("the one that was there before: %v", err)
		}
		io.Copy(io.Discard, resp.Body)
		if resp.StatusCode != http.StatusAccepted {
			t.Fatalf("%d", resp.StatusCode)
		}
	}
	ask()
	for i := range 5 * most {
		text := ""
		switch i % 3 {
		case 1:
			text = "GET /healthz HTTP/1.1\r\n"
		case 2:
			text = "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
		}
		w.dial("127.0.0.9", text)
		if i%16 == 0 {
			ask()
			fresh := w.dial("127.0.0.1", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
			if got, _ := w.left(fresh); !strings.HasPrefix(got, "HTTP/1.1 200") {
				t.Fatalf("a new one among %d: %q", i, got)
			}
		}
	}
	if n := w.srv.conns.count(); n > most {
		t.Errorf("%d are open", n)
	}
	metrics := string(w.do("GET", "/metrics", "").body)
	if strings.Contains(metrics, "weir_http_connections_shed_total 0\n") || !strings.Contains(metrics, "weir_http_connections ") {
		t.Error("the metrics do not tell")
	}
}

// net/http says that no more comes before it closes, where a client may still write.
func TestNoMoreComes(t *testing.T) {
	w := newWorld(t, settings{})
	before := w.srv.conns.count()
	c := w.dial("127.0.0.1", "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n{")
	c.SetReadDeadline(time.Now().Add(time.Minute))
	got, err := io.ReadAll(c) // to the end that is said, while the connection lingers
	if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 413") {
		t.Fatalf("%.40q %v", got, err)
	}
	if n := w.srv.conns.count(); n <= before {
		t.Error("it was closed at once")
	}
}

// Where every connection is worked for, a new one is not taken, and none is lost.
func TestNoRoom(t *testing.T) {
	l := newConns(2, nil)
	l.open = map[*conn]struct{}{{of: l}: {}, {of: l}: {}}
	if l.admit(&conn{of: l}) || len(l.open) != 2 {
		t.Errorf("%d are open", len(l.open))
	}
}

// A refusal that needs no body is not held up by one that never comes.
func TestRefusedBeforeTheBody(t *testing.T) {
	w := newWorld(t, settings{policy: keyedPolicy, keys: true})
	for name, text := range map[string]string{
		"401": "POST /v1/messages",
		"403": "POST /v1/messages HTTP/1.1\r\nAuthorization: Bearer " + readKey,
		"404": "POST /v1/nowhere",
		"405": "PUT /v1/messages",
		"413": "POST /v1/messages HTTP/1.1\r\nX-API-Key: " + acmeKey,
		"415": "POST /v1/messages HTTP/1.1\r\nContent-Type: text/html\r\nX-API-Key: " + acmeKey,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := *w
			w.t = t
			if !strings.Contains(text, "HTTP") {
				text += " HTTP/1.1"
			}
			length := "100"
			if name == "413" {
				length = "300000"
			}
			began := time.Now()
			c := w.dial("127.0.0.1", text+"\r\nHost: localhost\r\nContent-Length: "+length+"\r\n\r\n{")
			c.SetReadDeadline(began.Add(time.Minute))
			line, err := bufio.NewReader(c).ReadString('\n')
			if took := time.Since(began); err != nil || !strings.Contains(line, name) || took > lastWords+10*time.Second { // a body has readTimeout
				t.Errorf("%q %v after %v", line, err, took)
			}
		})
	}
}

// Every answer has the guards, whoever gives it.
func TestGuards(t *testing.T) {
	w := newWorld(t, settings{history: panics{}})
	for _, rt := range w.srv.table() {
		if strings.HasSuffix(rt.path, "/events") {
			continue // it does not end
		}
		path := strings.NewReplacer("{id}", "1", "{name}", "x").Replace(rt.path)
		for _, method := range []string{rt.method, http.MethodOptions, http.MethodHead, http.MethodTrace} {
			guarded(t, w.do(method, path, "").header)
		}
	}
	guarded(t, w.do("GET", "/nowhere", "").header)
	guarded(t, w.do("BREW", "/v1/messages", "").header)
	guarded(t, w.post(hello, "Origin: https://evil.example").header)
	guarded(t, w.post(hello, "Host: evil.example").header)

	// A mistake of ours is a problem too, and the log has it without the request.
	r := w.do("GET", "/v1/messages/0192f0c1-2a3b-7c4d-8e5f-60718293a4b5?to=hush", "", "X-Secret: hush")
	r.problem(http.StatusInternalServerError, "internal")
	guarded(t, r.header)
	if log := w.log.String(); !strings.Contains(log, "a handler panicked") || strings.Contains(log, "hush") || strings.Contains(log, "138000") {
		t.Errorf("the log: %s", log)
	}
	read[client.Sent](w.post(hello), http.StatusAccepted)
}

// panics is a History with a mistake in it.
type panics struct{ History }

func (panics) Message(context.Context, string) ([]*schemas.Event, error) {
	panic("to +8613800000000")
}

// No page of another site can call the API, with whatever request browsers
// let it make, nor read what it answers.
func TestPagesOfOthers(t *testing.T) {
	w := newWorld(t, settings{})
	for _, tt := range []struct {
		name    string
		method  string
		headers []string
		status  int
	}{
		{"a form", "POST", []string{"Origin: https://evil.example", "Content-Type: text/plain"}, 403},
		{"a form of an opaque origin", "POST", []string{"Origin: null"}, 403},
		{"the same host, another scheme", "POST", []string{"Origin: https://" + w.addr}, 202}, // a proxy in front may have ended TLS
		{"the same host, another port", "POST", []string{"Origin: http://127.0.0.1:1"}, 403},
		{"a name that begins like ours", "POST", []string{"Origin: http://" + w.addr + ".evil.example"}, 403},
		{"a sister site", "POST", []string{"Sec-Fetch-Site: same-site", "Origin: http://" + w.addr}, 403},
		{"what the user typed", "POST", []string{"Sec-Fetch-Site: none"}, 202},
		{"its own page", "POST", []string{"Sec-Fetch-Site: same-origin", "Origin: http://" + w.addr}, 202},
		{"a program", "POST", nil, 202},
		{"what a script says of itself", "POST", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"}, 403},
		{"a name that was pointed here", "POST", []string{"Host: evil.example", "Origin: http://evil.example", "Sec-Fetch-Site: same-origin"}, 421},
		{"and reads", "GET", []string{"Host: evil.example", "Sec-Fetch-Site: same-origin"}, 421},
		{"with a port", "GET", []string{"Host: evil.example:8080"}, 421},
		{"localhost within a name", "GET", []string{"Host: localhost.evil.example"}, 421},
		{"an address within a name", "GET", []string{"Host: 127.0.0.1.evil.example"}, 421},
		{"an address as a number", "GET", []string{"Host: 2130706433"}, 421},
		{"an address in hexadecimal", "GET", []string{"Host: 0x7f000001"}, 421},
		{"another name beside", "GET", []string{"X-Forwarded-Host: evil.example", "Forwarded: host=evil.example"}, 200},
		{"another method beside", "POST", []string{"Origin: https://evil.example", "X-HTTP-Method-Override: GET"}, 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := *w
			w.t = t
			path, body := "/v1/messages", hello
			if tt.method == "GET" {
				path, body = "/healthz", ""
			}
			r := w.do(tt.method, path, body, tt.headers...)
			r.is(tt.status)
			guarded(t, r.header)
		})
	}
	w.raw("GET /healthz HTTP/1.1\r\nHost: localhost, evil.example\r\n\r\n")[0].is(400)
	w.raw("GET /healthz HTTP/1.1\r\nHost: evil.example\tlocalhost\r\n\r\n")[0].is(400)
	w.raw("GET http://localhost/healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n")[0].is(200) // the target counts (RFC 9112, 3.2.2); no browser sends one
	w.raw("GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")[0].is(421)
	for _, path := range []string{"/v1/messages", "/v1/limits/x", "/api/rate-limits", "/nowhere"} {
		r := w.do("OPTIONS", path, "", "Origin: https://evil.example", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,content-type", "Access-Control-Request-Private-Network: true")
		guarded(t, r.header)
	}
}

// A path means one thing.
func TestPaths(t *testing.T) {
	w := newWorld(t, settings{policy: keyedPolicy, keys: true})
	const id = "0192f0c1-2a3b-7c4d-8e5f-60718293a4b5"
	for path, want := range map[string]string{
		"//v1/messages":                       "404 not_found",
		"/v1//messages":                       "404 not_found",
		"/v1/messages/":                       "404 not_found",
		"/v1/messages/../dlq":                 "404 not_found",
		"/v1/messages/..%2fdlq":               "401 unauthenticated", // an id that is none
		"/v1/messages/%2e%2e/dlq":             "404 not_found",
		"/v1%2fmessages":                      "404 not_found",
		"/v1/messages%2f" + id:                "404 not_found",
		"/v1/./messages":                      "404 not_found",
		"/V1/messages":                        "404 not_found",
		"/v1/messages;x=1":                    "404 not_found",
		"/healthz/../v1/messages/" + id:       "404 not_found",
		"/healthz%2f..%2fv1%2fmessages":       "404 not_found",
		"/v1/messages/" + id + "%00":          "401 unauthenticated",
		"/v1/messages/" + id + "%0d%0aX:%20y": "401 unauthenticated",
		"/v1/dlq":                             "401 unauthenticated",
		"/v1/dlq%20":                          "404 not_found",
		"/v1/dlq.json":                        "404 not_found",
		"/api/messages":                       "401 ", // an envelope
		"/API/Messages/":                      "401 ",
		"/api/../v1/dlq":                      "404 ",
		"/api//messages":                      "404 ",
	} {
		got := w.raw("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		if len(got) != 1 {
			t.Fatalf("%s: %d answers", path, len(got))
		}
		code, _, _ := strings.Cut(strings.TrimPrefix(string(got[0].body[bytes.Index(got[0].body, []byte(`"code":`))+len(`"code":`):]), `"`), `"`)
		if strings.HasPrefix(strings.ToLower(path), "/api") {
			code = ""
		}
		if have := fmt.Sprint(got[0].code, " ", code); have != want {
			t.Errorf("%s: %s, want %s: %s", path, have, want, got[0].body)
		}
		guarded(t, got[0].header)
	}
	// Whole addresses and * as the target.
	w.raw("GET http://evil.example/v1/dlq HTTP/1.1\r\nHost: localhost\r\n\r\n")[0].is(401)
	w.raw("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n")[0].is(200)
	w.raw("CONNECT localhost:9092 HTTP/1.1\r\nHost: localhost:9092\r\n\r\n")[0].is(404)
}

// A packed body is not unpacked, whatever it is called.
func TestPacked(t *testing.T) {
	w := newWorld(t, settings{})
	for _, path := range []string{"/v1/messages", "/v1/messages/batch", "/v1/decisions", "/v1/dlq/redrive", "/v1/session", "/api/rate-limits"} {
		for _, packing := range [][]string{{"gzip"}, {"x-gzip"}, {"deflate"}, {"br"}, {"zstd"}, {"identity, gzip"}, {"GZIP"}, {"identity", "gzip"}, {"?"}} {
			var headers []string
			for _, p := range packing {
				headers = append(headers, "Content-Encoding: "+p)
			}
			for _, typ := range []string{"application/json", "application/x-ndjson"} {
				if r := w.do("POST", path, "\x1f\x8b\x08\x00", append(headers, "Content-Type: "+typ)...); r.code != http.StatusUnsupportedMediaType {
					t.Errorf("%s %q: %d", path, packing, r.code)
				}
			}
		}
		for _, typ := range []string{"multipart/form-data; boundary=x", "multipart/mixed; boundary=x", "application/cloudevents+json"} {
			body := "--x\r\nContent-Disposition: form-data; name=\"a\"; filename=\"b\"\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\r\n--x--\r\n"
			if r := w.do("POST", path, body, "Content-Type: "+typ); r.code != http.StatusUnsupportedMediaType {
				t.Errorf("%s %s: %d", path, typ, r.code)
			}
		}
	}
}

// 2 GB are refused when a little of them has come, and never held.
func TestTwoGigabytes(t *testing.T) {
	const whole, piece = 2 << 30, 1 << 20
	w := newWorld(t, settings{})
	line := one("1") + "\n"
	for _, tt := range []struct {
		name, path, typ, begin, text string
		status                       int
		most                         int // MB that are taken before the end
	}{
		{"a message", "/v1/messages", "application/json", `{"body":"`, "x", 413, 16},
		{"a batch in one", "/v1/messages/batch", "application/json", `{"messages":["`, "x", 413, 64},
		{"a batch of one line", "/v1/messages/batch", "application/x-ndjson", `{"body":"`, "x", 202, 64},
		{"a batch of lines", "/v1/messages/batch", "application/x-ndjson", "", line, 202, 64},
		{"a batch of empty lines", "/v1/messages/batch", "application/x-ndjson", "", "\n", 202, 64},
		{"a decision", "/v1/decisions", "application/json", `{"body":"`, "x", 413, 16},
		{"a redrive", "/v1/dlq/redrive", "application/json", " ", " ", 413, 16},
		{"a sign-in", "/v1/session", "application/json", `{"key":"`, "x", 413, 16},
		{"a rate limit", "/api/rate-limits", "application/json", `{"x":"`, "x", 413, 16},
		{"nothing reads it", "/v1/nowhere", "application/json", `{"x":"`, "x", 404, 16},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := *w
			w.t = t
			before := heap()
			var peak atomic.Uint64
			stop := make(chan struct{})
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					select {
					case <-stop:
						return
					case <-time.After(10 * time.Millisecond):
						peak.Store(max(peak.Load(), heap()))
					}
				}
			}()
			c := w.dial("127.0.0.1", fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n", tt.path, tt.typ))
			c.SetDeadline(time.Now().Add(2 * time.Minute))
			if tt.begin != "" {
				fmt.Fprintf(c, "%x\r\n%s\r\n", len(tt.begin), tt.begin)
			}
			text := strings.Repeat(tt.text, piece/len(tt.text))
			chunk := []byte(fmt.Sprintf("%x\r\n%s\r\n", len(text), text))
			sent := make(chan int, 1)
			go func() {
				n := 0
				for ; n < whole; n += piece {
					if _, err := c.Write(chunk); err != nil {
						break
					}
				}
				sent <- n
			}()
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != tt.status || !resp.Close || tt.status == 202 && !strings.Contains(string(body[max(0, len(body)-600):]), "too_large") {
				t.Errorf("%d, closes: %v: %.300s", resp.StatusCode, resp.Close, body)
			}
			n := <-sent
			close(stop)
			<-done
			if n > tt.most<<20 {
				t.Errorf("%d MB were taken", n>>20)
			}
			grown := int64(peak.Load()) - int64(before)
			if grown > 160<<20 {
				t.Errorf("the heap grew by %d MB", grown>>20)
			}
			t.Logf("TWO-GB %s: %d after %d MB of 2048; the heap grew by %d MB", tt.name, resp.StatusCode, n>>20, grown>>20)
			if resp.StatusCode == 202 && tt.text == line { // the broker holds them
				w.requests(len(strings.Split(strings.TrimSpace(string(body)), "\n")) - 1)
			}
		})
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A message is taken back while ClickHouse is away, if the caller says whose it is.
func TestCancelWithoutHistory(t *testing.T) {
	w := newWorld(t, settings{history: failingHistory{}})
	w.srv.end() // nobody decides
	const path = "/v1/messages/0192f0c1-2a3b-7c4d-8e5f-60718293a4b5/cancel"
	w.do("POST", path, "").problem(http.StatusServiceUnavailable, "history_unavailable")
	w.do("POST", path+"?to=%2B8613800000000", "").is(http.StatusAccepted)
	if q, err := schemas.DecodeRequest(w.requests(1)[0].Value, nil); err != nil || q.Action != schemas.ActionCancel || q.Tenant != schemas.DefaultTenant {
		t.Errorf("%+v %v", q, err)
	}
}
