package e2e

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const (
	acmeSecret   = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	globexSecret = "C2FVsBQIhrscChlQIMV+b5sSYspob7oD" // as openssl makes it
)

// room is one address of hooks: whose it is, and how it answers.
type room struct {
	tenant, secret string
	code           int           // of every answer; 0 is 204
	fails          int           // so many calls from now on are answered 500
	stumbles       int           // each so many-th message's first call is answered 500
	hold           time.Duration // how long each call takes
}

// heard is a callback that was taken.
type heard struct {
	path, id, message string
	status            schemas.Status
	attempt           int
	at                schemas.Millis
}

// hooks receive callbacks, and believe only the official library.
type hooks struct {
	URL string

	mu     sync.Mutex
	rooms  map[string]*room
	all    []heard          // in the order of their coming
	first  map[string]heard // by webhook-id
	seen   map[string]bool  // messages
	flying int
	failed int // calls that were answered other than 2xx
}

func newHooks(t *testing.T, rooms map[string]*room) *hooks {
	t.Helper()
	h := &hooks{rooms: rooms, first: make(map[string]heard), seen: make(map[string]bool)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, hold, err := h.take(r)
		if err != nil {
			t.Errorf("a callback at %s: %v", r.URL.Path, err)
		}
		if hold > 0 {
			select {
			case <-time.After(hold):
			case <-r.Context().Done(): // it was killed
			}
		}
		w.WriteHeader(code)
		h.mu.Lock()
		h.flying--
		h.mu.Unlock()
	}))
	t.Cleanup(s.Close)
	h.URL = s.URL
	return h
}

// take reads a call and says how it is answered.
func (h *hooks) take(r *http.Request) (code int, hold time.Duration, err error) {
	body, err := io.ReadAll(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.flying++
	at := h.rooms[r.URL.Path]
	if err != nil || at == nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		return http.StatusNotFound, 0, fmt.Errorf("%s %w", r.Method, errors.Join(err, errors.New("nobody is to call here so")))
	}
	wh, err := standardwebhooks.NewWebhook(at.secret)
	if err == nil {
		err = wh.Verify(body, r.Header)
	}
	var p struct {
		Type      string
		Timestamp schemas.Millis
		Data      struct {
			MessageID string `json:"message_id"`
			Tenant    string
			Status    schemas.Status
			Attempt   int
			At        schemas.Millis
		}
	}
	err = errors.Join(err, json.Unmarshal(body, &p))
	c := heard{r.URL.Path, r.Header.Get("webhook-id"), p.Data.MessageID, p.Data.Status, p.Data.Attempt, p.Data.At}
	if p.Type != "message."+string(c.status) || p.Timestamp != c.at || p.Data.Tenant != at.tenant || c.id == "" {
		err = errors.Join(err, fmt.Errorf("it says %s of %s's", p.Type, p.Data.Tenant))
	}
	if was, ok := h.first[c.id]; ok && was != c {
		err = errors.Join(err, fmt.Errorf("%s was %s of %s, and is %s of %s", c.id, was.status, was.message, c.status, c.message))
	}
	code = max(at.code, http.StatusNoContent)
	fresh := !h.seen[c.message]
	h.seen[c.message] = true
	switch {
	case at.fails > 0:
		at.fails--
		code = http.StatusInternalServerError
	case at.stumbles > 0 && fresh && len(h.seen)%at.stumbles == 0:
		code = http.StatusInternalServerError
	}
	if code > 299 {
		h.failed++
		return code, at.hold, err
	}
	h.all = append(h.all, c)
	if _, again := h.first[c.id]; !again {
		h.first[c.id] = c
	}
	return code, at.hold, err
}

// set changes how an address answers.
func (h *hooks) set(path string, change func(*room)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h.rooms[path])
}

// of is what was told of a message, without its first skip.
func (h *hooks) of(message string, skip int) (out []heard) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.all {
		if c.message == message {
			out = append(out, c)
		}
	}
	return out[min(skip, len(out)):]
}

func (h *hooks) counts() (distinct, all, failed, flying int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.first), len(h.all), h.failed, h.flying
}

func statusesOf(list []heard) (out []schemas.Status) {
	for _, c := range list {
		out = append(out, c.status)
	}
	return out
}

const callbacksPolicy = `
providers:
  - {name: sim, type: simulated, channels: [email], timeout: 1m, settings: {latency: 1ms-5ms}}
tenants:
  - {name: default}
  - {name: acme, callback: {url: "%[1]s/acme", secret: "file:%[2]s", events: [queued, sent, delivered]}}
  - {name: globex, callback: {url: "%[1]s/globex", secret: "file:%[3]s"}}
keys:
  - {name: acme, tenant: acme, scopes: [send, read], hash: "%[4]s"}
  - {name: globex, tenant: globex, scopes: [send, read], hash: "%[5]s"}
`

// TestCallbacks is docs/callbacks.md on weir dev: who is told what, and in which order;
// a receiver that fails, one that wants no more, and callbacks that are made again.
func TestCallbacks(t *testing.T) {
	t.Parallel()
	h := newHooks(t, map[string]*room{
		"/acme": {tenant: "acme", secret: acmeSecret}, "/own": {tenant: "acme", secret: acmeSecret},
		"/globex": {tenant: "globex", secret: globexSecret},
	})
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	var keys, hashes []string
	for range 2 {
		key, err := schemas.NewSecret(false)
		if err != nil {
			t.Fatal(err)
		}
		keys, hashes = append(keys, key), append(hashes, schemas.HashSecret(key))
	}
	policy := write("policy.yaml", fmt.Sprintf(callbacksPolicy, h.URL, write("acme", acmeSecret+"\n"), write("globex", globexSecret), hashes[0], hashes[1]))
	d := startDev(t, filepath.Join(dir, "weir"), append([]string{"--policy", policy}, anyPorts...)...)
	nobody, acme, globex := client.New("http://"+d.HTTP, ""), client.New("http://"+d.HTTP, keys[0]), client.New("http://"+d.HTTP, keys[1])
	defer nobody.Close()
	defer acme.Close()
	defer globex.Close()

	request := func() *schemas.Request {
		return &schemas.Request{Channel: schemas.ChannelEmail, To: "delivered@" + uuid.NewString()[:8] + ".example.com", Subject: "code", Body: "code 1"}
	}
	send := func(c *client.Client, url string) string {
		t.Helper()
		q := request()
		q.CallbackURL = url
		sent, err := c.Send(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return sent.ID
	}
	four := []schemas.Status{schemas.StatusQueued, schemas.StatusSending, schemas.StatusSent, schemas.StatusDelivered}
	three := []schemas.Status{schemas.StatusQueued, schemas.StatusSent, schemas.StatusDelivered} // acme's events
	// logged are the statuses of a message as the log has them: a receipt that comes
	// while the call's outcome is not yet written stands before it.
	logged := func(id string) (all []schemas.Status) {
		t.Helper()
		if err := readLog(t.Context(), []string{d.Kafka}, topics.Names{}, func(r Record) {
			if r.Event.MessageID == id && r.Event.Kind == schemas.KindStatus {
				all = append(all, r.Event.Status)
			}
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	expected := map[string]bool{}
	told := func(id, path string, skip int, want []schemas.Status) []heard {
		t.Helper()
		expected[id] = true
		poll(t, 20*time.Second, func() bool { return len(h.of(id, skip)) >= len(want) })
		got := h.of(id, skip)
		if slices.ContainsFunc(got, func(c heard) bool { return c.path != path }) {
			t.Errorf("told at %s: %+v", path, got)
		}
		return got
	}
	// expect waits until a message is told at an address, all of it and in the log's order.
	expect := func(id, path string, want []schemas.Status) []heard {
		t.Helper()
		got := told(id, path, 0, want)
		order := slices.DeleteFunc(logged(id), func(s schemas.Status) bool { return !slices.Contains(want, s) })
		if len(order) != len(want) || !slices.Equal(statusesOf(got), order) {
			t.Errorf("told at %s: %+v, want %s of %s", path, got, order, want)
		}
		return got
	}
	// again is the same of what is told once more, beyond what was told before: in the
	// order of the statuses' times.
	again := func(id, path string, skip int, want []schemas.Status) []heard {
		t.Helper()
		got := told(id, path, skip, want)
		all := statusesOf(got)
		if slices.Sort(all); !slices.Equal(all, slices.Sorted(slices.Values(want))) || !slices.IsSortedFunc(got, func(a, b heard) int { return cmp.Compare(a.at, b.at) }) {
			t.Errorf("told again at %s: %+v, want %s", path, got, want)
		}
		return got
	}

	// Each tenant what it asks for, and as the log has it.
	a, g, n := send(acme, ""), send(globex, ""), send(nobody, "")
	got := expect(a, "/acme", three)
	expect(g, "/globex", four)
	var m *client.Message
	var err error
	if !poll(t, 10*time.Second, func() bool { // the door follows the log by itself
		if m, err = acme.Get(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(got, func(c heard) bool {
			return !slices.ContainsFunc(m.Timeline, func(e *schemas.Event) bool { return e.Status == c.status && e.At == c.at && e.Attempt == c.attempt })
		})
	}) {
		t.Errorf("%+v is not in the message's timeline: %+v", got, m.Timeline)
	}

	// The request's own address instead, whose receipts do not know it.
	expect(send(acme, h.URL+"/own"), "/own", three)

	// A tenant without a secret has none.
	q := request()
	q.CallbackURL = h.URL + "/own"
	_, err = nobody.Send(t.Context(), q)
	if p, ok := errors.AsType[*client.Problem](err); !ok || p.Status != http.StatusBadRequest || len(p.Errors) != 1 || p.Errors[0].Code != schemas.ReasonNoCallbackSecret || p.Errors[0].Pointer != "/callback_url" {
		t.Errorf("a callback_url without a secret over HTTP: %v", err)
	}
	p, err := NewProducer([]string{d.Kafka}, topics.Names{}, CRC32)
	if err != nil {
		t.Fatal(err)
	}
	q.ID = uuid.NewString()
	p.Send(t.Context(), q, q.To)
	if _, err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !poll(t, 10*time.Second, func() bool {
		m, err = nobody.Get(t.Context(), q.ID)
		return err == nil && m.Status == schemas.StatusRejected
	}) || m.Reason != schemas.ReasonNoCallbackSecret {
		t.Errorf("a callback_url without a secret from Kafka: %+v, %v", m, err)
	}

	// The receiver fails for a while. Two calls, since a third would open its breaker,
	// and that is half a minute.
	h.set("/acme", func(r *room) { r.fails = 2 })
	began := time.Now()
	late := []string{send(acme, ""), send(acme, "")}
	for _, id := range late {
		expect(id, "/acme", three)
	}
	if _, _, failed, _ := h.counts(); failed != 2 || time.Since(began) < 5*time.Second {
		t.Errorf("%d calls failed, and all was told after %v", failed, time.Since(began))
	}

	// Again, under the same ids.
	if r, err := acme.Callbacks(t.Context(), a); err != nil || r.ID != a || r.Statuses != len(four) {
		t.Errorf("callbacks again: %+v, %v", r, err)
	}
	byID := func(list []heard) []heard {
		return slices.SortedFunc(slices.Values(list), func(a, b heard) int { return cmp.Compare(a.id, b.id) })
	}
	if twice := again(a, "/acme", len(three), three); !slices.Equal(byID(twice), byID(got)) {
		t.Errorf("told again\n%+v\nas\n%+v", got, twice)
	}
	if _, err := globex.Callbacks(t.Context(), a); err == nil {
		t.Error("globex asks for acme's callbacks")
	}

	// 410: no more, until somebody says so.
	h.set("/globex", func(r *room) { r.code = http.StatusGone })
	off := send(globex, "")
	var list string
	if !poll(t, 10*time.Second, func() bool {
		list = d.weir(t, "callbacks", "list")
		return strings.Contains(list, "disabled since")
	}) || !strings.Contains(list, "globex  "+strings.TrimPrefix(h.URL, "http://")) || strings.Count(list, "disabled since") != 1 {
		t.Errorf("disabled:\n%s", list)
	}
	h.set("/globex", func(r *room) { r.code = 0 })
	if !poll(t, 10*time.Second, func() bool { return d.metric(t, `weir_callbacks_total{outcome="disabled"}`) == "4" }) {
		t.Errorf("%s callbacks were dropped, want 4", d.metric(t, `weir_callbacks_total{outcome="disabled"}`))
	}
	if got := h.of(off, 0); len(got) != 0 {
		t.Errorf("told though it was disabled: %+v", got)
	}
	expect(send(acme, ""), "/acme", three) // the other tenant at the same host is
	if out := d.weir(t, "callbacks", "enable", "globex"); out != "1 endpoints of globex are called again" {
		t.Error(out)
	}
	if !poll(t, 10*time.Second, func() bool { return d.metric(t, `weir_callback_endpoints{state="disabled"}`) == "0" }) {
		t.Error("it is still disabled")
	}
	expect(send(globex, ""), "/globex", four)
	if out := d.weir(t, "callbacks", "list"); strings.Contains(out, "disabled since") {
		t.Errorf("enabled:\n%s", out)
	}
	if _, err := globex.Callbacks(t.Context(), off); err != nil {
		t.Error(err)
	}
	again(off, "/globex", 0, four)

	// And nothing else was told.
	if !poll(t, 10*time.Second, func() bool {
		m, err = nobody.Get(t.Context(), n)
		return err == nil && m.Status == schemas.StatusDelivered
	}) {
		t.Errorf("the message that nobody is told of: %+v, %v", m, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := range h.seen {
		if !expected[id] {
			t.Errorf("told of %s, of which nobody is to be told", id)
		}
	}
}

// metric is one sample of weir dev's, as it is printed; empty where there is none.
func (d *devProcess) metric(t *testing.T, name string) string {
	t.Helper()
	resp, err := http.Get("http://" + d.HTTP + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

const killedCallbacksPolicy = `
providers:
  - {name: sim, type: simulated, channels: [email], timeout: 1m, settings: {latency: 1ms-5ms}}
tenants:
  - {name: acme, callback: {url: "%s/acme", secret: "${ACME_WHSEC}"}}
`

func TestCallbacksOverKills(t *testing.T) {
	t.Parallel()
	callbacksOverKills(t, []string{embedded(t).Addr()}, 60, 1)
}

// callbacksOverKills kills the callbacks' process while a slow receiver is told of many
// messages, of which some wait in the delay topics: each status is told, under one id,
// and no status of a message before those that precede it.
func callbacksOverKills(t *testing.T, brokers []string, messages, kills int) {
	const (
		steps = 4 // statuses of each message
		hold  = 150 * time.Millisecond
	)
	h := newHooks(t, map[string]*room{"/acme": {tenant: "acme", secret: acmeSecret, stumbles: 10, hold: hold}})
	s := newSite(t, brokers, "callbacks", fmt.Sprintf(killedCallbacksPolicy, h.URL))
	s.env = []string{"ACME_WHSEC=" + acmeSecret, "WEIR_CALLBACK_ALLOW_PRIVATE=127.0.0.1"}
	seen := newLives()
	s.follow(seen.add)
	work, caller := s.run(0, "admission,lanes,delay,receipts"), s.run(1, "callbacks")
	began := time.Now()
	// Nothing is sent before the role has a place to read from: its first start looks
	// back, but a test of kills is not to hang on that.
	if !poll(t, 30*time.Second, func() bool { return strings.Contains(caller.Output(), "callbacks restored") }) {
		t.Fatal("the callbacks' role has no partitions")
	}
	s.stable(1)
	p, err := NewProducer(brokers, s.names, CRC32)
	if err != nil {
		t.Fatal(err)
	}
	send := func(from, to int) {
		for i := from; i < to; i++ {
			q := &schemas.Request{ID: uuid.NewString(), Tenant: "acme", Channel: schemas.ChannelEmail, To: fmt.Sprintf("delivered@%d.example.com", i), Subject: "code", Body: "code 1"}
			p.Send(t.Context(), q, q.To)
		}
	}
	sent := 0
	for kill := range kills {
		part := messages * (kill + 1) / kills
		before, _, _, _ := h.counts()
		send(sent, part)
		if !poll(t, 30*time.Second, func() bool {
			distinct, _, _, flying := h.counts()
			return distinct-before >= (part-sent)*steps/3 && flying > 1
		}) {
			t.Fatal("nobody is told")
		}
		sent = part
		// What is called from here on is held until the kill, so that it comes in the middle.
		h.set("/acme", func(r *room) { r.hold = time.Hour })
		caller.Kill()
		h.set("/acme", func(r *room) { r.hold = hold })
		distinct, _, failed, _ := h.counts()
		t.Logf("killed after %v: %d of %d statuses are told, %d calls failed", time.Since(began).Round(time.Millisecond), distinct, sent*steps, failed)
		if distinct >= sent*steps {
			t.Fatal("the kill came when all was told")
		}
		caller = s.run(1, "callbacks")
	}
	if _, err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !poll(t, 50*time.Second, func() bool { distinct, _, _, _ := h.counts(); return distinct >= messages*steps }) {
		t.Error("not all is told in time")
	}
	if !poll(t, 10*time.Second, func() bool { // the test follows the log by itself
		seen.mu.Lock()
		defer seen.mu.Unlock()
		told := 0
		for _, life := range seen.events {
			for _, e := range life {
				if e.Kind == schemas.KindStatus {
					told++
				}
			}
		}
		return told >= messages*steps
	}) {
		t.Error("not all of the log was read in time")
	}
	s.stop(caller, work)

	distinct, all, failed, _ := h.counts()
	t.Logf("CALLBACKS %d statuses of %d messages, %d kills: %d ids in %d calls, and %d calls failed, in %v", messages*steps, messages, kills, distinct, all, failed, time.Since(began).Round(time.Millisecond))
	if distinct != messages*steps || failed == 0 {
		t.Errorf("%d ids, want %d; %d calls failed", distinct, messages*steps, failed)
	}
	// What was told first of each message, against the log.
	firsts := make(map[string][]heard)
	h.mu.Lock()
	known := make(map[string]bool)
	for _, c := range h.all {
		if !known[c.id] {
			known[c.id] = true
			firsts[c.message] = append(firsts[c.message], c)
		}
	}
	h.mu.Unlock()
	logged, wrong := 0, 0
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for id, life := range seen.events {
		var want []heard
		for _, e := range life {
			if e.Kind == schemas.KindStatus {
				want = append(want, heard{message: id, status: e.Status, attempt: e.Attempt, at: e.At})
			}
		}
		got := slices.Clone(firsts[id])
		for i := range got {
			got[i].id, got[i].path = "", ""
		}
		if !slices.Equal(got, want) {
			if wrong++; wrong <= 5 {
				t.Errorf("told of %s: %s, the log has %s", id, statusesOf(got), statusesOf(want))
			}
		}
		logged += len(want)
	}
	if wrong > 0 {
		t.Errorf("of %d messages what was told is wrong", wrong)
	}
	if logged != messages*steps || len(firsts) != messages {
		t.Errorf("the log has %d statuses, want %d; told of %d messages, want %d", logged, messages*steps, len(firsts), messages)
	}
}
