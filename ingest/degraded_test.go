package ingest

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/ingest/failopen"
	"github.com/weirhq/weir/schemas"
)

// openPolicy is limited with a decider, and a key that is allowed what cannot be decided.
var openPolicy = strings.NewReplacer(
	"providers:\n", "providers:\n  - {name: gate, type: none, channels: [sms]}\n",
	"keys:\n", `keys:
  - {name: open, tenant: acme, scopes: [send, read], on_unavailable: allow, hash: "`+hashOf("weir_live_open")+`"}
`).Replace(limited)

const openAuth = "Authorization: Bearer weir_live_open"

// metric is the value of a metric without labels.
func (w *world) metric(name string) float64 {
	w.t.Helper()
	all, err := w.srv.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range all {
		if m := f.GetMetric()[0]; f.GetName() == name {
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	w.t.Fatalf("no metric %s", name)
	return 0
}

// leaves is what each window of the class verify leaves a recipient.
func (w *world) leaves(to string) (out []string) {
	w.t.Helper()
	q := read[client.Quota](w.do("GET", "/v1/quota?class=verify&to=%2B8613800000"+to, "", auth), 200)
	for _, l := range q.Limits {
		out = append(out, fmt.Sprintf("%s %d", l.Window, l.Remaining))
	}
	return out
}

// wantLeft waits for the journal to be empty. The owners of wide limits record a little later.
func (w *world) wantLeft(to string, want ...string) {
	w.t.Helper()
	w.until("recorded", func() bool { return w.srv.degraded.journal.Bytes() == 0 })
	got := w.leaves(to)
	for tries := 0; tries < 30 && !slices.Equal(got, want); tries++ {
		time.Sleep(100 * time.Millisecond) // not so often that the key has to wait
		got = w.leaves(to)
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("of %s is left %q, want %q", to, got, want)
	}
}

// begun has the limits count in the partitions of the recipients below.
func (w *world) begun() {
	w.t.Helper()
	for _, to := range []string{"001", "002", "003"} {
		w.leaves(to)
	}
}

// allowed asks for a decision that Kafka cannot make, and is allowed it.
func (w *world) allowed(to, more string, headers ...string) client.Sent {
	w.t.Helper()
	r := w.do("POST", "/v1/decisions", verify(to, more), append(headers, openAuth)...)
	a := read[client.Sent](r, http.StatusOK)
	if a.Status != schemas.StatusSent || !a.Degraded || a.ID == "" || r.header.Get("Location") != "/v1/messages/"+a.ID {
		w.t.Errorf("%s %v", r.body, r.header)
	}
	return a
}

// While Kafka is away, the key that wants it so is allowed; others are refused, and so are
// messages. When Kafka is back, what was allowed is in the limits, a repeat of a key once.
func TestDegradedDecisions(t *testing.T) {
	dir := t.TempDir()
	w := decided(t, settings{policy: openPolicy, keys: true, journal: dir})
	w.begun()
	if a := read[client.Sent](w.do("POST", "/v1/decisions", verify("001", ""), openAuth), 200); a.Degraded || a.Status != schemas.StatusSent {
		t.Errorf("with Kafka: %+v", a)
	}
	w.do("POST", "/v1/decisions", verify("001", ""), openAuth).problem(429, "quota_exceeded")
	w.line.cut()
	w.allowed("001", "", "Prefer: wait=1")
	w.allowed("002", "")
	first := w.allowed("002", "", "Prefer: wait=1", "Idempotency-Key: a")
	if again := w.allowed("002", "", "Prefer: wait=1", "Idempotency-Key: a"); again.ID != first.ID {
		t.Errorf("%s, then %s", first.ID, again.ID)
	}
	w.do("POST", "/v1/decisions", verify("002", ""), auth).problem(503, "kafka_unavailable")
	w.post(verify("002", ""), openAuth).problem(503, "kafka_unavailable")
	w.do("POST", "/v1/decisions", verify("002", `,"send_at":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"`), openAuth).problem(503, "kafka_unavailable")
	began := time.Now()
	w.allowed("003", "", "Prefer: wait=1")
	if d := time.Since(began); d > deliveryTimeout-500*time.Millisecond {
		t.Errorf("who would wait for a second was answered after %v", d)
	}
	text, err := os.ReadFile(filepath.Join(dir, failopen.FileName))
	if n := strings.Count(string(text), "\n"); err != nil || n != 5 {
		t.Errorf("%d entries: %v\n%s", n, err, text)
	}
	if n := w.metric("weir_http_degraded_decisions_total"); n != 5 {
		t.Errorf("%v allowed", n)
	}
	if n := w.metric("weir_http_degraded_journal_bytes"); n != float64(len(text)) {
		t.Errorf("%v bytes, want %d", n, len(text))
	}
	w.line.mend()
	w.wantLeft("001", "1/60s 0", "5/1h 3", "1000/1h 995")
	w.wantLeft("002", "1/60s 0", "5/1h 3", "1000/1h 995")
	w.wantLeft("003", "1/60s 0", "5/1h 4", "1000/1h 995")
	w.do("POST", "/v1/decisions", verify("002", ""), openAuth).problem(429, "quota_exceeded")
	w.do("POST", "/v1/decisions", verify("002", ""), openAuth, "Idempotency-Key: a").problem(409, "idempotency_key_reused")
	if log := w.log.String(); !strings.Contains(log, "degraded decisions are recorded") || strings.Contains(log, "level=ERROR") {
		t.Error(log)
	}
}

// Kafka takes the request, and no decision comes in time. Admission decides it later: what it
// admits is charged once, and what it refuses, which was allowed, is charged all the same.
func TestDegradedDecidedLater(t *testing.T) {
	w := newWorld(t, settings{policy: openPolicy, keys: true, journal: t.TempDir()})
	stop := w.decide()
	w.begun()
	stop()
	first := w.allowed("001", "", "Prefer: wait=1")
	second := w.allowed("001", "", "Prefer: wait=1", "Idempotency-Key: b")
	w.allowed("002", "", "Prefer: wait=1")
	if a := read[client.Sent](w.do("POST", "/v1/decisions", verify("002", ""), auth, "Prefer: wait=1"), 202); a.Status != schemas.StatusAccepted || a.Degraded {
		t.Errorf("without the option: %+v", a)
	}
	if a := read[client.Sent](w.do("POST", "/v1/decisions", verify("003", ""), openAuth, "Prefer: respond-async"), 202); a.Status != schemas.StatusAccepted || a.Degraded {
		t.Errorf("who does not wait: %+v", a)
	}
	w.decide()
	w.wantLeft("001", "1/60s 0", "5/1h 3", "1000/1h 996")
	w.wantLeft("002", "1/60s 0", "5/1h 4", "1000/1h 996")
	for id, want := range map[string]schemas.Status{first.ID: schemas.StatusSent, second.ID: schemas.StatusLimited} {
		if m := read[client.Message](w.do("GET", "/v1/messages/"+id, "", auth), 200); m.Status != want {
			t.Errorf("%+v, want %s", m, want)
		}
	}
}

// A process that ends leaves its journal to the next one. What one that crashed had recorded
// before it could empty the journal is not charged again.
func TestDegradedJournalIsResumed(t *testing.T) {
	dir := t.TempDir()
	of := func(id string) failopen.Entry {
		q := &schemas.Request{Channel: schemas.ChannelSMS, To: "+8613800000001", Class: "verify", Tenant: "acme", Body: "b", ID: id, IdempotencyKey: id}
		return failopen.Record(q, q.To, schemas.MillisOf(time.Now()))
	}
	before, err := failopen.Open(dir, DefaultDegradedBytes)
	if err == nil {
		err = errors.Join(before.Append(of("0192f0c1-2a3b-7c4d-8e5f-60718293a4b5")), before.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	w := decided(t, settings{policy: openPolicy, keys: true, journal: dir, server: func(s *Server) { s.degraded.unsure = time.Second }})
	w.until("recorded", func() bool { return w.srv.degraded.journal.Bytes() == 0 })
	found := slices.ContainsFunc(w.requests(2), func(r *kgo.Record) bool {
		q, err := schemas.DecodeRequest(r.Value, nil)
		return err == nil && q.Action == schemas.ActionRecord && q.ID == "0192f0c1-2a3b-7c4d-8e5f-60718293a4b5" && q.IdempotencyKey == q.ID
	})
	if !found {
		t.Error("what the process before left is not recorded")
	}
	w.begun()
	e := of("0192f0c1-2a3b-7c4d-8e5f-60718293a4b6")
	for range 2 {
		if err := w.srv.degraded.journal.Append(e); err != nil {
			t.Fatal(err)
		}
		w.wantLeft("001", "1/60s 0", "5/1h 4", "1000/1h 999")
	}
	w.line.cut()
	w.allowed("002", "", "Prefer: wait=1")
	if err := w.stop(); err != nil {
		t.Error(err)
	}
	next, err := failopen.Open(dir, DefaultDegradedBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if all, _, err := next.Next(9); err != nil || len(all) != 1 || all[0].To != "+8613800000002" {
		t.Errorf("%v %v", all, err)
	}
}

// Without a journal, or without room in it, the option allows nothing.
func TestDegradedNotAllowed(t *testing.T) {
	t.Run("no journal", func(t *testing.T) {
		w := newWorld(t, settings{policy: openPolicy, keys: true})
		warned := func(when string) {
			t.Helper()
			if n := strings.Count(w.log.String(), "Set http.degraded_journal"); n != 1 {
				t.Errorf("%s: warned %d times: %s", when, n, w.log)
			}
		}
		warned("at the start")
		w.line.cut()
		for range 2 {
			w.do("POST", "/v1/decisions", verify("001", ""), openAuth).problem(503, "kafka_unavailable")
		}
		warned("after two calls")
	})
	t.Run("no journal, and the key comes later", func(t *testing.T) {
		w := newWorld(t, settings{policy: limited, keys: true})
		doc, err := schemas.ParsePolicy("p.yaml", []byte(openPolicy))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.pol.Publish(t.Context(), w.cl, w.pol.Latest().Revision, "test", doc.Policy); err != nil {
			t.Fatal(err)
		}
		w.until("the key is known", func() bool { return w.do("GET", "/v1/session", "", openAuth).code == http.StatusOK })
		w.line.cut()
		for range 2 {
			w.do("POST", "/v1/decisions", verify("001", ""), openAuth).problem(503, "kafka_unavailable")
		}
		if n := strings.Count(w.log.String(), "Set http.degraded_journal"); n != 1 {
			t.Errorf("warned %d times: %s", n, w.log)
		}
	})
	t.Run("full", func(t *testing.T) {
		w := newWorld(t, settings{policy: openPolicy, keys: true, journal: t.TempDir(), most: 300})
		w.line.cut()
		w.allowed("001", "", "Prefer: wait=1")
		w.do("POST", "/v1/decisions", verify("001", ""), openAuth, "Prefer: wait=1").problem(503, "kafka_unavailable")
		if log := w.log.String(); !strings.Contains(log, failopen.ErrFull.Error()) {
			t.Error(log)
		}
	})
}
