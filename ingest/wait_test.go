package ingest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// decided is a world whose requests are decided, by the real admission.
func decided(t *testing.T, set settings) *world {
	w := newWorld(t, set)
	w.decide()
	return w
}

// decide starts the real admission, which runs until stop or the test's end.
func (w *world) decide() (stop func()) {
	t := w.t
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- admission.Run(ctx, admission.Config{
			Stream: stream.Config{
				Brokers: w.broker.ListenAddrs(), ClientID: "admission", TransactionalID: "admission", SessionTimeout: 6 * time.Second,
			},
			Read:  stream.ReadConfig{Brokers: w.broker.ListenAddrs()},
			Names: w.names, Partitions: partitions, DelayPartitions: partitions, DLQPartitions: partitions, ReplyPartitions: 8,
			Now: time.Now,
		}, w.pol)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("admission: %v", err)
		}
	})
	t.Cleanup(stop)
	w.until("decided", func() bool {
		r := w.do("POST", "/v1/messages", `{"channel":"email","to":"warm@example.com","class":"warm","subject":"s","body":"b"}`, "Prefer: wait=1", "Authorization: Bearer "+acmeKey)
		return strings.Contains(string(r.body), `"queued"`)
	})
	return stop
}

const auth = "Authorization: Bearer " + acmeKey

// limited is the policy of the tests below.
var limited = keyedPolicy + `
  - {name: waiter, tenant: acme, scopes: [send, read], prefer: wait=30, hash: "` + hashOf("weir_live_waiter") + `"}
classes:
  - {name: verify}
limits:
  - {name: verify, match: {class: verify}, per: [recipient], allow: [1/60s, 5/1h]}
  - {name: everybody, match: {class: verify}, per: [], allow: [1000/1h]}
  - {name: later, match: {class: later}, per: [recipient], allow: [1/1h], on_refusal: defer}
`

func verify(to, more string) string {
	return fmt.Sprintf(`{"channel":"sms","to":"+8613800000%03s","class":"verify","body":"b"%s}`, to, more)
}

func TestPreferWait(t *testing.T) {
	w := decided(t, settings{policy: limited, keys: true})
	t.Run("admitted", func(t *testing.T) {
		r := w.post(verify("001", ""), auth, "Prefer: wait=30")
		a := read[client.Sent](r, http.StatusAccepted)
		if a.Status != schemas.StatusQueued || r.header.Get("Preference-Applied") != "wait=30" || r.header.Get("Location") != "/v1/messages/"+a.ID {
			t.Fatalf("%s %v", r.body, r.header)
		}
		var got []string
		for _, l := range a.Limits {
			got = append(got, fmt.Sprintf("%s %s %d of %d %v", l.Limit, l.Window, l.Remaining, l.N, l.Violated))
		}
		if want := []string{"verify 1/60s 0 of 1 false", "verify 5/1h 4 of 5 false", "everybody 1000/1h 999 of 1000 false"}; !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		// The headers tell the same, behind the key's own pace.
		if h := r.header; h.Get("RateLimit-Policy") != `"write";q=30;w=6, "verify 1/60s";q=1;w=60, "verify 5/1h";q=5;w=3600, "everybody 1000/1h";q=1000;w=3600` ||
			!strings.Contains(h.Get("RateLimit"), `, "verify 1/60s";r=0;t=`) || !strings.HasPrefix(h.Get("RateLimit"), `"write";r=`) || h.Get("X-RateLimit-Limit") != "30" {
			t.Errorf("%v", h)
		}
	})
	t.Run("limited", func(t *testing.T) {
		r := w.post(verify("001", ""), auth, "Prefer: wait=30")
		p := r.problem(429, "quota_exceeded")
		if p.Type != client.TypeQuotaExceeded || !slices.Equal(p.ViolatedPolicies, []string{"verify 1/60s"}) || p.ID == "" {
			t.Errorf("%s", r.body)
		}
		if p.RetryAfterSeconds < 20 || p.RetryAfterSeconds > 60 || r.header.Get("Retry-After") != fmt.Sprint(p.RetryAfterSeconds) || p.RetryAt.Time().Before(time.Now().Add(20*time.Second)) {
			t.Errorf("%s %v", r.body, r.header)
		}
		if got := r.header.Get("RateLimit-Policy"); got != `"verify 1/60s";q=1;w=60, "verify 5/1h";q=5;w=3600` {
			t.Errorf("RateLimit-Policy: %s", got)
		}
		if got := r.header.Get("RateLimit"); !strings.HasPrefix(got, `"verify 1/60s";r=0;t=`) || !strings.Contains(got, `"verify 5/1h";r=4;t=`) {
			t.Errorf("RateLimit: %s", got)
		}
		if h := r.header; h.Get("X-RateLimit-Limit") != "1" || h.Get("X-RateLimit-Remaining") != "0" || h.Get("X-RateLimit-Reset") != fmt.Sprint(seconds(time.Duration(p.RetryAt)*time.Millisecond)) {
			t.Errorf("%v", h)
		}
		if m := read[client.Message](w.do("GET", "/v1/messages/"+p.ID, "", auth), 200); m.Status != schemas.StatusAccepted && m.Status != schemas.StatusLimited {
			t.Errorf("%+v", m)
		}
	})
	t.Run("deferred", func(t *testing.T) {
		body := `{"channel":"sms","to":"+8613800000002","class":"later","body":"b"}`
		read[client.Sent](w.post(body, auth, "Prefer: wait=30"), 202)
		if a := read[client.Sent](w.post(body, auth, "Prefer: wait=30"), 202); a.Status != schemas.StatusDeferred || a.RetryAt == 0 {
			t.Errorf("%+v", a)
		}
	})
	t.Run("rejected", func(t *testing.T) {
		r := w.post(`{"channel":"sms","to":"+8613800000003","template":"nowhere"}`, auth, "Prefer: wait=30")
		if p := r.problem(422, "message_rejected"); len(p.Errors) != 1 || p.Errors[0].Code == "" {
			t.Errorf("%s", r.body)
		}
	})
	t.Run("again under a key", func(t *testing.T) {
		first := read[client.Sent](w.post(verify("004", ""), auth, "Prefer: wait=30", "Idempotency-Key: a"), 202)
		again := read[client.Sent](w.post(verify("004", ""), auth, "Prefer: wait=30", "Idempotency-Key: a"), 202)
		if again.ID != first.ID || first.Status != schemas.StatusQueued {
			t.Errorf("%+v, then %+v", first, again)
		}
		w.until("its status is known", func() bool {
			_, events, _ := w.srv.tailed("acme", first.ID)
			return len(events) > 0
		})
		for body, want := range map[string]string{
			verify("004", `,"metadata":{"x":"y"}`):                       "channel, class, template and cost are that message's",
			verify("004", `,"cost":2`):                                   "/cost is another than that message's",
			strings.Replace(verify("004", ""), `"verify"`, `"later"`, 1): "/class is another than that message's",
		} {
			r := w.post(body, auth, "Prefer: wait=30", "Idempotency-Key: a")
			p := r.problem(409, "idempotency_key_reused")
			if len(p.Errors) != 2 || !strings.Contains(p.Errors[1].Pointer+" "+p.Errors[1].Detail, want) || !strings.Contains(p.Detail, first.ID) || !strings.Contains(p.Detail, " and now queued") {
				t.Errorf("%s", r.body)
			}
		}
	})
	t.Run("a refusal again under its key", func(t *testing.T) {
		read[client.Sent](w.post(verify("005", ""), auth, "Prefer: wait=30"), 202)
		first := w.post(verify("005", ""), auth, "Prefer: wait=30", "Idempotency-Key: b").problem(429, "quota_exceeded")
		w.until("known", func() bool {
			return read[client.Message](w.do("GET", "/v1/messages/"+first.ID, "", auth), 200).Status == schemas.StatusLimited
		})
		if again := w.post(verify("005", ""), auth, "Prefer: wait=30", "Idempotency-Key: b").problem(429, "quota_exceeded"); again.ID != first.ID || again.RetryAt != first.RetryAt {
			t.Errorf("%+v, then %+v", first, again)
		}
	})
	t.Run("the key's default", func(t *testing.T) {
		const waiter = "Authorization: Bearer weir_live_waiter"
		if a := read[client.Sent](w.post(verify("006", ""), waiter), 202); a.Status != schemas.StatusQueued {
			t.Errorf("%+v", a)
		}
		r := w.post(verify("007", ""), waiter, "Prefer: respond-async")
		if a := read[client.Sent](r, 202); a.Status != schemas.StatusAccepted || r.header.Get("Preference-Applied") != "respond-async" {
			t.Errorf("%+v", a)
		}
	})
	t.Run("a test key", func(t *testing.T) {
		const test = "Authorization: Bearer " + acmeTest
		a := read[client.Sent](w.post(verify("008", ""), test, "Prefer: wait=30"), 202)
		w.until("known", func() bool {
			return read[client.Message](w.do("GET", "/v1/messages/"+a.ID, "", auth), 200).Provider == "sim"
		})
		w.post(verify("009", `,"provider":"other"`), test).problem(403, "no_test_provider")
		w.post(`{"channel":"voice","to":"+8613800000003","body":"b"}`, test).problem(403, "no_test_provider")
	})
	if n := w.srv.replies.Waiting(); n != 0 {
		t.Errorf("%d tickets are still out", n)
	}
}

// Nothing decides: the answer is accepted, when the time is over and at
// shutdown.
func TestWaitInVain(t *testing.T) {
	w := newWorld(t, settings{})
	began := time.Now()
	a := read[client.Sent](w.post(hello, "Prefer: wait=1"), 202)
	if d := time.Since(began); a.Status != schemas.StatusAccepted || d < time.Second || d > 20*time.Second {
		t.Errorf("%+v after %v", a, d)
	}
	done := make(chan reply, 1)
	go func() { done <- w.post(hello, "Prefer: wait=60") }()
	w.until("waiting", func() bool { return w.srv.replies.Waiting() == 1 })
	began = time.Now()
	if err := w.stop(); err != nil {
		t.Error(err)
	}
	if r := <-done; r.code != 202 || time.Since(began) > 30*time.Second {
		t.Errorf("%d %s after %v", r.code, r.body, time.Since(began))
	}
}

func TestQuota(t *testing.T) {
	w := decided(t, settings{policy: limited, keys: true})
	ask := func(query string) client.Quota {
		t.Helper()
		return read[client.Quota](w.do("GET", "/v1/quota?"+query, "", auth), 200)
	}
	text := func(q client.Quota) (out []string) {
		for _, l := range q.Limits {
			out = append(out, fmt.Sprintf("%s %s %d of %d", l.Limit, l.Window, l.Remaining, l.N))
		}
		return out
	}
	before := []string{"verify 1/60s 1 of 1", "verify 5/1h 5 of 5", "everybody 1000/1h 1000 of 1000"}
	if got := ask("to=%2B8613800000001&class=verify"); !slices.Equal(text(got), before) || got.To != "+8613800000001" || got.Channel != "sms" || got.Limits[0].Reset != 0 {
		t.Errorf("%+v", got)
	}
	read[client.Sent](w.post(verify("001", ""), auth, "Prefer: wait=30"), 202)
	after := []string{"verify 1/60s 0 of 1", "verify 5/1h 4 of 5", "everybody 1000/1h 999 of 1000"}
	for _, to := range []string{"%2B8613800000001", "+8613800000001", "8613800000001", "138%200000%200001"} {
		got := ask("class=verify&to=" + to)
		if !slices.Equal(text(got), after) {
			t.Errorf("%s: %+v", to, got)
		}
		if in := time.Until(got.Limits[0].Reset.Time()); in < 20*time.Second || in > time.Minute {
			t.Errorf("%s: again in %v", to, in)
		}
	}
	if got := ask("to=%2B8613800000001&class=verify"); got.Suppressed == nil || len(got.Suppressed) != 0 {
		t.Errorf("%+v", got.Suppressed)
	}
	for _, fields := range []string{`"tenant":"acme","channel":"sms","class":"ads"`, `"tenant":"other"`} {
		suppress := &kgo.Record{Topic: w.names.Requests(), Partition: schemas.PartitionOf("+8613800000001", partitions), Value: []byte(`{"action":"suppress","to":"+8613800000001",` + fields + `}`)}
		if err := w.cl.ProduceSync(t.Context(), suppress).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	w.until("suppressed", func() bool { return len(ask("to=%2B8613800000001&class=verify").Suppressed) > 0 })
	if got := ask("to=%2B8613800000001&class=none").Suppressed; len(got) != 1 || got[0].Channel != "sms" || got[0].Class != "ads" || got[0].Tenant != "acme" || got[0].At == 0 {
		t.Errorf("%+v", got)
	}
	if got := ask("to=a@example.com"); len(got.Limits) != 0 || got.Channel != "email" || got.Class != "default" {
		t.Errorf("%+v", got)
	}
	for _, bad := range []string{"", "to=", "to=nobody", "to=%2B8613800000001&to=x", "to=%2B8613800000001&colour=red", "to=%2B8613800000001&channel=fax", "to=%zz"} {
		w.do("GET", "/v1/quota?"+bad, "", auth).problem(400, "invalid_request")
	}
	if n := w.srv.replies.Waiting(); n != 0 {
		t.Errorf("%d tickets are still out", n)
	}
}

// Without admission nobody answers, and the caller is told to come again.
func TestQuotaInVain(t *testing.T) {
	w := newWorld(t, settings{policy: limited})
	if r := w.do("GET", "/v1/quota?to=%2B8613800000001&class=verify", ""); r.problem(503, "undecided").Code == "" || r.header.Get("Retry-After") != "1" {
		t.Errorf("%v", r.header)
	}
}

func TestDecisions(t *testing.T) {
	w := decided(t, settings{policy: strings.Replace(limited, "providers:\n", "providers:\n  - {name: gate, type: none, channels: [sms]}\n", 1), keys: true})
	ask := `{"channel":"sms","to":"+8613800000001","class":"verify"}`
	r := w.do("POST", "/v1/decisions", ask, auth)
	a := read[client.Sent](r, 200)
	if a.Status != schemas.StatusSent || len(a.Limits) != 3 {
		t.Errorf("%+v", a)
	}
	refused := w.do("POST", "/v1/decisions", ask, auth).problem(429, "quota_exceeded")
	if refused.ID == a.ID {
		t.Errorf("%+v", refused)
	}
	release := func(id, outcome string) {
		t.Helper()
		if d := read[client.Done](w.do("POST", "/v1/decisions/"+id+"/release", "", auth), 202); d.Outcome != outcome || d.ID != id {
			t.Errorf("%+v, want %s", d, outcome)
		}
	}
	release(a.ID, "released")
	release(a.ID, "repeated")
	release(refused.ID, "not_held")
	read[client.Sent](w.do("POST", "/v1/decisions", ask, auth), 200)
	w.do("POST", "/v1/decisions", `{"channel":"email","to":"a@example.com"}`, auth).problem(422, "no_decider")
	w.do("POST", "/v1/decisions", `{"channel":"sms","to":"+8613800000001","provider":"sim"}`, auth).problem(422, "no_decider")
	w.do("POST", "/v1/decisions/"+a.ID+"/release", "", "Authorization: Bearer "+otherKey).problem(404, "message_not_found")
	w.do("POST", "/v1/decisions/nonsense/release", "", auth).problem(404, "message_not_found")
}

// A cost is counted by whichever call brings it, and a release gives all of it back.
func TestCosts(t *testing.T) {
	policy := strings.Replace(limited, "providers:\n", "providers:\n  - {name: gate, type: none, channels: [sms]}\n", 1)
	w := decided(t, settings{policy: strings.Replace(policy, "limits:\n", "limits:\n  - {name: weight, per: [recipient], allow: [5/1h], count: cost}\n", 1), keys: true})
	body := func(cost int) string {
		return fmt.Sprintf(`{"channel":"sms","to":"+8613800000001","body":"x","cost":%d}`, cost)
	}
	a := read[client.Sent](w.do("POST", "/v1/decisions", body(3), auth), 200)
	if len(a.Limits) != 1 || a.Limits[0].Remaining != 2 {
		t.Errorf("%+v", a)
	}
	w.post(body(3), auth, "Prefer: wait=30").problem(429, "quota_exceeded")
	if b := read[client.Sent](w.post(body(2), auth, "Prefer: wait=30"), 202); len(b.Limits) != 1 || b.Limits[0].Remaining != 0 {
		t.Errorf("%+v", b)
	}
	if d := read[client.Done](w.do("POST", "/v1/decisions/"+a.ID+"/release", "", auth), 202); d.Outcome != "released" {
		t.Errorf("%+v", d)
	}
	if p := w.post(body(6), auth, "Prefer: wait=30").problem(429, "quota_exceeded"); p.RetryAt != 0 || !strings.Contains(p.Detail, "can never pass") {
		t.Errorf("%+v", p)
	}
	for _, r := range lines(w.do("POST", "/v1/messages/batch", body(3), ndjson, auth)) {
		if r.Error != nil {
			t.Errorf("%+v", r.Error)
		}
	}
	for tries := 0; ; tries++ { // nobody waits for a batch
		q := read[client.Quota](w.do("GET", "/v1/quota?to=%2B8613800000001", "", auth), 200)
		if len(q.Limits) == 1 && q.Limits[0].Remaining == 0 {
			break
		}
		if tries == 100 {
			t.Fatalf("%+v", q.Limits)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestCancelAndRetry(t *testing.T) {
	w := decided(t, settings{policy: limited, keys: true})
	at := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	a := read[client.Sent](w.post(verify("001", `,"send_at":"`+at+`"`), auth, "Prefer: wait=30"), 202)
	if a.Status != schemas.StatusScheduled {
		t.Fatalf("%+v", a)
	}
	if d := read[client.Done](w.do("POST", "/v1/messages/"+a.ID+"/cancel", "", auth), 202); d.Status != schemas.StatusCancelled || d.Outcome != "cancelled" {
		t.Errorf("%+v", d)
	}
	w.do("POST", "/v1/messages/"+a.ID+"/cancel", "", "Authorization: Bearer "+otherKey).problem(404, "message_not_found")
	unknown := "0192f0c1-2a3b-7c4d-8e5f-60718293a4b5"
	w.do("POST", "/v1/messages/"+unknown+"/cancel", "", auth).problem(404, "message_not_found")
	if d := read[client.Done](w.do("POST", "/v1/messages/"+unknown+"/cancel?to=%2B8613800000009", "", auth), 202); d.Outcome != "remembered" {
		t.Errorf("%+v", d)
	}

	w.do("POST", "/v1/messages/"+a.ID+"/retry", "", auth).problem(409, "not_to_retry")
	read[client.Sent](w.post(verify("002", ""), auth, "Prefer: wait=30"), 202)
	refused := w.post(verify("002", ""), auth, "Prefer: wait=30").problem(429, "quota_exceeded")
	w.until("known", func() bool {
		return read[client.Message](w.do("GET", "/v1/messages/"+refused.ID, "", auth), 200).Status == schemas.StatusLimited
	})
	again := read[client.Sent](w.do("POST", "/v1/messages/"+refused.ID+"/retry", "", auth), 202)
	twice := read[client.Sent](w.do("POST", "/v1/messages/"+refused.ID+"/retry", "", auth), 202)
	if again.ID == refused.ID || again.ID != twice.ID || again.RedriveOf != refused.ID {
		t.Errorf("%+v, %+v", again, twice)
	}
	w.until("decided again", func() bool {
		r := w.do("GET", "/v1/messages/"+again.ID, "", auth)
		return r.code == 200 && read[client.Message](r, 200).Status == schemas.StatusLimited
	})
	if m := read[client.Message](w.do("GET", "/v1/messages/"+again.ID, "", auth), 200); m.RedriveOf != refused.ID {
		t.Errorf("%+v", m)
	}
	w.do("POST", "/v1/messages/"+refused.ID+"/retry", "", "Authorization: Bearer "+otherKey).problem(404, "message_not_found")
}
