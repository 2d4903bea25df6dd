package ingest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

// beginning is the position before everything in all partitions of a world.
var beginning = (&follower{at: make([]int64, partitions)}).position()

// eventStream reads a stream of events.
type eventStream struct {
	t     *testing.T
	lines *bufio.Scanner
	close func()
	seen  *strings.Builder
	id    string // the last one
	beats int
	code  int
}

type streamed struct{ name, data string }

func (s streamed) event(t *testing.T) (e schemas.Event) {
	t.Helper()
	if err := json.Unmarshal([]byte(s.data), &e); err != nil {
		t.Fatalf("%v: %s", err, s.data)
	}
	return e
}

func (w *world) stream(path string, headers ...string) *eventStream {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+w.addr+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		cancel()
		w.t.Fatal(err)
	}
	st := &eventStream{t: w.t, lines: bufio.NewScanner(resp.Body), seen: &strings.Builder{}, code: resp.StatusCode}
	st.close = func() { cancel(); resp.Body.Close() }
	w.t.Cleanup(st.close)
	if resp.StatusCode == http.StatusOK {
		openDocument(w.t).check(w.t, "GET", "/v1/events", resp, nil)
		for st.id == "" && st.line() { // the server has the stream's place once it has said so
		}
	}
	return st
}

func (s *eventStream) line() bool {
	if !s.lines.Scan() {
		return false
	}
	text := s.lines.Text()
	s.seen.WriteString(text + "\n")
	if id, ok := strings.CutPrefix(text, "id: "); ok {
		s.id = id
	}
	if strings.HasPrefix(text, ":") {
		s.beats++
	}
	return true
}

// next returns the next event, which must have the name.
func (s *eventStream) next(name string) (e streamed) {
	s.t.Helper()
	for s.line() {
		text := s.lines.Text()
		if v, ok := strings.CutPrefix(text, "event: "); ok {
			e.name = v
		}
		if v, ok := strings.CutPrefix(text, "data: "); ok {
			e.data = v
		}
		if text == "" && e.data != "" {
			if e.name != name {
				s.t.Fatalf("%+v, want %s", e, name)
			}
			return e
		}
	}
	s.t.Fatalf("the stream ended before %s: %v\n%s", name, s.lines.Err(), s.seen)
	return e
}

// over reads on to the end of the stream and counts the statuses on the way.
func (s *eventStream) over() (statuses int) {
	for s.line() {
		if s.lines.Text() == "event: status" {
			statuses++
		}
	}
	return statuses
}

func numbered(i int) string { return fmt.Sprintf("0192f0c1-2a3b-7c4d-8e5f-6071829%05d", i) }

func TestEvents(t *testing.T) {
	// The server's own time limits are for calls that end.
	w := newWorld(t, settings{server: func(s *Server) {
		s.http.WriteTimeout, s.http.ReadTimeout, s.streams.beat = time.Second, time.Second, 150*time.Millisecond
	}, status: []*schemas.Event{event(numbered(0), schemas.StatusQueued, 1)}})
	all := w.stream("/v1/events")
	some := w.stream("/v1/events?to=+8613800000000&status=sent,failed&class=verify&channel=sms")
	for all.beats < 8 { // longer than both limits
		if !all.line() {
			t.Fatal("the stream ended")
		}
	}
	sent := event(numbered(1), schemas.StatusSent, 2)
	sent.Decision = &schemas.Decision{Verdict: schemas.VerdictAdmit, T: t0, Charges: []schemas.Charge{{Limit: "verify", Scope: "s", T: t0, Cost: 1}}}
	foreign := event(numbered(2), schemas.StatusSent, 2)
	foreign.Tenant = "other"
	other := event(numbered(3), schemas.StatusSent, 2)
	other.Class = "marketing"
	decision := event(numbered(4), schemas.StatusSent, 2)
	decision.Kind = schemas.KindDecision
	for _, e := range []*schemas.Event{event(numbered(1), schemas.StatusQueued, 1), sent, foreign, other, decision, event(numbered(5), schemas.StatusFailed, 3)} {
		w.status(e)
	}
	var got []string
	for range 4 {
		e := all.next("status").event(t)
		got = append(got, e.MessageID[31:]+string(e.Status))
		if e.Decision != nil || e.Tenant != "default" {
			t.Errorf("%+v", e)
		}
	}
	if fmt.Sprint(got) != "[00001queued 00001sent 00003sent 00005failed]" {
		t.Errorf("all: %v", got)
	}
	first := some.next("status").event(t)
	place := some.id
	second := some.next("status").event(t)
	if first.MessageID != numbered(1) || first.Status != schemas.StatusSent || second.MessageID != numbered(5) {
		t.Errorf("some: %+v %+v", first, second)
	}
	// From where it was, on any server, and each once.
	again := w.stream("/v1/events", "Last-Event-ID: "+place)
	if a, b := again.next("status").event(t), again.next("status").event(t); a.MessageID != numbered(3) || b.MessageID != numbered(5) {
		t.Errorf("from %s: %+v %+v", place, a, b)
	}
	whole := w.stream("/v1/events?status=queued", "Last-Event-ID: "+beginning)
	if a := whole.next("status").event(t); a.MessageID != numbered(0) {
		t.Errorf("from the beginning: %+v", a)
	}
	for _, bad := range []string{"nonsense", beginning + "AA", "_____________w", ""} {
		st := w.stream("/v1/events", "Last-Event-ID: "+bad)
		if bad != "" {
			if e := st.next("gap").event(t); e.Reason != "forgotten" {
				t.Errorf("%q: %+v", bad, e)
			}
		}
		w.status(event(numbered(6), schemas.StatusSent, 9))
		if e := st.next("status").event(t); e.MessageID != numbered(6) {
			t.Errorf("%q: %+v", bad, e)
		}
	}
	if r := w.do("HEAD", "/v1/events", ""); r.code != http.StatusOK {
		t.Errorf("HEAD: %d", r.code)
	}
	for _, query := range []string{"limit=3", "status=gone", "to=", "class=", "channel=fax", "class=a&class=b"} {
		w.do("GET", "/v1/events?"+query, "").problem(http.StatusBadRequest, "invalid_request")
	}
	ended := make(chan error, 1)
	go func() { ended <- w.stop() }()
	if e := again.next("status").event(t); e.MessageID != numbered(6) {
		t.Errorf("%+v", e)
	}
	again.over()
	if !strings.Contains(again.seen.String(), `{"reason":"shutting_down"`) {
		t.Errorf("at the end it says\n%s", again.seen)
	}
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v: streams hold it up", err)
	}
}

// A client that does not read is cut off, and holds up neither the tail nor
// others; where it was is told, and so is that the rest has been forgotten.
func TestEventsOfASlowReader(t *testing.T) {
	// Whoever takes nothing for some seconds is dropped and told nothing: not while this writes.
	w := newWorld(t, settings{server: func(s *Server) { s.feed.most, s.streams.within = 300, 2*time.Minute }})
	slow, quick := w.stream("/v1/events"), w.stream("/v1/events")
	const n = 3000
	var got atomic.Int64
	go func() {
		for quick.line() {
			if quick.lines.Text() == "event: status" {
				got.Add(1)
			}
		}
	}()
	// What stands between is more than a connection holds.
	padding := strings.Repeat("x", 4000)
	for i := range n {
		if i%100 == 0 {
			w.until(fmt.Sprint("who reads got ", i, ", though another does not"), func() bool { return got.Load() >= int64(i)-100 })
		}
		e := event(numbered(i), schemas.StatusQueued, 1)
		e.Error = padding
		w.status(e)
	}
	w.until("who reads got all", func() bool { return got.Load() == n })
	if got := slow.over(); got >= n || !strings.Contains(slow.seen.String(), "event: cut\n") || !strings.Contains(slow.seen.String(), `"reason":"too_slow"`) {
		t.Errorf("who does not read got %d of %d, and in the end\n%s", got, n, slow.seen.String()[max(0, slow.seen.Len()-300):])
	}
	back := w.stream("/v1/events", "Last-Event-ID: "+slow.id)
	if back.next("gap"); back.next("status").event(t).MessageID != numbered(n-300) {
		t.Errorf("it goes on with\n%s", back.seen)
	}
}

func TestEventsAreBounded(t *testing.T) {
	w := newWorld(t, settings{policy: keyedPolicy, keys: true})
	for range streamsOfKey {
		w.stream("/v1/events", "Authorization: Bearer "+acmeKey)
	}
	if p := w.do("GET", "/v1/events", "", "Authorization: Bearer "+acmeKey).problem(http.StatusTooManyRequests, "too_many_streams"); !strings.Contains(p.Detail, "16 streams") || !strings.Contains(p.Detail, "Close one") {
		t.Error(p.Detail)
	}
	last := w.stream("/v1/events", "Authorization: Bearer "+otherKey)
	w.srv.streams.mu.Lock()
	w.srv.streams.all += streamsOfAll
	w.srv.streams.mu.Unlock()
	w.do("GET", "/v1/events", "", "Authorization: Bearer "+otherKey).problem(http.StatusServiceUnavailable, "overloaded")
	w.srv.streams.mu.Lock()
	w.srv.streams.all -= 2*streamsOfKey + 1 // as many are free as acme has
	w.srv.streams.mu.Unlock()
	if p := w.do("GET", "/v1/events", "", "Authorization: Bearer "+readKey).problem(http.StatusTooManyRequests, "too_many_streams"); !strings.Contains(p.Detail, "this tenant have 16 streams") || !strings.Contains(p.Detail, "16 are free") {
		t.Error(p.Detail)
	}
	w.stream("/v1/events", "Authorization: Bearer "+otherKey).close()
	w.srv.streams.mu.Lock()
	w.srv.streams.all += 2*streamsOfKey + 1
	w.srv.streams.mu.Unlock()
	w.srv.streams.mu.Lock()
	w.srv.streams.all -= streamsOfAll
	w.srv.streams.mu.Unlock()
	last.close()
	w.until("one has left", func() bool {
		w.srv.streams.mu.Lock()
		defer w.srv.streams.mu.Unlock()
		return w.srv.streams.all == streamsOfKey && len(w.srv.streams.byKey) == 1 && len(w.srv.streams.byTenant) == 1
	})
}

// TestStreamsOfTenants: however many keys a tenant has, others find streams free.
func TestStreamsOfTenants(t *testing.T) {
	s := streams{byKey: make(map[string]int), byTenant: make(map[string]int)}
	open := func(tenant string) (all []*caller) {
		for i := range streamsOfAll {
			c := &caller{tenant: tenant, key: &schemas.Key{Name: fmt.Sprint(tenant, i/streamsOfKey)}}
			if s.enter(c) == nil {
				all = append(all, c)
			}
		}
		return all
	}
	var all []*caller
	for i, want := range []int{128, 64, 32, 16, 8} {
		got := open(fmt.Sprint("t", i))
		if len(got) != want {
			t.Errorf("tenant %d has %d streams, want %d", i, len(got), want)
		}
		all = append(all, got...)
	}
	for _, c := range all {
		s.leave(c)
	}
	if s.all != 0 || len(s.byKey)+len(s.byTenant) != 0 {
		t.Errorf("when all have left: %d, %v, %v", s.all, s.byKey, s.byTenant)
	}
}

// A stream does not outlive its key.
func TestEventsEndWithTheirKey(t *testing.T) {
	w := newWorld(t, settings{policy: keyedPolicy, keys: true, server: func(s *Server) { s.streams.beat = 10 * time.Millisecond }})
	st := w.stream("/v1/events", "Authorization: Bearer "+acmeKey)
	rev := w.pol.Latest()
	next := rev.Policy
	next.Keys = next.Keys[1:]
	if _, err := w.pol.Publish(t.Context(), w.cl, rev.Revision, "test", next); err != nil {
		t.Fatal(err)
	}
	st.over()
	if !strings.Contains(st.seen.String(), `{"reason":"unauthenticated"`) {
		t.Errorf("it ended with\n%s", st.seen)
	}
}

// An operator's stream of another tenant does not outlive the scope operate of its key.
func TestEventsEndWithTheScope(t *testing.T) {
	w := newWorld(t, settings{policy: isolationPolicy, keys: true, server: func(s *Server) { s.streams.beat = 10 * time.Millisecond }})
	st := w.stream("/v1/events?tenant=acme", "Authorization: Bearer "+operator)
	rev := w.pol.Latest()
	next := rev.Policy
	next.Keys = slices.Clone(next.Keys)
	for i := range next.Keys {
		if next.Keys[i].Name == "operator" {
			next.Keys[i].Scopes = []string{"read"}
		}
	}
	if _, err := w.pol.Publish(t.Context(), w.cl, rev.Revision, "test", next); err != nil {
		t.Fatal(err)
	}
	st.over()
	if !strings.Contains(st.seen.String(), `{"reason":"unauthenticated"`) {
		t.Errorf("it ended with\n%s", st.seen)
	}
}
