package ingest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhq/weir/deploy/presets"
	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/schemas"
)

const (
	hello = `{"channel":"sms","to":"138 0000 0000","class":"verify","body":"code 1"}`
	key   = "+8613800000000"
	trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
)

// TestUnknownClass: where the policy rejects classes that nobody declared, so does
// the API, before anything is written.
func TestUnknownClass(t *testing.T) {
	w := newWorld(t, settings{policy: string(presets.Dev)})
	p := read[client.Problem](w.post(`{"channel":"sms","to":"+8613800000000","class":"verfy","body":"b"}`), 422)
	if len(p.Errors) != 1 || p.Errors[0].Code != "unknown_class" || p.Errors[0].Pointer != "/class" || !strings.Contains(p.Errors[0].Detail, "did you mean verify?") {
		t.Errorf("%+v", p)
	}
}

// TestCallbackAddress: an address that callbacks never reach is told at once, one at a time and in a
// batch. Names are judged when they are called.
func TestCallbackAddress(t *testing.T) {
	const policy = `
providers:
  - {name: sim, type: simulated, channels: [sms]}
tenants:
  - {name: default, callback: {secret: "${CALLBACK_SECRET}"}}
`
	w := newWorld(t, settings{policy: policy, server: func(s *Server) { s.callbacks = outbound.Networks{netip.MustParsePrefix("10.1.0.0/16")} }})
	body := func(url string) string {
		return fmt.Sprintf(`{"channel":"sms","to":"+8613800000000","body":"x","callback_url":%q}`, url)
	}
	for url, allowed := range map[string]bool{
		"http://169.254.169.254/latest/meta-data/": false, "https://127.0.0.1:8443/x": false, "http://[::1]/x": false, "http://[::ffff:10.0.0.1]/x": false,
		"https://[::ffff:0:10.0.0.1]/x": false, "https://[64:ff9b::10.0.0.1]/x": false, "https://[2002:0a00:0001::]/x": false, "https://[2001:0:a00:1::]/x": false, "https://10.0.0.1./x": false,
		"https://[64:ff9b::10.1.0.1]/x": true,
		"http://192.168.1.7/x":          false, "http://10.2.0.1/x": false, "http://10.1.0.1/x": true, "https://93.184.216.34/x": true, "https://callbacks.example.com/x": true,
	} {
		if allowed {
			read[client.Sent](w.post(body(url)), http.StatusAccepted)
			continue
		}
		p := w.post(body(url)).problem(http.StatusBadRequest, "invalid_request")
		if len(p.Errors) != 1 || p.Errors[0].Pointer != "/callback_url" || p.Errors[0].Code != schemas.ReasonBadURL {
			t.Errorf("%s: %+v", url, p.Errors)
		}
		if r := w.do("POST", "/v1/messages/batch", `{"messages":[`+body(url)+`]}`); !strings.Contains(string(r.body), "/callback_url") {
			t.Errorf("%s in a batch: %d %s", url, r.code, r.body)
		}
	}
}

// TestTenantsCallbackAddress: nor is such an address taken into the policy. What the policy
// has already may stay.
func TestTenantsCallbackAddress(t *testing.T) {
	w := newWorld(t, settings{policy: `
providers:
  - {name: sim, type: simulated, channels: [sms]}
tenants:
  - {name: acme, callback: {url: "https://10.0.0.1/x", secret: "${CALLBACK_SECRET}"}}
`})
	tenant := func(url, more string) string {
		return fmt.Sprintf(`{"callback":{"url":%q,"secret":"${CALLBACK_SECRET}"}%s}`, url, more)
	}
	for _, url := range []string{"https://10.0.0.2/x", "https://[::ffff:0:10.0.0.1]/x", "https://[2002:0a00:0001::]/x"} {
		p := w.do("PUT", "/v1/tenants/acme", tenant(url, "")).problem(http.StatusBadRequest, "invalid_request")
		if len(p.Errors) != 1 || p.Errors[0].Pointer != "/callback/url" {
			t.Errorf("%s: %+v", url, p.Errors)
		}
	}
	for _, body := range []string{tenant("https://10.0.0.1/x", `,"default_region":"CN"`), tenant("https://93.184.216.34/x", ""), tenant("https://callbacks.example.com/x", ""), `{}`} {
		if r := w.do("PUT", "/v1/tenants/acme", body); r.code != http.StatusOK {
			t.Errorf("%s: %d %s", body, r.code, r.body)
		}
	}
}

// What is answered 202 stands in weir.requests where admission looks for it.
func TestAccepted(t *testing.T) {
	w := newWorld(t, settings{})
	r := w.post(hello, "Content-Type: application/x-www-form-urlencoded", "traceparent: "+trace, "Prefer: return=minimal")
	a := read[client.Sent](r, http.StatusAccepted)
	if u, err := uuid.Parse(a.ID); err != nil || u.Version() != 7 || a.Status != schemas.StatusAccepted {
		t.Errorf("%+v: %v", a, err)
	}
	if r.header.Get("Location") != "/v1/messages/"+a.ID || r.header.Get("Preference-Applied") != "" {
		t.Errorf("%v", r.header)
	}
	rec := w.requests(1)[0]
	if string(rec.Key) != key || rec.Partition != schemas.PartitionOf(key, partitions) {
		t.Errorf("key %s in partition %d", rec.Key, rec.Partition)
	}
	q, err := schemas.DecodeRequest(rec.Value, nil)
	if err != nil || q.ID != a.ID || q.Tenant != "default" || q.To != "138 0000 0000" || q.Body != "code 1" || q.Validate(schemas.MillisOf(time.Now())) != nil {
		t.Errorf("%+v: %v", q, err)
	}
	if !slices.EqualFunc(rec.Headers, []kgo.RecordHeader{{Key: "traceparent", Value: []byte(trace)}}, func(a, b kgo.RecordHeader) bool {
		return a.Key == b.Key && string(a.Value) == string(b.Value)
	}) {
		t.Errorf("headers %v", rec.Headers)
	}
	// Until it is decided it is accepted, at once.
	m := read[client.Message](w.do("GET", "/v1/messages/"+strings.ToUpper(a.ID), ""), http.StatusOK)
	if m.ID != a.ID || m.Status != schemas.StatusAccepted || m.To != key || m.Tenant != "default" || m.Class != "verify" || m.Channel != "sms" || m.AcceptedAt == 0 || len(m.Timeline) != 0 {
		t.Errorf("%+v", m)
	}
	if log := w.log.String(); strings.Contains(log, "138") || strings.Contains(log, "code 1") {
		t.Errorf("the log holds what it must not: %s", log)
	}
	// Each recipient's partition is the one that owns it.
	for i := range 20 {
		w.post(fmt.Sprintf(`{"channel":"sms","to":"+86138000000%02d","body":"b"}`, i))
	}
	for _, rec := range w.requests(20) {
		if rec.Partition != schemas.PartitionOf(string(rec.Key), partitions) {
			t.Errorf("key %s in partition %d", rec.Key, rec.Partition)
		}
	}
	for i, text := range []string{"", "00-" + strings.Repeat("0", 32) + trace[35:], strings.ToUpper(trace), trace + "x", "01" + trace[2:]} {
		w.post(hello, "traceparent: "+text)
		if rec := w.requests(1)[0]; len(rec.Headers) != 0 {
			t.Errorf("traceparent %d: passed on", i)
		}
	}
}

func TestRefused(t *testing.T) {
	w := newWorld(t, settings{})
	form := []string{"Content-Type: application/json"}
	tests := []struct {
		name, body string
		headers    []string
		status     int
		code       string
		errors     []string // pointer and code
	}{
		{"not JSON", `hello`, form, 400, "invalid_request", []string{" not_json"}},
		{"nothing", ``, form, 400, "invalid_request", []string{" empty"}},
		{"no object", `[1]`, form, 400, "invalid_request", []string{" not_object"}},
		{"something behind it", hello + `{}`, form, 400, "invalid_request", []string{" trailing_data"}},
		{"unknown field", `{"channel":"sms","to":"+8613800000000","body":"b","bodyy":"b"}`, form, 400, "invalid_request", []string{"/bodyy unknown_field"}},
		{"all at once", `{"body":"b","vars":{"a":[1]}}`, form, 400, "invalid_request", []string{"/channel required", "/to required", "/vars/a wrong_type"}},
		{"impossible number", `{"channel":"sms","to":"+86138","body":"b"}`, form, 400, "invalid_request", []string{"/to bad_recipient_phone"}},
		{"no address", `{"channel":"email","to":"ana","subject":"s","body":"b"}`, form, 400, "invalid_request", []string{"/to bad_recipient_email"}},
		{"long ago", `{"channel":"sms","to":"+8613800000000","body":"b","send_at":"1970-01-01T00:00:00Z"}`, form, 400, "invalid_request", []string{"/send_at send_at_out_of_range"}},
		{"a cost of nothing", `{"channel":"sms","to":"+8613800000000","body":"b","cost":0}`, form, 400, "invalid_request", []string{"/cost cost_out_of_range"}},
		{"a cost too high", `{"channel":"sms","to":"+8613800000000","body":"b","cost":1000001}`, form, 400, "invalid_request", []string{"/cost cost_out_of_range"}},
		{"half a cost", `{"channel":"sms","to":"+8613800000000","body":"b","cost":2.5}`, form, 400, "invalid_request", []string{"/cost wrong_type"}},
		{"its own id", `{"channel":"sms","to":"+8613800000000","body":"b","id":"0192f0c1-2a3b-7c4d-8e5f-60718293a4b5"}`, form, 400, "invalid_request", []string{"/id not_permitted"}},
		{"another action", `{"action":"cancel","to":"+8613800000000"}`, form, 400, "invalid_request", []string{"/action not_permitted"}},
		{"an action's field", `{"channel":"sms","to":"+8613800000000","body":"b","at":"2026-11-21T09:00:00Z"}`, form, 400, "invalid_request", []string{"/at not_permitted"}},
		{"another tenant", `{"tenant":"acme","channel":"sms","to":"+8613800000000","body":"b"}`, form, 403, "forbidden_tenant", []string{"/tenant forbidden_tenant"}},
		{"300 KiB", `{"channel":"sms","to":"+8613800000000","body":"` + strings.Repeat("x", 300<<10) + `"}`, form, 413, "too_large", []string{" too_large"}},
		{"no room for the id", pad(256 << 10), form, 413, "too_large", []string{" too_large"}},
		{"a form of a page", hello, []string{"Content-Type: multipart/form-data; boundary=x"}, 415, "unsupported_media_type", nil},
		{"protobuf", hello, []string{"Content-Type: application/x-protobuf"}, 415, "unsupported_media_type", nil},
		{"compressed", hello, []string{"Content-Encoding: gzip"}, 415, "unsupported_media_type", nil},
		{"two keys", hello, []string{"Idempotency-Key: a", "Idempotency-Key: b"}, 400, "bad_idempotency_key", nil},
		{"empty key", hello, []string{`Idempotency-Key: ""`}, 400, "bad_idempotency_key", nil},
		{"half a key", hello, []string{`Idempotency-Key: "a`}, 400, "bad_idempotency_key", nil},
		{"long key", hello, []string{`Idempotency-Key: ` + strings.Repeat("k", 256)}, 400, "bad_idempotency_key", nil},
		{"key that is no text", hello, []string{"Idempotency-Key: \xff"}, 400, "bad_idempotency_key", nil},
		{"other key than the body's", strings.Replace(hello, "{", `{"idempotency_key":"a",`, 1), []string{"Idempotency-Key: b"}, 400, "idempotency_key_conflict", []string{"/idempotency_key idempotency_key_conflict"}},
		{"a page of another site", hello, []string{"Origin: https://evil.example", "Content-Type: text/plain"}, 403, "cross_origin", nil},
		{"a page, newer browser", hello, []string{"Sec-Fetch-Site: cross-site"}, 403, "cross_origin", nil},
		{"a name pointed here", hello, []string{"Host: evil.example", "Origin: http://evil.example"}, 421, "misdirected_host", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := *w
			w.t = t
			r := w.post(tt.body, tt.headers...)
			p := r.problem(tt.status, tt.code)
			var got []string
			for _, e := range p.Errors {
				got = append(got, e.Pointer+" "+e.Code)
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.errors) {
				t.Errorf("%q, want %q", got, tt.errors)
			}
			if p.Instance != "/v1/messages" {
				t.Errorf("instance %q", p.Instance)
			}
			for _, secret := range []string{"ana", "86138", "evil"} {
				if strings.Contains(string(r.body), secret) {
					t.Errorf("%s repeats the request", r.body)
				}
			}
		})
	}
	// None of it reached Kafka: the first record there is this one.
	a := read[client.Sent](w.post(hello), http.StatusAccepted)
	if q, _ := schemas.DecodeRequest(w.requests(1)[0].Value, nil); q == nil || q.ID != a.ID {
		t.Errorf("%+v is before %s", q, a.ID)
	}
}

// pad is a valid request of n bytes.
func pad(n int) string {
	body := `{"channel":"email","to":"a@example.com","subject":"s","body":""}` // an SMS has its own bound
	return strings.Replace(body, `""`, `"`+strings.Repeat("x", n-len(body))+`"`, 1)
}

func TestLargest(t *testing.T) {
	w := newWorld(t, settings{})
	read[client.Sent](w.post(pad(256<<10-128)), http.StatusAccepted)
	w.requests(1)
}

func TestContentTypes(t *testing.T) {
	for _, typ := range []string{"", "application/json", "application/json; charset=utf-8", "application/vnd.acme+json", "text/plain", "application/x-www-form-urlencoded", "application/octet-stream", "no type;;"} {
		if p := wrongType(http.Header{"Content-Type": {typ}, "Content-Encoding": {"identity"}}); p != nil {
			t.Errorf("%q: %v", typ, p)
		}
	}
}

// One key names one message: whatever way it comes, and however the recipient
// is written.
func TestIdempotency(t *testing.T) {
	w := newWorld(t, settings{})
	withKey := func(to, key string) string {
		return fmt.Sprintf(`{"channel":"sms","to":%q,"body":"b","idempotency_key":%q}`, to, key)
	}
	first := read[client.Sent](w.post(withKey(key, "order-17")), http.StatusAccepted)
	for name, r := range map[string]reply{
		"again":            w.post(withKey(key, "order-17")),
		"header":           w.post(`{"channel":"sms","to":"13800000000","body":"b"}`, "Idempotency-Key: order-17"),
		"quoted header":    w.post(`{"channel":"sms","to":"+86 138 0000 0000","body":"b"}`, `Idempotency-Key: "order-17"`),
		"both":             w.post(withKey(key, "order-17"), `Idempotency-Key: order-17`),
		"name of a tenant": w.post(`{"tenant":"default","channel":"sms","to":"13800000000","body":"b","idempotency_key":"order-17"}`),
	} {
		if a := read[client.Sent](r, http.StatusAccepted); a.ID != first.ID {
			t.Errorf("%s: %s, want %s", name, a.ID, first.ID)
		}
	}
	for _, rec := range w.requests(6) {
		if q, err := schemas.DecodeRequest(rec.Value, nil); err != nil || q.IdempotencyKey != "order-17" || q.ID != first.ID {
			t.Errorf("%+v %v", q, err)
		}
	}
	for name, r := range map[string]reply{
		"other key":       w.post(withKey(key, "order-18")),
		"other recipient": w.post(withKey("+8613800000001", "order-17")),
		"no key":          w.post(hello),
	} {
		if a := read[client.Sent](r, http.StatusAccepted); a.ID == first.ID {
			t.Errorf("%s: the same id", name)
		}
	}
}

func TestBareKey(t *testing.T) {
	for text, want := range map[string]string{`a`: "a", `"a"`: "a", `"a\"b\\c"`: `a"b\c`, `a b`: "a b", `"`: "", `""`: "", ``: "", `"a" x`: "", `"a\x"`: "", `"a\`: "", `a"b`: ""} {
		if got, ok := bareKey(text); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %q, %v", text, got, ok)
		}
	}
}

// However Kafka is away, a request is answered in bounded time; and when it is
// back, so are the 202s, without anyone's doing.
func TestBrokerAway(t *testing.T) {
	tests := []struct {
		name  string
		start bool // away from the beginning
		away  func(*world) (back func())
	}{
		{"never there", true, func(w *world) func() { return w.line.mend }},
		{"gone", false, func(w *world) func() { w.line.cut(); return w.line.mend }},
		{"hangs up", false, func(w *world) func() {
			var back atomic.Bool
			w.broker.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
				if back.Load() {
					return nil, nil, false
				}
				w.broker.KeepControl()
				return nil, errors.New("hung up"), true
			})
			return func() { back.Store(true) }
		}},
		{"frozen", false, func(w *world) func() {
			thaw := make(chan struct{})
			w.broker.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
				w.broker.KeepControl()
				<-thaw
				return nil, nil, false
			})
			return sync.OnceFunc(func() { close(thaw) })
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, settings{cut: tt.start})
			var accepted []string
			if !tt.start {
				accepted = append(accepted, read[client.Sent](w.post(hello), http.StatusAccepted).ID)
			}
			back := tt.away(w)
			t.Cleanup(back) // before the broker closes
			var wg sync.WaitGroup
			var slowest atomic.Int64
			for range 20 {
				wg.Go(func() {
					began := time.Now()
					r := w.post(hello)
					took := time.Since(began)
					slowest.Store(max(slowest.Load(), int64(took))) // roughly: for the log
					if p := r.problem(http.StatusServiceUnavailable, "kafka_unavailable"); r.header.Get("Retry-After") != "2" || took > answerTimeout+10*time.Second {
						t.Errorf("%v after %v", p, took)
					}
				})
			}
			wg.Wait()
			t.Logf("503 within %v", time.Duration(slowest.Load()).Round(time.Millisecond))
			if r := w.do("GET", "/healthz", ""); r.code != http.StatusOK {
				t.Errorf("healthz: %d", r.code)
			}
			if tt.name == "never there" || tt.name == "gone" {
				var r reply
				w.until("not ready", func() bool { r = w.do("GET", "/readyz", ""); return r.code != http.StatusOK })
				p := r.problem(http.StatusServiceUnavailable, "not_ready")
				if !slices.ContainsFunc(p.Errors, func(e client.FieldError) bool { return e.Code == "kafka_unavailable" }) {
					t.Errorf("%+v", p)
				}
				if tt.start && !slices.ContainsFunc(p.Errors, func(e client.FieldError) bool { return e.Code == "catching_up" }) {
					t.Errorf("%+v", p)
				}
			}
			back()
			began := time.Now()
			var r reply
			w.until("accepting again", func() bool { r = w.post(hello); return r.code == http.StatusAccepted })
			accepted = append(accepted, read[client.Sent](r, http.StatusAccepted).ID)
			t.Logf("202 again %v after Kafka was back", time.Since(began).Round(time.Millisecond))
			w.until("ready again", func() bool { return w.do("GET", "/readyz", "").code == http.StatusOK })
			if n := strings.Count(w.log.String(), "Kafka does not take requests"); n != 1 {
				t.Errorf("said %d times: %s", n, w.log)
			}
			if tt.name == "frozen" { // it holds what it was sent before it froze
				return
			}
			// What was refused does not go out when Kafka is back.
			for i, rec := range w.requests(len(accepted)) {
				if q, err := schemas.DecodeRequest(rec.Value, nil); err != nil || q.ID != accepted[i] {
					t.Errorf("%+v is in Kafka, and not %s: %v", q, accepted[i], err)
				}
			}
		})
	}
}

// A body that does not come is given up on, and others are served meanwhile.
func TestSlowClient(t *testing.T) {
	w := newWorld(t, settings{server: func(s *Server) { s.http.ReadTimeout = time.Second }})
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
	read[client.Sent](w.post(hello), http.StatusAccepted)
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	openDocument(t).check(t, "POST", "/v1/messages", resp, body)
	if resp.StatusCode != http.StatusRequestTimeout || !resp.Close {
		t.Errorf("%d, closes: %v", resp.StatusCode, resp.Close)
	}
}

// A chunked body has no length to refuse it by: it is cut where it is too long.
func TestEndlessBody(t *testing.T) {
	w := newWorld(t, settings{})
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat("x", 64<<10))
	for range 6 {
		if _, err := io.WriteString(conn, chunk); err != nil {
			break
		}
	}
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	openDocument(t).check(t, "POST", "/v1/messages", resp, body)
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// At shutdown what is in flight is still answered, and nothing new is taken.
func TestShutdown(t *testing.T) {
	w := newWorld(t, settings{})
	thaw, frozen := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.broker.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		once.Do(func() { close(frozen) })
		<-thaw
		return nil, nil, false
	})
	code := make(chan int, 1)
	go func() {
		resp, err := http.Post("http://"+w.addr+"/v1/messages", "", strings.NewReader(hello))
		if err != nil {
			code <- 0
			return
		}
		resp.Body.Close()
		code <- resp.StatusCode
	}()
	<-frozen
	stopped := make(chan error, 1)
	go func() { stopped <- w.stop() }()
	w.until("closed", func() bool {
		c, err := net.Dial("tcp", w.addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	close(thaw)
	if c := <-code; c != http.StatusAccepted {
		t.Errorf("in flight: %d", c)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// Without keys nobody but this machine may be served.
func TestAddressOfOthers(t *testing.T) {
	w := newWorld(t, settings{})
	srv, err := New(t.Context(), Config{Brokers: w.broker.ListenAddrs(), Partitions: partitions, Replies: 8, Policy: w.pol, Keyless: true})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := srv.Serve(ctx, ln); err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("%v", err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener: %v", err)
	}
}

// A message over its channel's limit is refused at once, with its variables filled in,
// and nothing of it is written.
func TestTooLongMessages(t *testing.T) {
	w := newWorld(t, settings{policy: `
providers:
  - {name: sim, type: simulated, channels: [sms, email, push]}
templates:
  - {name: t, channel: sms, body: "Hello {{name}}"}
`})
	x := strings.Repeat
	ends := w.ends(w.names.Requests())
	for body, pointer := range map[string]string{
		`{"channel":"sms","to":"+8613800000001","body":"` + x("a", 1531) + `"}`:                                                    "/body",
		`{"channel":"sms","to":"+8613800000001","body":"` + x("码", 671) + `"}`:                                                     "/body",
		`{"channel":"sms","to":"+8613800000001","template":"t","vars":{"name":"` + x("a", 1525) + `"}}`:                            "/vars",
		`{"channel":"push","to":"device:abcdef","title":"t","body":"b","data":{"k":"` + x("v", 4096) + `"}}`:                       "/body",
		`{"channel":"email","to":"a@example.com","subject":"s","body":"` + x("b", 130<<10) + `","html":"` + x("h", 125<<10) + `"}`: "",
	} {
		r := w.post(body)
		if pointer == "" {
			read[client.Sent](r, http.StatusAccepted)
			continue
		}
		p := r.problem(http.StatusUnprocessableEntity, "message_rejected")
		if len(p.Errors) != 1 || p.Errors[0].Code != schemas.ReasonTooLong || p.Errors[0].Pointer != pointer {
			t.Errorf("%.60s: %+v", body, p.Errors)
		}
	}
	if tracks := w.tracks(ends); len(tracks) != 1 {
		t.Errorf("%d were written, want the mail alone", len(tracks))
	}
}
