package ingest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/ingest/throttle"
)

const (
	slowKey   = "weir_live_slow"
	smoothKey = "weir_live_smooth"
)

var pacedPolicy = `
providers:
  - {name: sim, type: simulated, channels: [sms, email]}
tenants:
  - {name: acme, default_region: CN, rates: {query: 3/1h}}
keys:
  - {name: acme, tenant: acme, scopes: [send, read], hash: "` + hashOf(acmeKey) + `"}
  - {name: slow, tenant: acme, scopes: [send], rates: {write: "bucket 2 refill 1/h", batch: 1/1h}, hash: "` + hashOf(slowKey) + `"}
  - {name: even, tenant: acme, scopes: [send], rates: {write: 10/1s}, smooth: true, hash: "` + hashOf(smoothKey) + `"}
`

const aMessage = `{"channel":"sms","to":"+8613800000000","body":"b"}`

func bear(key string) string { return "Authorization: Bearer " + key }

// paceOf is what an answer says of its caller's rate.
func paceOf(r reply) string {
	return strings.Join([]string{r.header.Get("RateLimit-Policy"), r.header.Get("RateLimit"), r.header.Get("X-RateLimit-Limit"), r.header.Get("X-RateLimit-Remaining")}, " ")
}

// resetOf is how far X-RateLimit-Reset is ahead.
func resetOf(t *testing.T, r reply) time.Duration {
	t.Helper()
	at, err := strconv.ParseInt(r.header.Get("X-RateLimit-Reset"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Until(time.Unix(at, 0))
}

var timesOfPace = regexp.MustCompile(`;t=(\d+)`)

// says reports whether an answer says this of its caller's rate, each of its times a
// second less for each that has passed since the first call.
func says(r reply, want string, since time.Time) bool {
	got := paceOf(r)
	if timesOfPace.ReplaceAllString(got, "") != timesOfPace.ReplaceAllString(want, "") {
		return false
	}
	times := timesOfPace.FindAllStringSubmatch(want, -1)
	for i, m := range timesOfPace.FindAllStringSubmatch(got, -1) {
		if !fewer(m[1], times[i][1], since) {
			return false
		}
	}
	return true
}

// fewer reports whether got is want seconds, less at most what has passed.
func fewer(got, want string, since time.Time) bool {
	g, err1 := strconv.Atoi(got)
	n, err2 := strconv.Atoi(want)
	return err1 == nil && err2 == nil && g <= n && g >= n-int(time.Since(since)/time.Second)-1
}

func TestPace(t *testing.T) {
	w := newWorld(t, settings{policy: pacedPolicy, keys: true})
	first := time.Now()
	if got, want := paceOf(w.post(aMessage, bear(acmeKey))), `"write";q=30;w=6 "write";r=29;t=1 30 29`; got != want {
		t.Errorf("the default: %s, want %s", got, want)
	}
	// A refusal for another reason has been a call too.
	if got, want := w.post("{}", bear(slowKey)), `"write";q=2;w=7200 "write";r=1;t=3600 2 1`; !says(got, want, first) {
		t.Errorf("the key's own: %s, want %s", paceOf(got), want)
	}
	r := w.post(aMessage, bear(slowKey))
	if want := `"write";q=2;w=7200 "write";r=0;t=3600 2 0`; r.code != 202 || !says(r, want, first) {
		t.Errorf("%d %s, want %s", r.code, paceOf(r), want)
	}
	r = w.post(aMessage, bear(slowKey))
	p := r.problem(http.StatusTooManyRequests, client.CodeClientRate)
	if want := `"write";q=2;w=7200 "write";r=0;t=3600 2 0`; !says(r, want, first) {
		t.Errorf("%s, want %s", paceOf(r), want)
	}
	if left := resetOf(t, r); left < 59*time.Minute || left > time.Hour+time.Second {
		t.Errorf("X-RateLimit-Reset is %v ahead", left)
	}
	if p.Type != client.TypeClientRate || !fewer(fmt.Sprint(p.RetryAfterSeconds), "3600", first) || r.header.Get("Retry-After") != fmt.Sprint(p.RetryAfterSeconds) || fmt.Sprint(p.ViolatedPolicies) != "[write]" {
		t.Errorf("%s, Retry-After %s", r.body, r.header.Get("Retry-After"))
	}
	if at := p.RetryAt.Time(); at.Before(first.Add(time.Hour-time.Second)) || at.After(time.Now().Add(time.Hour+time.Second)) {
		t.Errorf("retry_at %v", at)
	}
	t.Logf("%v\n%s", r.header, r.body)

	// Kinds are counted each for themselves, and a tenant's rates are each key's.
	if got, want := paceOf(w.do("GET", "/v1/messages/x", "", bear(acmeKey))), `"query";q=3;w=3600 "query";r=2;t=3600 3 2`; got != want {
		t.Errorf("the tenant's: %s, want %s", got, want)
	}
	w.do("POST", "/v1/dlq/redrive", `{"dry_run":true}`, bear(slowKey))
	w.do("POST", "/v1/dlq/redrive", `{"dry_run":true}`, bear(slowKey)).problem(http.StatusTooManyRequests, client.CodeClientRate)
	// Without a key, and where none is asked for, nothing is counted.
	for _, path := range []string{"/v1/messages/x", "/healthz", "/readyz", "/openapi.yaml", "/metrics", "/nowhere"} {
		if r := w.do("GET", path, ""); strings.TrimSpace(paceOf(r)) != "" || r.code == http.StatusTooManyRequests {
			t.Errorf("%s: %d %s", path, r.code, paceOf(r))
		}
	}
	metrics := string(w.do("GET", "/metrics", "").body)
	for _, want := range []string{
		`weir_http_rate_limited_total{kind="write"} 1`, `weir_http_rate_decisions_total{kind="write"} 4`,
		`weir_http_rate_limited_total{kind="batch"} 1`, `weir_http_rate_decisions_total{kind="query"} 1`,
		`weir_http_rate_left_ratio_count{kind="write"} 4`, `weir_http_rate_left_ratio_bucket{kind="write",le="0"} 2`,
		`weir_http_busiest_keys{key="slow"} 5`, `weir_http_busiest_keys{key="acme"} 2`, `weir_http_rate_addresses 0`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("no %s in\n%s", want, metrics)
		}
	}
}

// A refusal does not wait for the body, whether or not one ever comes.
func TestPaceComesBeforeTheBody(t *testing.T) {
	w := newWorld(t, settings{policy: pacedPolicy, keys: true})
	w.post(aMessage, bear(slowKey))
	w.post(aMessage, bear(slowKey))
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(2 * time.Minute)) // a server that asks for the body says 100 first
	fmt.Fprintf(conn, "POST /v1/messages HTTP/1.1\r\nHost: weir\r\nExpect: 100-continue\r\n%s\r\nContent-Length: 50\r\n\r\n", bear(slowKey))
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(line, "429") {
		t.Errorf("%q %v", line, err)
	}
}

// 429 is the caller's pace, 503 is what we cannot.
func TestPaceIsNotAvailability(t *testing.T) {
	w := newWorld(t, settings{policy: pacedPolicy, keys: true})
	w.line.cut()
	w.post("{}", bear(slowKey)).problem(400, "invalid_request")
	for _, want := range []struct {
		status int
		code   string
	}{{503, "kafka_unavailable"}, {429, "client_rate"}} {
		w.post(aMessage, bear(slowKey)).problem(want.status, want.code)
	}
}

func TestGuessesAreFew(t *testing.T) {
	w := newWorld(t, settings{policy: pacedPolicy, keys: true, proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, server: func(s *Server) {
		s.pace.limits = throttle.New(throttle.Config{})
	}})
	guess := func(from string) reply { return w.post(aMessage, bear("weir_live_guess"), "X-Forwarded-For: "+from) }
	first := time.Now()
	for i := range 5 {
		r := guess("198.51.100.1")
		r.problem(http.StatusUnauthorized, "unauthenticated")
		if want := fmt.Sprintf(`"login";q=5;w=900 "login";r=%d;t=900 5 %[1]d`, 4-i); !says(r, want, first) {
			t.Errorf("%s, want %s", paceOf(r), want)
		}
	}
	r := guess("198.51.100.1")
	if p := r.problem(http.StatusTooManyRequests, client.CodeClientRate); fmt.Sprint(p.ViolatedPolicies) != "[login]" || r.header.Get("WWW-Authenticate") != "" {
		t.Errorf("%s", r.body)
	}
	guess("8.8.8.8, 198.51.100.1").problem(http.StatusTooManyRequests, client.CodeClientRate)
	guess("198.51.100.2").problem(http.StatusUnauthorized, "unauthenticated")
	if r := w.post(aMessage, bear(acmeKey), "X-Forwarded-For: 198.51.100.1"); r.code != http.StatusAccepted {
		t.Errorf("a good key from there: %d %s", r.code, r.body)
	}
	for range 6 { // no key is no guess, and neither is a session that has ended
		w.post(aMessage, "X-Forwarded-For: 198.51.100.3").problem(http.StatusUnauthorized, "unauthenticated")
		w.do("GET", "/v1/session", "", "X-Forwarded-For: 198.51.100.3", "Cookie: "+sessionCookie+"=old").problem(http.StatusUnauthorized, "unauthenticated")
	}
	// A sign-in that fails counts with the guesses of its address; one with a good key succeeds, however many there are.
	for range 7 {
		read[session](w.do("POST", "/v1/session", `{"key":"`+acmeKey+`"}`, "X-Forwarded-For: 198.51.100.1"), http.StatusOK)
	}
	w.do("POST", "/v1/session", `{"key":"weir_live_guess"}`, "X-Forwarded-For: 198.51.100.1").problem(http.StatusTooManyRequests, client.CodeClientRate)
	w.do("POST", "/v1/session", `{"key":"weir_live_guess"}`, "X-Forwarded-For: 198.51.100.3").problem(http.StatusUnauthorized, "unauthenticated")
}

// What a refusal says comes through a proxy, and whose call it is goes through.
func TestPaceThroughAProxy(t *testing.T) {
	w := newWorld(t, settings{proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		policy: "providers: [{name: sim, type: simulated, channels: [sms]}]\ntenants: [{name: default, default_region: CN, rates: {write: 1/1h}}]"})
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: w.addr})
		r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
		r.SetXForwarded()
	}})
	defer proxy.Close()
	first := time.Now()
	for _, tt := range []struct {
		from string
		code int
	}{{"198.51.100.1", 202}, {"198.51.100.1", 429}, {"198.51.100.2", 202}} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", proxy.URL+"/v1/messages", strings.NewReader(aMessage))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", tt.from) // as a proxy before this one has it
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tt.code || resp.Header.Get("RateLimit-Policy") != `"write";q=1;w=3600` || fewer(resp.Header.Get("Retry-After"), "3600", first) != (tt.code == 429) {
			t.Errorf("%s: %d %v", tt.from, resp.StatusCode, resp.Header)
		}
	}
}

func TestPaceWithoutKeys(t *testing.T) {
	t.Run("on this machine there is none", func(t *testing.T) {
		w := newWorld(t, settings{})
		for range 40 {
			if r := w.do("GET", "/v1/messages/x", ""); strings.TrimSpace(paceOf(r)) != "" {
				t.Fatalf("%s", paceOf(r))
			}
			if r := w.post(aMessage); r.code != http.StatusAccepted {
				t.Fatalf("%d %s", r.code, r.body)
			}
		}
	})
	t.Run("but what the policy gives tenant default", func(t *testing.T) {
		w := newWorld(t, settings{policy: "providers: [{name: sim, type: simulated, channels: [sms]}]\ntenants: [{name: default, default_region: CN, rates: {write: 1/1h}}]"})
		w.post(aMessage)
		w.post(aMessage).problem(http.StatusTooManyRequests, client.CodeClientRate)
		if r := w.do("GET", "/v1/messages/x", ""); strings.TrimSpace(paceOf(r)) != "" {
			t.Fatalf("%s", paceOf(r))
		}
	})
	t.Run("from elsewhere by address", func(t *testing.T) {
		w := newWorld(t, settings{proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
		first := time.Now()
		for _, tt := range []struct {
			from string
			left int
		}{{"198.51.100.1", 29}, {"198.51.100.1", 28}, {"2001:db8::1", 29}, {"2001:db8::2", 28}, {"8.8.8.8, 198.51.100.2", 29}} {
			r := w.post(aMessage, "X-Forwarded-For: "+tt.from)
			left, err := strconv.Atoi(r.header.Get("X-RateLimit-Remaining"))
			// A bucket of 30 gets one more each fifth of a second.
			if more := int(time.Since(first) / (200 * time.Millisecond)); err != nil || left < tt.left || left > min(29, tt.left+more) {
				t.Errorf("%s: %s", tt.from, paceOf(r))
			}
		}
	})
}

// Smooth calls come one after the other, and only those beyond what the bucket
// holds are refused.
func TestSmooth(t *testing.T) {
	w := newWorld(t, settings{policy: pacedPolicy, keys: true})
	type outcome struct {
		code int
		took time.Duration
	}
	out := make([]outcome, 15)
	began := time.Now()
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() {
			r := w.post(aMessage, bear(smoothKey))
			out[i] = outcome{r.code, time.Since(began)}
		})
	}
	wg.Wait()
	accepted, last := 0, time.Duration(0)
	for _, o := range out {
		switch o.code {
		case http.StatusAccepted:
			accepted++
			last = max(last, o.took)
		case http.StatusTooManyRequests:
		default:
			t.Errorf("%d", o.code)
		}
	}
	// Ten at once; each tenth of a second that the calls took to come, one more.
	if late := int(time.Since(began) / (100 * time.Millisecond)); accepted < 10 || accepted > 10+late {
		t.Errorf("%d of 15 were accepted", accepted)
	}
	if last < 890*time.Millisecond {
		t.Errorf("the last came after %v, and the tenth's turn is after 900ms", last)
	}
}

func TestWait(t *testing.T) {
	for _, tt := range []struct {
		name  string
		end   func(p *pacer, cancel func())
		after time.Duration
		code  string
	}{
		{"its turn", func(*pacer, func()) {}, 3 * time.Second, ""},
		{"the caller leaves", func(_ *pacer, cancel func()) { cancel() }, time.Second, "not_ready"},
		{"the server shuts down", func(p *pacer, _ func()) { close(p.stop) }, time.Second, "not_ready"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPacer(nil, func() int { return 1 }, nil)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r := httptest.NewRequestWithContext(ctx, "POST", "/", io.NopCloser(strings.NewReader("")))
				time.AfterFunc(time.Second, func() { tt.end(p, cancel) })
				began := time.Now()
				got := p.wait(httptest.NewRecorder(), r, 3*time.Second)
				if took := time.Since(began); took != tt.after || got == nil && tt.code != "" || got != nil && got.Code != tt.code {
					t.Errorf("%v after %v, want %q after %v", got, took, tt.code, tt.after)
				}
			})
		})
	}
}

// TestProcessesAreCounted: a second process that serves HTTP halves the rates, and its end
// gives them back.
func TestProcessesAreCounted(t *testing.T) {
	w := newWorld(t, settings{keys: true, policy: `
providers: [{name: sim, type: simulated, channels: [sms]}]
tenants: [{name: default, default_region: CN, rates: {query: 100/1h}}]
keys: [{name: shop, tenant: default, scopes: [read], hash: "` + hashOf("weir_live_shop") + `"}]`})
	shares := func(want string) {
		t.Helper()
		r := w.do("GET", "/v1/messages/x", "", "Authorization: Bearer weir_live_shop")
		if got := r.header.Get("X-RateLimit-Limit"); got != want {
			t.Errorf("of 100 calls it lets %s through, want %s", got, want)
		}
	}
	shares("100")
	second, err := New(t.Context(), Config{Brokers: w.broker.ListenAddrs(), Names: w.names, Partitions: partitions, Replies: 8, Slot: 1, Policy: w.pol, Keyless: true})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- second.Serve(ctx, ln) }()
	w.until("two are counted", func() bool { return w.srv.instances.count() == 2 && second.instances.count() == 2 })
	shares("50")
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	w.until("one is counted", func() bool { return w.srv.instances.count() == 1 })
	shares("100")
}
