package ingest

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/schemas"
)

// What is taken in over HTTP can be written, read again, and is no more than a message.
func FuzzHTTPRequest(f *testing.F) {
	for _, s := range moreSeeds {
		f.Add(s)
	}
	const now = 1_795_000_000_000
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := schemas.DecodeHTTPRequest(body, now)
		if err != nil {
			p := invalid(err)
			if len(p.Errors) == 0 || len(p.Errors) > 32 {
				t.Fatalf("%v: %+v", err, p)
			}
			for _, e := range p.Errors {
				if e.Code == "" || !utf8.ValidString(e.Pointer) || e.Pointer != "" && e.Pointer[0] != '/' {
					t.Fatalf("%+v", e)
				}
			}
			answer(httptest.NewRecorder(), p.Status, "application/problem+json", p)
			return
		}
		if q.ID != "" || q.Action != schemas.ActionSend || q.To == "" || q.Channel == "" {
			t.Fatalf("%+v", q)
		}
		again, err := schemas.DecodeRequestStrict(schemas.RequestJSON(q))
		if err != nil || again.To != q.To {
			t.Fatalf("%v", err)
		}
	})
}

// A batch's messages are those that encoding/json finds.
func FuzzBatch(f *testing.F) {
	for _, s := range moreSeeds {
		f.Add(s)
	}
	f.Add([]byte(`{"messages":[1],"messages":[2,3]}`))
	f.Add([]byte(`{"Messages":[1]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		items, p := batchItems(text)
		var want map[string][]json.RawMessage
		err := json.Unmarshal(text, &want)
		good := err == nil && len(want) == 1 && want["messages"] != nil && len(want["messages"]) <= maxBatchItems
		if good != (p == nil) || good && !slices.EqualFunc(items, want["messages"], func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			t.Fatalf("%q: %v %v", text, items, p)
		}
	})
}

// Lines are what stands between the ends of lines, in whatever pieces they come, and
// none is longer than a request.
func FuzzReadLine(f *testing.F) {
	f.Add([]byte("a\nb\r\n\n\r\r\nc"), 0)
	f.Add([]byte("a\n"), 300_000)
	f.Add([]byte("\xff\x00"), schemas.MaxRequestBytes)
	f.Fuzz(func(t *testing.T, text []byte, more int) {
		text = append(slices.Clone(text), bytes.Repeat([]byte("x"), min(max(more, 0), 600_000))...)
		for name, r := range map[string]io.Reader{"whole": bytes.NewReader(text), "half": iotest.HalfReader(bytes.NewReader(text)), "end with data": iotest.DataErrReader(bytes.NewReader(text))} {
			in := bufio.NewReaderSize(r, 64<<10)
			want := bytes.SplitAfter(text, []byte("\n"))
			var line []byte
			for i := 0; ; i++ {
				var long bool
				var err error
				line, long, err = readLine(in, line[:0])
				if i >= len(want) {
					t.Fatalf("%s: line %d of %d", name, i, len(want))
				}
				if long != (len(want[i]) > schemas.MaxRequestBytes+2) || !long && !bytes.Equal(line, bytes.TrimRight(want[i], "\r\n")) || len(line) > schemas.MaxRequestBytes+2 {
					t.Fatalf("%s: line %d: %.40q, long: %v; want %.40q", name, i, line, long, want[i])
				}
				if err != nil {
					if !errors.Is(err, io.EOF) || i != len(want)-1 {
						t.Fatalf("%s: line %d of %d: %v", name, i, len(want), err)
					}
					break
				}
			}
		}
	})
}

// A steady reader gives what there is, up to its bound, and says when there is more.
func FuzzSteady(f *testing.F) {
	f.Add([]byte("hello"), 5, 3)
	f.Add([]byte("hello"), 4, 1)
	f.Fuzz(func(t *testing.T, text []byte, left, size int) {
		left, size = min(max(left, 0), 1000), min(max(size, 1), 1000)
		s := &steady{r: bytes.NewReader(text), rc: http.NewResponseController(httptest.NewRecorder()), until: time.Now().Add(time.Hour), left: int64(left)}
		var got []byte
		buf := make([]byte, size)
		for {
			n, err := s.Read(buf)
			got = append(got, buf[:n]...)
			if err == nil {
				continue
			}
			if enough := errors.Is(err, errEnough); enough != (len(text) > left) || !enough && !errors.Is(err, io.EOF) {
				t.Fatalf("%v after %d of %d, bound %d", err, len(got), len(text), left)
			}
			break
		}
		if !bytes.Equal(got, text[:min(len(text), left)]) {
			t.Fatalf("%q of %q", got, text)
		}
	})
}

// What was applied means the same again, and no wait is longer than may be.
func FuzzPrefer(f *testing.F) {
	for _, s := range []string{"wait=1", "respond-async, wait=10;x", `WAIT="60", wait=2`, "wait=-1", "return=minimal", "wait=99999999999999999999"} {
		f.Add(s, "wait=3")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		p, said := readPrefer([]string{a, b})
		if p.wait < 0 || p.wait > longestWait || said != (p.applied != "") || strings.ContainsAny(p.applied, "\r\n") {
			t.Fatalf("%+v", p)
		}
		if again, _ := readPrefer([]string{p.applied}); said && again != p {
			t.Fatalf("%+v and then %+v", p, again)
		}
		own := preferOf(http.Header{"Prefer": {a}}, b, 0)
		if own.wait < 0 || own.wait > longestWait {
			t.Fatalf("%+v", own)
		}
	})
}

// A key in quotes is the key, whatever it is.
func FuzzIdempotencyKey(f *testing.F) {
	for _, s := range []string{"order-17", `"order-17"`, `"a\"b\\c"`, `"`, "", "\xff", "é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, ok := bareKey(text)
		if ok && (key == "" || !utf8.ValidString(key) || len(key) > len(text)) {
			t.Fatalf("%q is %q", text, key)
		}
		if !utf8.ValidString(text) || text == "" {
			if ok {
				t.Fatalf("%q is a key", text)
			}
			return
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
		if back, ok := bareKey(quoted); !ok || back != text {
			t.Fatalf("%q in quotes is %q", text, back)
		}
		if keys, p := batchKeys([]string{text}); p == nil && (!ok || keys(7) != key+"/7") {
			t.Fatalf("%q of a batch", text)
		}
	})
}

// No cookie but a sealed one has a key in it.
func FuzzSession(f *testing.F) {
	s := newSessions("secret", func() time.Time { return time.Unix(1_795_000_000, 0) })
	good := s.cookie("weir_live_x")
	f.Add("weir_session=" + good)
	f.Add("weir_session=" + good[:20] + "; weir_session=" + good)
	f.Add(`weir_session="x"`)
	f.Add("weir_session=" + base64.RawURLEncoding.EncodeToString(make([]byte, 40)))
	f.Fuzz(func(t *testing.T, cookie string) {
		r := &http.Request{Method: "GET", Header: http.Header{"Cookie": {cookie}}}
		token, _, p := s.token(r)
		if p != nil || token != "" && token != "weir_live_x" { // the only one that was ever sealed
			t.Fatalf("%q opens %q: %v", cookie, token, p)
		}
	})
}

// A list's query, cursor and all, is taken or refused with what is wrong.
func FuzzListQuery(f *testing.F) {
	for _, q := range queries {
		f.Add(q, "e30")
	}
	f.Add("limit=5&status=sent", bookmark{Of: filters(history.Search{Tenant: "default", Statuses: []schemas.Status{"sent"}}), At: 1, ID: "x"}.String())
	s := &Server{}
	f.Fuzz(func(t *testing.T, query, cursor string) {
		if values, _ := url.ParseQuery(query); values.Has("to") {
			return // recipients have a fuzzer of their own, and need a policy
		}
		u := "http://localhost/v1/messages"
		r, err := http.NewRequest("GET", u, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.URL.RawQuery = query
		q, from, p := s.readList(r, keyless)
		if p == nil && (q.Limit < 1 || q.Limit > largestPage || q.Tenant != schemas.DefaultTenant || from.At < 0) {
			t.Fatalf("%+v %+v", q, from)
		}
		if b, p := readBookmark(cursor, q); p == nil {
			if again, p := readBookmark(b.String(), q); p != nil || again.String() != b.String() || len(b.Seen) > mostSeen {
				t.Fatalf("%+v and then %+v", b, again)
			}
		}
		if p != nil {
			answer(httptest.NewRecorder(), p.Status, "application/problem+json", p)
		}
	})
}

// On loopback no name is our own that somebody else's could be.
func FuzzOwnName(f *testing.F) {
	for _, h := range []string{"localhost", "127.0.0.1:80", "[::1]:80", "evil.example", "localhost.evil.example", "[fe80::1%25eth0]", "a.localhost.", ""} {
		f.Add(h)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if !ownName(host) {
			return
		}
		// With its port or without, it is nothing that could be asked of DNS.
		bare := host
		if i := strings.LastIndexByte(host, ':'); i >= 0 {
			bare = host[:i]
		}
		for _, name := range []string{host, bare} {
			name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
			if _, err := netip.ParseAddr(name); err == nil || name == "" || name == "localhost" || strings.HasSuffix(name, ".localhost") {
				return
			}
		}
		t.Fatalf("%q", host)
	})
}

// Whatever goes to a traceparent, an id or an overlap is one, or is not taken.
func FuzzSmallFields(f *testing.F) {
	for _, s := range []string{trace, "0192F0C1-2A3B-7C4D-8E5F-60718293A4B5", `{"overlap":"24h"}`, "{192f0c1-2a3b-7c4d-8e5f-60718293a4b5}", "sent,failed"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if validTrace(text) && (len(text) != 55 || strings.ToLower(text) != text) {
			t.Fatalf("%q is a trace", text)
		}
		if id, ok := messageID(text); ok && (len(id) != 36 || id != strings.ToLower(text) || id[8] != '-') {
			t.Fatalf("%q is the id %q", text, id)
		}
		if d, p := overlapOf([]byte(text)); p == nil && (d < 0 || d > 31*24*time.Hour) {
			t.Fatalf("%q is %v", text, d)
		}
		if all, err := readStatuses(text); err == nil && (len(all) == 0 || len(all) > len(schemas.Statuses)) {
			t.Fatalf("%q is %v", text, all)
		}
		if n := known(text); n != "" && !strings.HasPrefix(text, n) {
			t.Fatalf("%q is known as %q", text, n)
		}
	})
}

// Every path is answered, and none but a route's reaches a handler.
func FuzzPath(f *testing.F) {
	for _, p := range []string{"/v1/messages", "//v1/messages", "/v1/messages/../dlq", "/api/Messages/", "/API", "/v1/messages/%2e%2e"} {
		f.Add("GET", p)
	}
	m := chi.NewRouter()
	reached := ""
	m.Use(headers, sameOrigin().Handler, legacyPaths)
	m.NotFound(notFound)
	m.MethodNotAllowed(methodNotAllowed(m))
	for _, path := range []string{"/v1/messages", "/v1/messages/{id}", "/v1/dlq", "/api/messages", "/api/rate-limits/{id}"} {
		m.Get(path, func(_ http.ResponseWriter, r *http.Request) { reached = path })
	}
	f.Fuzz(func(t *testing.T, method, path string) {
		r, err := http.NewRequest("GET", "http://localhost/", nil)
		if err != nil {
			t.Fatal(err)
		}
		u, err := r.URL.Parse(path)
		if err != nil || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") {
			return
		}
		u.Path = strings.SplitN(strings.SplitN(path, "?", 2)[0], "#", 2)[0]
		u.RawPath = ""
		r.URL, r.Method = u, method
		reached = ""
		rec := httptest.NewRecorder()
		m.ServeHTTP(rec, r)
		if reached == "" && rec.Code < 400 && rec.Code != http.StatusNoContent {
			t.Fatalf("%s %q: %d", method, path, rec.Code)
		}
		if reached != "" && strings.Count(reached, "/") != strings.Count(strings.TrimSuffix(u.Path, "/"), "/") {
			t.Fatalf("%s %q reaches %s", method, path, reached)
		}
	})
}
