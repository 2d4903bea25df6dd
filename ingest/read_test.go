package ingest

import (
	"github.com/google/uuid"

	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/schemas"
)

const (
	theirs = "0192f0c1-2a3b-7c4d-8e5f-60718293a4b5"
	t0     = schemas.Millis(1795248000000)
)

func event(id string, s schemas.Status, at int64) *schemas.Event {
	return &schemas.Event{
		Kind: schemas.KindStatus, MessageID: id, Tenant: "default", Channel: "sms", Class: "verify", To: key, Status: s,
		At: t0 + schemas.Millis(at), AcceptedAt: t0,
	}
}

func (w *world) get(id string) reply {
	w.t.Helper()
	return w.do("GET", "/v1/messages/"+id, "")
}

func steps(m *client.Message) (s string) {
	for _, e := range m.Timeline {
		s += string(e.Status) + " "
	}
	return strings.TrimSpace(s)
}

func TestTimeline(t *testing.T) {
	w := newWorld(t, settings{})
	a := read[client.Sent](w.post(hello), http.StatusAccepted)
	queued := event(a.ID, schemas.StatusQueued, 2)
	queued.Decision = &schemas.Decision{Verdict: schemas.VerdictAdmit, Partition: 1, Seq: 7, T: t0, Revision: 1, Charges: []schemas.Charge{{Limit: "verify", Scope: "s", T: t0, Cost: 1}}}
	sending := event(a.ID, schemas.StatusSending, 3)
	sending.Attempt, sending.Provider = 1, "simulated"
	sent := event(a.ID, schemas.StatusSent, 40)
	sent.Attempt, sent.Provider, sent.ProviderMessageID = 1, "simulated", "sim-1"
	decision := event(a.ID, schemas.StatusSent, 1)
	decision.Kind = schemas.KindDecision
	for _, e := range []*schemas.Event{queued, decision, sending, sent} {
		w.status(e)
	}
	if err := w.cl.ProduceSync(t.Context(), &kgo.Record{Topic: w.names.Status(), Value: []byte("rubbish")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	var m client.Message
	w.until("sent", func() bool {
		m = read[client.Message](w.get(a.ID), http.StatusOK)
		return m.Status == schemas.StatusSent
	})
	if steps(&m) != "queued sending sent" || m.Attempt != 1 || m.Provider != "simulated" || m.ProviderMessageID != "sim-1" || m.At != sent.At || m.AcceptedAt != t0 {
		t.Errorf("%+v", m)
	}
	if c := m.Timeline[0].Decision; c == nil || len(c.Charges) != 1 {
		t.Errorf("the decision is %+v", c)
	}
	body := w.get(a.ID).body
	if !bytes.Contains(body, []byte(`"accepted_at":"2026-11-21T08:00:00.000Z"`)) {
		t.Errorf("times: %s", body)
	}
	// A receipt amends, and a straggler changes nothing.
	w.status(event(a.ID, schemas.StatusDelivered, 900))
	w.status(event(a.ID, schemas.StatusUndelivered, 901))
	w.until("whole", func() bool {
		m = read[client.Message](w.get(a.ID), http.StatusOK)
		return len(m.Timeline) == 5
	})
	if m.Status != schemas.StatusDelivered || m.Provider != "simulated" {
		t.Errorf("%+v", m)
	}
	// Uncommitted and aborted statuses are none.
	w.transaction(event(theirs, schemas.StatusQueued, 1), kgo.TryAbort)
	limited := event(theirs, schemas.StatusLimited, 1)
	limited.Limit, limited.Window, limited.RetryAt = "verify", "1/60s", t0+60_000
	w.transaction(limited, kgo.TryCommit)
	w.until("limited", func() bool { return w.get(theirs).code == http.StatusOK })
	if m = read[client.Message](w.get(theirs), http.StatusOK); steps(&m) != "limited" || m.Limit != "verify" || m.Window != "1/60s" || m.RetryAt != t0+60_000 {
		t.Errorf("%+v", m)
	}
}

// A server that starts reads a little of what was before it.
// A message that goes round the owners of wide limits has no status yet: what home
// and owners decide meanwhile is none, and neither is an owner's refusal.
func TestUnderWay(t *testing.T) {
	w := newWorld(t, settings{})
	a := read[client.Sent](w.post(hello), http.StatusAccepted)
	marked := read[client.Sent](w.post(hello), http.StatusAccepted)
	step := func(class string, d *schemas.Decision) {
		w.status(&schemas.Event{Kind: schemas.KindDecision, MessageID: a.ID, Tenant: "default", Class: class, To: key, At: t0 + 1,
			Reason: "limited", RetryAt: t0 + 1000, Decision: d})
	}
	step("verify", &schemas.Decision{Verdict: schemas.VerdictCharge, Onward: new(int32(1))})
	step("", &schemas.Decision{Verdict: schemas.VerdictCharge, Partition: 1, Charges: []schemas.Charge{{Limit: "all", T: t0, Cost: 1}}, Onward: new(int32(2))})
	step("", &schemas.Decision{Verdict: schemas.VerdictRefuse, Partition: 2, Evidence: []schemas.Evidence{{Limit: "acme", Scope: "tenant=acme", N: 1, Count: 1}}, Onward: new(int32(0))})
	// In the same partition, so that all before it has been read.
	w.status(event(marked.ID, schemas.StatusQueued, 2))
	w.until("what came after it is seen", func() bool {
		return read[client.Message](w.get(marked.ID), http.StatusOK).Status == schemas.StatusQueued
	})
	m := read[client.Message](w.get(a.ID), http.StatusOK)
	if m.Status != schemas.StatusAccepted || len(m.Timeline) != 0 || m.Limit != "" || m.RetryAt != 0 || m.Reason != "" {
		t.Errorf("under way it shows as %+v", m)
	}
	refused := event(a.ID, schemas.StatusLimited, 3)
	refused.Limit, refused.Window, refused.RetryAt = "acme", "1/24h", t0+1000
	refused.Decision = &schemas.Decision{Verdict: schemas.VerdictRefuse, Released: []schemas.Charge{{Limit: "all", T: t0, Cost: 1}}}
	w.status(refused)
	w.until("refused", func() bool {
		m = read[client.Message](w.get(a.ID), http.StatusOK)
		return m.Status == schemas.StatusLimited
	})
	if steps(&m) != "limited" || m.Limit != "acme" || m.Window != "1/24h" || m.RetryAt != t0+1000 || len(m.Timeline[0].Decision.Released) != 1 {
		t.Errorf("%+v", m)
	}
}

func TestTailBeginsBeforeTheEnd(t *testing.T) {
	w := newWorld(t, settings{status: []*schemas.Event{event(theirs, schemas.StatusQueued, 1), event(theirs, schemas.StatusFailed, 2)}})
	if m := read[client.Message](w.get(theirs), http.StatusOK); steps(&m) != "queued failed" || m.Status != schemas.StatusFailed {
		t.Errorf("%+v", m)
	}
}

// A partition that ends in a transaction's marker, or in nothing but an aborted
// one, has an end all the same: newWorld waits until the server is ready.
func TestReadyBehindTransactions(t *testing.T) {
	for name, end := range map[string]kgo.TransactionEndTry{"committed": kgo.TryCommit, "aborted": kgo.TryAbort} {
		t.Run(name, func(t *testing.T) {
			newWorld(t, settings{before: func(w *world) { w.transaction(event(theirs, schemas.StatusQueued, 1), end) }})
		})
	}
}

func TestFold(t *testing.T) {
	retrying := event(theirs, schemas.StatusRetrying, 3)
	retrying.Attempt, retrying.Provider, retrying.ErrorCode, retrying.Error, retrying.RetryAt = 1, "a", "E1", "busy", t0+5000
	observed := event(theirs, schemas.StatusQueued, 1)
	observed.Observed = true
	tests := []struct {
		name   string
		events []*schemas.Event
		want   client.Message
	}{
		{"the latest of equals", []*schemas.Event{observed, event(theirs, schemas.StatusSending, 2), retrying},
			client.Message{Status: schemas.StatusRetrying, At: t0 + 3, Attempt: 1, Provider: "a", ErrorCode: "E1", Error: "busy", RetryAt: t0 + 5000, Observed: true}},
		{"an end has no error of an attempt before", []*schemas.Event{retrying, event(theirs, schemas.StatusSent, 9)},
			client.Message{Status: schemas.StatusSent, At: t0 + 9, Attempt: 1, Provider: "a"}},
		{"a receipt before the end", []*schemas.Event{event(theirs, schemas.StatusDelivered, 1), event(theirs, schemas.StatusSent, 2)},
			client.Message{Status: schemas.StatusDelivered, At: t0 + 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			want.ID, want.Tenant, want.Channel, want.Class, want.To, want.AcceptedAt, want.Timeline = theirs, "default", "sms", "verify", key, t0, tt.events
			if got := fold(theirs, nil, tt.events); !reflect.DeepEqual(got, &want) {
				t.Errorf("%+v\nwant %+v", got, want)
			}
		})
	}
}

// A producer may use one id for several recipients, and two tenants the same.
func TestMessageOfARecipient(t *testing.T) {
	second, foreign := event(theirs, schemas.StatusFailed, 2), event(theirs, schemas.StatusLimited, 3)
	second.To, foreign.To, foreign.Tenant = "+8613800000001", "+8613800000002", "acme"
	h := &store{}
	h.set(nil, event(theirs, schemas.StatusQueued, 1), second)
	w := newWorld(t, settings{history: h, status: []*schemas.Event{event(theirs, schemas.StatusSent, 4), foreign}})
	for to, want := range map[string]string{
		"%2B8613800000000": "queued sent", "+8613800000000": "queued sent", "8613800000001": "failed", "138 0000 0001&channel=sms": "failed",
	} {
		if m := read[client.Message](w.get(theirs+"?to="+strings.ReplaceAll(to, " ", "%20")), http.StatusOK); steps(&m) != want {
			t.Errorf("%s: %+v", to, m)
		}
	}
	w.get(theirs+"?to=8613800000002").problem(http.StatusNotFound, "message_not_found")
	w.get(theirs+"?to=&x=1").problem(http.StatusBadRequest, "invalid_request")
	// What is done to it is done to that one.
	if r := w.do("POST", "/v1/messages/"+theirs+"/cancel?to=8613800000000", "", "Prefer: respond-async"); r.code != http.StatusAccepted || string(w.requests(1)[0].Key) != "+8613800000000" {
		t.Errorf("cancel: %d %s", r.code, r.body)
	}
	if r := w.do("POST", "/v1/messages/"+theirs+"/cancel?to=8613800000001", "", "Prefer: respond-async"); r.code != http.StatusAccepted || string(w.requests(1)[0].Key) != "+8613800000001" {
		t.Errorf("cancel: %d %s", r.code, r.body)
	}
	w.do("POST", "/v1/messages/"+theirs+"/retry?to=8613800000000", "").problem(http.StatusConflict, "not_to_retry")
	w.do("POST", "/v1/messages/"+theirs+"/retry?to=8613800000001", "").problem(http.StatusGone, "request_gone")

	id := read[client.Sent](w.post(hello), http.StatusAccepted).ID
	read[client.Message](w.get(id+"?to=+8613800000000"), http.StatusOK)
	w.get(id+"?to=8613800000001").problem(http.StatusNotFound, "message_not_found")
}

func TestUnknownMessages(t *testing.T) {
	other := event(theirs, schemas.StatusSent, 1)
	other.Tenant = "acme"
	w := newWorld(t, settings{status: []*schemas.Event{other}})
	for _, id := range []string{"0192f0c1-2a3b-7c4d-8e5f-60718293a4b6", "x", "urn:uuid:" + theirs, theirs, strings.Repeat("0", 36), "%00", "a%2fb"} {
		w.get(id).problem(http.StatusNotFound, "message_not_found")
	}
}

// store is a History.
type store struct {
	mu     sync.Mutex
	events []*schemas.Event
	err    error
	asked  int
	short  int            // events that a search looks at, if not 0
	window schemas.Millis // how far back it looks at a time, if not 0
	tally  history.Tally  // the last one
	errors history.Errors
	refuse history.Refused
}

func (s *store) Message(ctx context.Context, id string) (out []*schemas.Event, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if _, ok := ctx.Deadline(); !ok {
		return nil, errors.New("asked without a deadline")
	}
	for _, e := range s.events {
		if e.MessageID == id {
			out = append(out, e)
		}
	}
	return out, s.err
}

func (s *store) set(err error, events ...*schemas.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.events = err, events
}

func TestHistory(t *testing.T) {
	h := &store{}
	retrying := event(theirs, schemas.StatusRetrying, 3)
	retrying.Decision = &schemas.Decision{Verdict: schemas.VerdictMove, T: t0} // which is not stored
	w := newWorld(t, settings{history: h, status: []*schemas.Event{retrying, event(theirs, schemas.StatusSent, 4)}})
	old := "0192f0c1-2a3b-7c4d-8e5f-60718293a4b7"
	foreign := event(old, schemas.StatusSent, 3)
	foreign.Tenant = "acme"
	h.set(nil, event(theirs, schemas.StatusQueued, 1), event(theirs, schemas.StatusSending, 2), event(theirs, schemas.StatusRetrying, 3), event(old, schemas.StatusExpired, 2), foreign)
	if m := read[client.Message](w.get(theirs), http.StatusOK); steps(&m) != "queued sending retrying sent" || m.Timeline[2].Decision == nil || m.Status != schemas.StatusSent {
		t.Errorf("joined: %+v", m)
	}
	if m := read[client.Message](w.get(old), http.StatusOK); steps(&m) != "expired" {
		t.Errorf("stored: %+v", m)
	}
	asked := h.asked
	a := read[client.Sent](w.post(hello), http.StatusAccepted)
	read[client.Message](w.get(a.ID), http.StatusOK)
	if h.asked != asked {
		t.Error("the history was asked for what this server has taken in")
	}
	// A repeat may have a past that this server did not see.
	a = read[client.Sent](w.post(hello, "Idempotency-Key: k"), http.StatusAccepted)
	h.set(nil, event(a.ID, schemas.StatusSent, 1))
	if m := read[client.Message](w.get(a.ID), http.StatusOK); m.Status != schemas.StatusSent {
		t.Errorf("repeat: %+v", m)
	}
	h.set(errors.New("away"))
	if m := read[client.Message](w.get(theirs), http.StatusOK); steps(&m) != "retrying sent" {
		t.Errorf("without the store: %+v", m)
	}
	w.get(old).problem(http.StatusServiceUnavailable, "history_unavailable")
}

func TestRoutes(t *testing.T) {
	w := newWorld(t, settings{})
	for _, path := range []string{"/", "/v1", "/v1/messages/", "/v1/messages/x/y", "//v1/messages", "/v2/messages"} {
		w.do("GET", path, "").problem(http.StatusNotFound, "not_found")
		w.do("OPTIONS", path, "").problem(http.StatusNotFound, "not_found")
		w.do("BREW", path, "").problem(http.StatusNotFound, "not_found")
	}
	for _, tt := range []struct{ method, path, allow string }{
		{"DELETE", "/v1/messages", "GET, POST, HEAD, OPTIONS"},
		{"BREW", "/v1/messages", "GET, POST, HEAD, OPTIONS"},
		{"DELETE", "/v1/messages/" + theirs, "GET, HEAD, OPTIONS"},
		{"POST", "/healthz", "GET, HEAD, OPTIONS"},
		{"GET", "/v1/messages/batch", "POST, OPTIONS"},
		{"PUT", "/v1/messages/batch", "POST, OPTIONS"},
	} {
		r := w.do(tt.method, tt.path, "")
		if r.code != http.StatusMethodNotAllowed || r.header.Get("Allow") != tt.allow {
			t.Errorf("%s %s: %d, %q", tt.method, tt.path, r.code, r.header.Get("Allow"))
		}
		if tt.method != "HEAD" {
			r.problem(http.StatusMethodNotAllowed, "method_not_allowed")
		}
		if r := w.do("OPTIONS", tt.path, ""); r.code != http.StatusNoContent || r.header.Get("Allow") != tt.allow || r.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("OPTIONS %s: %d %v", tt.path, r.code, r.header)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/openapi.yaml", "/metrics"} {
		for _, method := range []string{"GET", "HEAD"} {
			if r := w.do(method, path, ""); r.code != http.StatusOK || (len(r.body) == 0) != (method == "HEAD") {
				t.Errorf("%s %s: %d, %d bytes", method, path, r.code, len(r.body))
			}
		}
	}
	if r := w.do("GET", "/openapi.yaml", ""); !bytes.Equal(r.body, schemas.OpenAPI) || r.header.Get("X-Content-Type-Options") != "nosniff" || r.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v", r.header)
	}
	w.get(theirs)
	metrics := string(w.do("GET", "/metrics", "").body)
	for _, want := range []string{
		`weir_http_request_seconds_count{code="404",route="/v1/messages/{id}"} 1`,
		`weir_http_request_seconds_count{code="405",route="none"}`,
		`weir_http_request_seconds_count{code="200",route="/healthz"}`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in\n%s", want, metrics)
		}
	}
	if strings.Contains(metrics, theirs) || strings.Contains(metrics, "BREW") {
		t.Error("a label holds a part of a request")
	}
}

func TestOwnName(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST:80": true, "localhost.": true, "weir.localhost:8080": true, "127.0.0.1:8080": true, "[::1]:8080": true, "::1": true, "192.0.2.1": true, "": true,
		"evil.example": false, "localhost.evil.example:80": false, "127.0.0.1.evil.example": false, "evillocalhost": false,
	} {
		if ownName(host) != want {
			t.Errorf("%q: %v", host, !want)
		}
	}
}

func TestRecentIsBounded(t *testing.T) {
	now := time.Now()
	r := newRecent(bounds{messages: 10, bytes: 1000, events: 4, age: time.Minute})
	named := func(name string) string { return uuid.NewSHA1(uuid.NameSpaceOID, []byte(name)).String() }
	add := func(name string, value []byte) {
		r.add(&schemas.Event{MessageID: named(name), Status: schemas.StatusQueued}, value, now)
	}
	known := func(name string) bool { a, e, _ := r.find(named(name), now); return a != nil || len(e) > 0 }
	for i := range 11 {
		add(fmt.Sprint(i), []byte("x"))
	}
	if known("0") || !known("1") || !known("10") {
		t.Error("by messages: not the oldest went")
	}
	add("1", []byte("y")) // touched: now 2 is the oldest
	add("big", bytes.Repeat([]byte("x"), 985))
	if r.bytes > 1000 || known("2") || !known("big") || !known("1") {
		t.Errorf("by bytes: %d", r.bytes)
	}
	now = now.Add(time.Minute)
	if known("big") || r.bytes != 0 || r.order.next != &r.order || r.order.prev != &r.order || len(r.byID) != 0 {
		t.Errorf("by age: %d bytes, %d messages", r.bytes, len(r.byID))
	}
	for _, en := range r.seen {
		if en.events != nil {
			t.Errorf("what left is held on to: %q", en.events)
		}
	}
	r.accept(named("m"), answered{at: 1}, true, now)
	var held [][]byte
	for i := range 6 {
		add("m", fmt.Append(nil, i))
		if i == 3 {
			_, held, _ = r.find(named("m"), now)
		}
	}
	_, events, whole := r.find(named("m"), now)
	if got := string(bytes.Join(events, nil)); got != "0145" || whole || r.bytes != 4 {
		t.Errorf("by events: %s, whole %v, %d bytes", got, whole, r.bytes)
	}
	if got := string(bytes.Join(held, nil)); got != "0123" {
		t.Errorf("a reader's slice was written to: %s", got)
	}
}
