package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhq/weir/processor/backtest"
)

var bodies = flag.Int("bodies", 20_000, "how many bodies TestMillionBodies makes up; issue 7 says 1000000")

// Whatever the bodies and headers are, and whatever route they come to, the answer is
// never 5xx, is what the document says, and takes no memory with it.
func TestMillionBodies(t *testing.T) {
	if *bodies < 1_000_000 {
		t.Logf("NOT RUN with a million bodies but with %d: go test ./ingest -run MillionBodies -bodies 1000000 -v", *bodies)
	}
	w := newWorld(t, settings{})
	w.srv.end()                                   // nobody decides here, so nobody waits
	w.srv.tryout.turn = make(chan struct{}, 1000) // more than one at a time is 503
	w.srv.tryout.run = func(context.Context, backtest.Config) (*backtest.Result, error) {
		return &backtest.Result{Source: "kafka"}, nil
	}
	d := openDocument(t)
	targets := targetsOf(w.srv, d)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)

	var (
		made, next atomic.Int64
		mu         sync.Mutex
		codes      = make(map[int]int)
		slowest    time.Duration
		heaps      []uint64
	)
	adm := kadm.NewClient(w.cl)
	const workers, steps = maxJSONBatches / 2, 10 // more batches at once than that are 503
	step := int64(max(1, *bodies/steps))
	for ; next.Load() < int64(*bodies) && !t.Failed(); next.Add(step) {
		var wg sync.WaitGroup
		for i := range workers {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(next.Load())+uint64(i)))
				for n := int64(0); n < step/workers && !t.Failed(); n++ {
					req := targets.request(r)
					// Streams go on until their reader leaves. This one leaves.
					ctx, leave := context.WithCancel(req.Context())
					if strings.HasPrefix(req.URL.Path, "/v1/events") {
						leave()
					}
					req = req.WithContext(ctx)
					rec := httptest.NewRecorder()
					began := time.Now()
					w.srv.http.Handler.ServeHTTP(rec, req)
					took := time.Since(began)
					leave()
					made.Add(1)
					mu.Lock()
					codes[rec.Code]++
					slowest = max(slowest, took)
					if rec.Code >= 500 {
						t.Errorf("%s %s %v: %d %s\n%s", req.Method, req.RequestURI, req.Header, rec.Code, rec.Body, w.log)
					}
					if n%50 == 0 || rec.Code >= 500 {
						route, _, _ := strings.Cut(req.RequestURI, "?")
						if req.Method == http.MethodHead {
							route = "" // what it would say is GET's
						} else {
							d.check(t, req.Method, route, rec.Result(), rec.Body.Bytes())
						}
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		// The broker is in this process: it forgets what it was given.
		if ends, err := adm.ListEndOffsets(t.Context(), w.names.Requests()); err == nil {
			if _, err := adm.DeleteRecords(t.Context(), ends.Offsets()); err != nil {
				t.Fatal(err)
			}
		}
		runtime.GC()
		heaps = append(heaps, heap()>>20)
	}
	t.Logf("MILLION %d bodies, by status %v, the slowest %v; MB of heap after each tenth: %v", made.Load(), codes, slowest.Round(time.Millisecond), heaps)
	if codes[202] == 0 || codes[400] == 0 || codes[200] == 0 || codes[413] == 0 {
		t.Error("a kind of answer is missing: nothing was tested")
	}
	// What is remembered of messages takes its room first (recent: 64 MB of events).
	if first, last := slices.Max(heaps[:min(3, len(heaps))]), heaps[len(heaps)-1]; last > first+100 {
		t.Errorf("the heap grew from %d to %d MB", first, last)
	}
	if log := w.log.String(); strings.Contains(log, "panicked") {
		t.Errorf("%s", log)
	}
}

// targets are the routes, and what their bodies look like.
type targets []target

type target struct {
	method, path string
	seeds        [][]byte
}

func targetsOf(s *Server, d *document) (out targets) {
	for _, rt := range s.table() {
		switch rt.path {
		case "/v1/stats", "/v1/stats/errors", "/v1/stats/recipients", "/v1/quota": // 503 here: there is no ClickHouse, and nobody decides
			continue
		case "/v1/suppressions": // to read them
			if rt.method == http.MethodGet {
				continue
			}
		}
		to := target{method: rt.method, path: rt.path}
		for _, media := range d.in(d.body(rt.method, rt.path), "content") {
			if example := media.(map[string]any)["example"]; example != nil {
				text, _ := json.Marshal(example)
				to.seeds = append(to.seeds, text)
			}
		}
		weight := 1
		if d.body(rt.method, rt.path) != nil {
			weight = 4
			to.seeds = append(to.seeds, moreSeeds...)
		}
		switch rt.path {
		case "/v1/messages", "/v1/messages/batch", "/v1/decisions":
			weight *= 5
		}
		for range weight {
			out = append(out, to)
		}
	}
	return out
}

// body is what the document says of an operation's body; nil if it has none.
func (d *document) body(method, path string) map[string]any {
	op := d.operation(method, path)
	if op["requestBody"] == nil {
		return nil
	}
	return d.in(map[string]any{"x": d.resolve(op["requestBody"])}, "x")
}

func (d *document) resolve(v any) map[string]any {
	m, _ := v.(map[string]any)
	if ref, ok := m["$ref"].(string); ok {
		return d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	return m
}

var moreSeeds = [][]byte{
	nil, []byte(`{}`), []byte(`[]`), []byte(`null`), []byte(hello), []byte(`{"messages":[` + hello + `,{}]}`),
	[]byte(hello + "\n" + hello + "\r\n\n{}"),
	[]byte(`{"channel":"email","to":"ana@example.com","subject":"s","html":"<p>","vars":{"a":1.5e3,"b":true},"metadata":{"order":"17"},"send_at":"2026-11-22T01:00:00Z","expires_at":"2099-01-01T00:00:00+14:00","idempotency_key":"k","callback_url":"https://example.com/x"}`),
	[]byte(`{"channel":"push","to":"token","title":"t","data":{"x":"y"}}`),
	[]byte(`{"messageType":"SMS","templateCode":"verify_code","recipient":"13800000000","variables":{"code":"1"},"priority":5}`),
	[]byte(`{"messages":[{"messageType":"Email","templateCode":"x","recipient":"a@b.cn","variables":null}]}`),
	[]byte(`{"manufacturerId":null,"requestsPerSecond":1,"requestsPerMinute":2,"requestsPerHour":3,"isEnabled":true}`),
	[]byte(`{"match":{"class":"verify"},"per":["recipient"],"allow":["1/60s","5/1h","10/calendar-day"],"timezone":"Asia/Shanghai"}`),
	[]byte(`{"type":"http","channels":["sms"],"pace":["5/1s"],"settings":{"url":"http://127.0.0.1:1","token":"${X}"}}`),
	[]byte(`{"priority":"urgent","expires_after":"5m","retries":["5s","30s"],"quiet_hours":{"from":"22:00","to":"08:00","timezone":"recipient","then":"defer"}}`),
	[]byte(`{"match":{"prefix":"86"},"to":[{"provider":"sim","weight":70}],"failover":[]}`),
	[]byte(`{"tenant":"default","scopes":["send","read"],"rates":{"write":"bucket 30 refill 5/s"},"prefer":"wait=1"}`),
	[]byte(`{"key":"weir_live_x"}`), []byte(`{"dry_run":true,"ids":["0/1"],"rate":100,"since":"2026-11-22T01:00:00Z","cursor":"e30"}`), []byte(`{"overlap":"24h"}`),
}

var (
	pieces = []string{
		`"`, `\`, `{`, `}`, `[`, `]`, `,`, `:`, "\n", "\r\n", "\x00", "\xff", "\xed\xa0\x80", "\u2028", `\ud800`, `\u0000`, `null`, `true`, `1e309`, `-0`, `1E+2`, `99999999999999999999`, `0x1`, `NaN`,
		`"to":`, `"channel":"voice",`, `"TO":"x",`, `"id":"0192f0c1-2a3b-7c4d-8e5f-60718293a4b5",`, `"action":"cancel",`, `"tenant":"other",`, `"__proto__":{},`, `"at":"0001-01-01T00:00:00Z",`,
		`{{code}}`, `${HOME}`, `file:/etc/passwd`, `' OR 1=1 --`, `../../etc/passwd`, `%s%n`, "😀", "中文", strings.Repeat("[", 2000), strings.Repeat(`{"a":`, 500), strings.Repeat("x", 5000), strings.Repeat("\n", 300),
	}
	names   = []string{"a", "sim", "verify", "default", "global", "1", "0", "-1", "99999999999999999999", "0192f0c1-2a3b-7c4d-8e5f-60718293a4b5", "%00", "%2e%2e", "%E4%B8%AD", "A", strings.Repeat("x", 300), "%ff", "x%2Fy"}
	queries = []string{
		"", "", "", "dry_run=true", "dry_run=perhaps", "dry_run=true&before=x", "limit=1", "limit=0", "limit=99999999999", "limit=1&limit=2", "cursor=e30", "cursor=eyJhdCI6MX0", "cursor=%ff", "to=%2B8613800000000",
		"to=+8613800000000&channel=sms", "to=x&channel=y", "status=sent,failed", "status=,", "from=2026-01-01T00:00:00Z&until=2025-01-01T00:00:00Z", "since=x", "taskId=x", "TASKID=0192f0c1-2a3b-7c4d-8e5f-60718293a4b5", "%zz", "a;b", "&&&==", "order=oldest", "force=true", strings.Repeat("a=b&", 200),
	}
	headerLines = []struct {
		name   string
		values []string
	}{
		{"Content-Type", []string{"application/json", "application/x-ndjson", "application/x-ndjson", "text/plain", "application/json; charset=gbk", "multipart/form-data", ";", "application/x-protobuf"}},
		{"Content-Encoding", []string{"gzip", "identity"}},
		{"Idempotency-Key", []string{"k", `"k"`, `"`, "", "\xff", strings.Repeat("k", 300), "a\tb"}},
		{"Prefer", []string{"wait=1", "wait=-1", "wait=99999999999999999999", "respond-async", "wait=1, respond-async", ";;,,=", `wait="0"`, "return=minimal"}},
		{"Traceparent", []string{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00"}},
		{"If-Match", []string{"*", `"x"`, `W/"x"`, ",,", `"`}},
		{"If-None-Match", []string{"*", `"x"`}},
		{"Authorization", []string{"Bearer x", "Basic eDp5", "", "Bearer " + strings.Repeat("x", 5000)}},
		{"X-Api-Key", []string{"x", ""}},
		{"Cookie", []string{"weir_session=x", "weir_session=" + strings.Repeat("A", 200), "weir_session=\"", ";;;"}},
		{"X-Forwarded-For", []string{"1.2.3.4", "x, ,", "::1"}},
		{"Forwarded", []string{`for="[::1]"`, "for=_x"}},
		{"Accept", []string{"text/event-stream", "*/*"}},
		{"Last-Event-Id", []string{"x", "0/1"}},
		{"Origin", []string{"null"}},
	}
)

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// request makes one up.
func (ts targets) request(r *rand.Rand) *http.Request {
	to := pick(r, ts)
	path := to.path
	for strings.Contains(path, "{") {
		before, rest, _ := strings.Cut(path, "{")
		_, after, _ := strings.Cut(rest, "}")
		path = before + pick(r, names) + after
	}
	query := pick(r, queries)
	if (to.method == http.MethodPut || to.method == http.MethodDelete || strings.HasSuffix(path, "/rotate") || path == "/api/rate-limits") && r.IntN(200) > 0 {
		// Every edit that comes into force is a revision, which is kept.
		if query = "dry_run=true"; strings.HasPrefix(path, "/api/") || strings.HasSuffix(path, "/rotate") {
			path = "/v1/limits/x"
		}
		if to.method == http.MethodPost {
			to.method = http.MethodPut
		}
	}
	var body []byte
	if len(to.seeds) > 0 {
		body = mutate(r, to.seeds)
	}
	if query != "" {
		path += "?" + query
	}
	method := to.method
	if r.IntN(100) == 0 {
		method = pick(r, []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"})
	}
	req, err := http.NewRequest(method, "http://localhost"+path, bytes.NewReader(body))
	if err != nil { // a query that no client would send: as a server has it
		req, _ = http.NewRequest(method, "http://localhost/", bytes.NewReader(body))
		req.URL.Path, req.URL.RawQuery, _ = strings.Cut(path, "?")
	}
	req.RequestURI, req.RemoteAddr = path, "127.0.0.1:1"
	req.ContentLength = int64(len(body))
	for range r.IntN(3) {
		h := pick(r, headerLines)
		req.Header[h.name] = append(req.Header[h.name], pick(r, h.values))
	}
	if req.Header["Authorization"] != nil && r.IntN(10) > 0 {
		delete(req.Header, "Authorization")
	}
	if strings.HasSuffix(to.path, "/batch") && r.IntN(2) == 0 {
		req.Header["Content-Type"] = []string{"application/x-ndjson"}
	}
	return req
}

// mutate changes a seed a little, or much.
func mutate(r *rand.Rand, seeds [][]byte) []byte {
	b := slices.Clone(pick(r, seeds))
	if r.IntN(500) == 0 {
		size := 300_000 // more than a message may have
		if r.IntN(5) == 0 {
			size = maxBatchBytes + 1<<20 // and than anything may
		}
		piece := []byte(pick(r, pieces))
		b = append(b, bytes.Repeat(piece, size/len(piece)+1)...)
	}
	for range r.IntN(4) {
		at := r.IntN(len(b) + 1)
		end := at + r.IntN(min(len(b)-at, 12)+1)
		switch r.IntN(7) {
		case 0:
			b = slices.Insert(b, at, []byte(pick(r, pieces))...)
		case 1:
			b = slices.Replace(b, at, end, []byte(pick(r, pieces))...)
		case 2:
			b = slices.Delete(b, at, end)
		case 3:
			b = b[:at]
		case 4:
			if at < len(b) {
				b[at] ^= 1 << r.IntN(8)
			}
		case 5:
			b = slices.Insert(b, at, pick(r, seeds)...)
		case 6:
			b = slices.Insert(b, at, b[at:end]...)
		}
	}
	return b
}

// The test above finds what there is to find.
func TestMillionBodiesMakesRequests(t *testing.T) {
	w := newWorld(t, settings{})
	ts := targetsOf(w.srv, openDocument(t))
	r := rand.New(rand.NewPCG(1, 2))
	paths, valid := make(map[string]int), 0
	for range 20_000 {
		req := ts.request(r)
		paths[req.Method+" "+req.URL.Path]++
		var body bytes.Buffer
		body.ReadFrom(req.Body)
		if json.Valid(body.Bytes()) {
			valid++
		}
	}
	for _, want := range []string{"POST /v1/messages", "POST /v1/messages/batch", "POST /v1/decisions", "PUT /v1/limits/a", "POST /v1/session", "POST /api/messages/send", "GET /v1/dlq"} {
		if paths[want] == 0 {
			t.Errorf("no %s", want)
		}
	}
	if valid < 3_000 || valid > 18_000 {
		t.Errorf("%d of 20000 are JSON: %s", valid, fmt.Sprint(len(paths)))
	}
}
