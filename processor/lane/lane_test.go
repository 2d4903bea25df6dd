package lane_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhq/weir/processor/lane"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

func always(o provider.Outcome) func(context.Context, provider.Call) provider.Outcome {
	return func(context.Context, provider.Call) provider.Outcome { return o }
}

func TestSent(t *testing.T) {
	r := newRig(t, oneProvider(nil))
	stop := r.run(r.config("a"))
	r.dispatch(message{id: "m1", queue: topics.QueueUrgent, body: `{"channel":"sms","to":"+8613800000000","class":"notice","body":"hello","cost":3}`})
	got := r.statuses("m1", schemas.StatusSending, schemas.StatusSent)
	if e := got[1]; e.ProviderMessageID != "pm-m1" || e.Attempt != 1 || e.Provider != "p" || e.Class != "notice" || e.Channel != "sms" ||
		e.Segments != 1 || e.Cost != 3 || e.To != "+8613800000000" || e.Source == nil || e.Source.Partition != 1 || e.AcceptedAt == 0 || e.Tenant != "default" {
		t.Errorf("%+v", e)
	}
	if calls := r.fake.made(); len(calls) != 1 || calls[0].Content.Body != "hello" || calls[0].To != "+8613800000000" || calls[0].Attempt != 1 {
		t.Errorf("%+v", calls)
	}
	j := r.journal()
	if len(j) != 2 || j[0].Kind != "permit" || j[1].Kind != "outcome" || j[1].Outcome != "accepted" || j[0].Topic != r.names.Dispatch("p", "urgent") {
		t.Errorf("%+v", j)
	}
	r.eventually("the position moves", func() bool { return r.position(topics.QueueUrgent) == 1 })
	stop()
	if r.fake.closed != 1 {
		t.Errorf("closed %d times", r.fake.closed)
	}

	// A member that comes later finds nothing to do, and then works.
	r.run(r.config("b"))
	r.dispatch(message{id: "m2", queue: topics.QueueUrgent})
	r.statuses("m2", schemas.StatusSending, schemas.StatusSent)
	if ids := r.fake.ids(); !slices.Equal(ids, []string{"m1", "m2"}) {
		t.Errorf("called %v", ids)
	}
}

// TestIdleLatency prints the time from the dispatch record's acknowledgement to
// the call: one exactly-once hop.
func TestIdleLatency(t *testing.T) {
	r := newRig(t, oneProvider(nil))
	r.run(r.config("a"))
	r.dispatch(message{id: "warm"})
	r.statuses("warm", schemas.StatusSending, schemas.StatusSent)
	var took []time.Duration
	for i := range 30 {
		started := time.Now()
		r.dispatch(message{id: fmt.Sprint(i), queue: topics.QueueUrgent})
		r.eventually("called", func() bool { return len(r.fake.made()) == i+2 })
		r.fake.mu.Lock()
		took = append(took, r.fake.at[i+1].Sub(started))
		r.fake.mu.Unlock()
		r.eventually("the lane is idle", func() bool { return r.position(topics.QueueUrgent) == int64(i+1) })
	}
	slices.Sort(took)
	t.Logf("produce to call: p50 %v, most %v", took[15], took[29])
	if took[15] > 4*time.Second { // a turn that waits for metadata takes five
		t.Error("an idle lane takes more than four seconds")
	}
}

func TestRetry(t *testing.T) {
	r := newRig(t, oneProvider(nil))
	r.fake.respond = always(provider.Outcome{Kind: provider.Transient, MayBeReceived: true, Code: "http_500", Text: "no"})
	r.run(r.config("a"))
	r.dispatch(message{id: "m", change: func(e *schemas.Envelope) {
		e.Attempt, e.Tried = 1, []schemas.Tried{{Provider: "q", Outcome: schemas.RetryThrottled}}
	}})
	got := r.statuses("m", schemas.StatusSending, schemas.StatusRetrying)
	e := got[1]
	if e.Attempt != 2 || e.RetryAt.Sub(e.At) != 30*time.Second || e.ErrorCode != "http_500" || e.Reason != "transient" {
		t.Errorf("%+v", e)
	}
	recs := r.read(r.names.Delay("30s"))
	if len(recs) != 1 {
		t.Fatalf("%d records wait", len(recs))
	}
	env := r.envelope(recs[0])
	if env.ID != "m" || env.Attempt != 2 || env.Reason != schemas.ReadmitRetry || env.Return != r.names.Readmit() || env.DueAt != e.RetryAt ||
		len(env.Place) != 1 || env.Taint != schemas.TaintReceived || env.LastError != "http_500" || env.Key != "+8613800000000" ||
		!slices.Equal(env.Tried, []schemas.Tried{{Provider: "q", Outcome: schemas.RetryThrottled}, {Provider: "p", Outcome: schemas.RetryTransient}}) {
		t.Errorf("%+v", env)
	}
	if recs[0].Partition != schemas.PartitionOf(env.Key, others) || recs[0].Headers[0].Key != "traceparent" {
		t.Errorf("partition %d, headers %v", recs[0].Partition, recs[0].Headers)
	}
	if len(r.read(r.names.Readmit())) != 0 || len(r.read(r.names.DLQ())) != 0 {
		t.Error("something was given back or up")
	}
}

// TestARetryComesBackAtTheExpiry and no later, whatever a provider asks for.
func TestARetryComesBackAtTheExpiry(t *testing.T) {
	r := newRig(t, oneProvider(nil))
	r.fake.respond = always(provider.Outcome{Kind: provider.Throttled, RetryAfter: time.Hour, Code: "http_429", Text: "no"})
	r.run(r.config("a"))
	var expires schemas.Millis
	r.dispatch(message{id: "m", change: func(e *schemas.Envelope) {
		expires = e.DecidedAt.Add(4 * time.Minute)
		e.ExpiresAt = expires
	}})
	if e := r.statuses("m", schemas.StatusSending, schemas.StatusRetrying)[1]; e.RetryAt != expires {
		t.Errorf("it comes back at %s and expires at %s", e.RetryAt, expires)
	}
	recs := r.read(r.names.Delay("30s")) // the longest hop that is not too long
	if len(recs) != 1 || r.envelope(recs[0]).DueAt != expires {
		t.Errorf("%d records wait", len(recs))
	}
}

// TestGivenUp: what ends unsent leaves its bytes in the DLQ and gives its place
// back, unless it may have been received.
func TestGivenUp(t *testing.T) {
	permanent := provider.Outcome{Kind: provider.Permanent, Code: "http_400", Text: "no"}
	for _, tt := range []struct {
		name     string
		respond  provider.Outcome
		class    string
		body     string
		change   func(*schemas.Envelope)
		statuses []schemas.Status
		reason   string
		dead     bool
		back     bool
	}{
		{name: "permanent", respond: permanent, statuses: []schemas.Status{"sending", "failed"}, reason: "permanent", dead: true, back: true},
		{name: "permanent after perhaps received", respond: permanent, change: func(e *schemas.Envelope) { e.Taint = schemas.TaintReceived }, statuses: []schemas.Status{"sending", "failed"}, reason: "permanent", dead: true},
		{name: "permanent after unknown", respond: permanent, change: func(e *schemas.Envelope) { e.Taint = schemas.TaintUnknown }, statuses: []schemas.Status{"sending", "unknown"}, reason: "permanent"},
		{name: "attempts ran out", respond: provider.Outcome{Kind: provider.Transient, Code: "x"}, change: func(e *schemas.Envelope) { e.Attempt = 3 }, statuses: []schemas.Status{"sending", "failed"}, reason: "attempts_exhausted", dead: true, back: true},
		{name: "unknown, hold", class: "hold", respond: provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "timeout"}, statuses: []schemas.Status{"sending", "unknown"}, reason: "held"},
		{name: "expired at its turn", change: func(e *schemas.Envelope) { e.ExpiresAt = e.DecidedAt - 1 }, statuses: []schemas.Status{"expired"}, reason: "expired", back: true},
		{name: "expired after unknown", change: func(e *schemas.Envelope) { e.ExpiresAt = e.DecidedAt - 1; e.Taint = schemas.TaintUnknown }, statuses: []schemas.Status{"unknown"}, reason: "expired"},
		{name: "a template that is gone", body: `{"to":"+8613800000000","channel":"sms","template":"gone"}`, statuses: []schemas.Status{"failed"}, reason: "bad_content", dead: true, back: true},
		{name: "not a request", body: `{`, statuses: []schemas.Status{"failed"}, reason: "bad_content", dead: true, back: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, oneProvider(nil, schemas.Class{Name: "hold", OnUnknown: schemas.UnknownHold}))
			r.fake.respond = always(tt.respond)
			r.run(r.config("a"))
			r.dispatch(message{id: "m", class: tt.class, body: tt.body, change: tt.change})
			got := r.statuses("m", tt.statuses...)
			if e := got[len(got)-1]; e.Reason != tt.reason {
				t.Errorf("%+v", e)
			}
			dead := r.read(r.names.DLQ())
			if (len(dead) == 1) != tt.dead || len(dead) > 1 {
				t.Fatalf("%d records in the DLQ", len(dead))
			}
			if tt.dead {
				env := r.envelope(dead[0])
				if env.Reason != tt.reason || env.ID != "m" || len(dead[0].Value) == 0 || dead[0].Headers[0].Key != "traceparent" || string(dead[0].Key) != "+8613800000000" {
					t.Errorf("%+v", env)
				}
			}
			back := r.read(r.names.Readmit())
			if (len(back) == 1) != tt.back || len(back) > 1 {
				t.Fatalf("%d records given back", len(back))
			}
			if tt.back {
				env := r.envelope(back[0])
				if env.Reason != schemas.ReadmitGiveBack || env.ID != "m" || len(env.Place) != 1 || env.Key != "+8613800000000" || env.Tenant != "default" || len(back[0].Value) != 0 || back[0].Partition != schemas.PartitionOf(env.Key, parts) {
					t.Errorf("%+v", env)
				}
			}
			r.eventually("the position moves", func() bool { return r.position(topics.QueueNormal) == 1 })
		})
	}
}

func TestUnknownIsResent(t *testing.T) {
	r := newRig(t, oneProvider(nil))
	r.fake.respond = always(provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "timeout"})
	r.run(r.config("a"))
	r.dispatch(message{id: "m"})
	r.statuses("m", schemas.StatusSending, schemas.StatusRetrying)
	recs := r.read(r.names.Delay("5s"))
	if len(recs) != 1 || r.envelope(recs[0]).Taint != schemas.TaintUnknown {
		t.Fatalf("%v", recs)
	}
}

func TestStaleGoesBack(t *testing.T) {
	r := newRig(t, oneProvider(nil, schemas.Class{Name: "quick", StaleAfter: schemas.Duration(10 * time.Second)}))
	r.run(r.config("a"))
	old := func(e *schemas.Envelope) { e.DecidedAt -= 11_000; e.Attempt = 1; e.Taint = schemas.TaintReceived }
	r.dispatch(message{id: "m", class: "quick", change: old}, message{id: "n", change: old}) // notice has 60 s
	r.statuses("n", schemas.StatusSending, schemas.StatusSent)
	recs := r.read(r.names.Readmit())
	if len(recs) != 1 {
		t.Fatalf("%d records", len(recs))
	}
	env := r.envelope(recs[0])
	if env.ID != "m" || env.Reason != schemas.ReadmitStale || env.Attempt != 1 || len(env.Place) != 1 || env.Taint != schemas.TaintReceived || len(recs[0].Value) == 0 {
		t.Errorf("%+v", env)
	}
	if ids := r.fake.ids(); !slices.Equal(ids, []string{"n"}) {
		t.Errorf("called %v", ids)
	}
	if j := r.journal(); j[0].Outcome != "stale" || j[0].ID != "m" {
		t.Errorf("%+v", j)
	}
}

// TestStaleNoMoreThanPace: no more goes back than the pace allows before it would
// be stale once more; it costs no call its turn.
func TestStaleNoMoreThanPace(t *testing.T) {
	t.Parallel()
	p := oneProvider(func(p *schemas.Provider) { p.Pace = []schemas.Window{window(5, 300*time.Millisecond)} },
		schemas.Class{Name: "quick", StaleAfter: schemas.Duration(600 * time.Millisecond)})
	timed(t, p, func(r *rig, bound bool) {
		t := r.t
		var ms []message
		for i := range 15 {
			ms = append(ms, message{id: fmt.Sprint("s", i), class: "quick", change: func(e *schemas.Envelope) { e.DecidedAt -= 100_000 }})
		}
		for i := range 15 {
			ms = append(ms, message{id: fmt.Sprint("u", i), queue: topics.QueueUrgent})
		}
		r.dispatch(ms...)
		started := time.Now()
		r.run(r.config("a"))
		r.eventually("all called", func() bool { return len(r.fake.made()) == 15 })
		if took := time.Since(started); took < 600*time.Millisecond || bound && took > 3*time.Second {
			t.Errorf("took %v", took)
		}
		r.eventually("all went back", func() bool { return len(r.read(r.names.Readmit())) == 15 })
		var back []schemas.Millis
		for _, e := range r.journal() {
			if e.Outcome == "stale" {
				back = append(back, e.T)
			}
		}
		judge(t, back, 10, 300*time.Millisecond) // five at once, and five at the end of half of stale_after
	})
}

func window(n int64, d time.Duration) schemas.Window {
	return schemas.Window{Kind: schemas.WindowRolling, N: n, Length: d}
}

// judge fails when any window of d holds more than n of the times.
func judge(t *testing.T, times []schemas.Millis, n int, d time.Duration) {
	t.Helper()
	for i, last := range times {
		in := 0
		for _, at := range times[:i+1] {
			if last.Sub(at) < d {
				in++
			}
		}
		if in > n {
			t.Errorf("%d in the %v before %v; the pace is %d", in, d, last, n)
		}
	}
}

func TestThrottledLaneIsSilent(t *testing.T) {
	t.Parallel()
	r := newRig(t, oneProvider(func(p *schemas.Provider) { p.Concurrency = 1 }))
	r.fake.respond = func(_ context.Context, c provider.Call) provider.Outcome {
		if c.ID == "m1" {
			return provider.Outcome{Kind: provider.Throttled, OfProvider: true, RetryAfter: 700 * time.Millisecond, Code: "http_429"}
		}
		return provider.Outcome{Kind: provider.Accepted}
	}
	r.run(r.config("a"))
	r.dispatch(message{id: "m1"}, message{id: "m2"})
	r.statuses("m2", schemas.StatusSending, schemas.StatusSent)
	r.statuses("m1", schemas.StatusSending, schemas.StatusRetrying)
	if gap := r.fake.at[1].Sub(r.fake.at[0]); gap < 690*time.Millisecond {
		t.Errorf("the next call came after %v", gap)
	}
}

// TestPaceAcrossRestarts: the permits of two processes, one after the other,
// keep the pace as one.
func TestPaceAcrossRestarts(t *testing.T) {
	t.Parallel()
	timed(t, oneProvider(func(p *schemas.Provider) {
		p.Pace = []schemas.Window{window(5, 500*time.Millisecond), window(12, 2*time.Second)}
	}), func(r *rig, bound bool) {
		t := r.t
		var ms []message
		for i := range 30 {
			ms = append(ms, message{id: fmt.Sprint(i)})
		}
		r.dispatch(ms...)
		for i := range 3 {
			stop := r.run(r.config(fmt.Sprint("a", i)))
			r.eventually("some calls", func() bool { return len(r.fake.made()) >= 8*(i+1) })
			stop()
		}
		r.run(r.config("z"))
		r.eventually("all calls", func() bool { return len(r.fake.made()) == 30 })
		var permits []schemas.Millis
		for _, e := range r.journal() {
			if e.Kind == "permit" {
				permits = append(permits, e.T)
			}
		}
		if len(permits) != 30 {
			t.Fatalf("%d permits", len(permits))
		}
		judge(t, permits, 5, 500*time.Millisecond)
		judge(t, permits, 12, 2*time.Second)
		if took := permits[29].Sub(permits[0]); bound && took > 6*time.Second {
			t.Errorf("the pace allows them in 4.5 s or so, they took %v", took)
		}
	})
}

// TestLongerPace: a pace gets a longer window while its lane runs. What was
// permitted before counts in it, although it had left memory.
func TestLongerPace(t *testing.T) {
	t.Parallel()
	pace := func(ws ...schemas.Window) schemas.Policy {
		return oneProvider(func(p *schemas.Provider) { p.Pace = ws })
	}
	timed(t, pace(window(2, 50*time.Millisecond)), func(r *rig, bound bool) {
		t := r.t
		r.run(r.config("a"))
		send := func(from, to int) {
			var ms []message
			for i := from; i < to; i++ {
				ms = append(ms, message{id: fmt.Sprint(i)})
			}
			r.dispatch(ms...)
			r.eventually("all calls", func() bool { return len(r.fake.made()) == to })
		}
		send(0, 8)
		changed := time.Now()
		r.apply(pace(window(2, 50*time.Millisecond), window(5, 3*time.Second)))
		r.eventually("it is in force", func() bool { return time.Since(changed) > time.Second })
		send(8, 10)
		var at []schemas.Millis
		for _, e := range r.journal() {
			if e.Kind == "permit" {
				at = append(at, e.T)
			}
		}
		if got := at[8].Sub(at[3]); got < 3*time.Second {
			t.Errorf("permit 8 came %v after permit 3, want 3 s or more", got)
		}
	})
}

func TestConcurrencyIsBounded(t *testing.T) {
	r := newRig(t, oneProvider(func(p *schemas.Provider) { p.Concurrency = 3 }))
	release := make(chan struct{})
	r.fake.respond = func(context.Context, provider.Call) provider.Outcome {
		<-release
		return provider.Outcome{Kind: provider.Accepted}
	}
	r.run(r.config("a"))
	var ms []message
	for i := range 20 {
		ms = append(ms, message{id: fmt.Sprint(i)})
	}
	r.dispatch(ms...)
	r.eventually("three calls", func() bool { return len(r.fake.made()) == 3 })
	close(release)
	r.eventually("all calls", func() bool { return len(r.fake.made()) == 20 })
	if r.fake.most != 3 {
		t.Errorf("%d calls at once", r.fake.most)
	}
}

// TestUrgentBeforeBulk: of what the lane has read, urgent messages go before bulk,
// which still gets its one call of ten. The first call ends only when the lane has
// read all: it asks the broker for what follows.
func TestUrgentBeforeBulk(t *testing.T) {
	r := newFakeRig(t, oneProvider(func(p *schemas.Provider) { p.Concurrency = 1 }))
	hasRead := r.hasRead(topics.QueueUrgent, topics.QueueBulk)
	release := make(chan struct{})
	r.fake.respond = func(context.Context, provider.Call) provider.Outcome {
		<-release
		return provider.Outcome{Kind: provider.Accepted}
	}
	r.run(r.config("a"))
	var ms []message
	for i := range 40 {
		ms = append(ms, message{id: fmt.Sprint("bulk", i), queue: topics.QueueBulk})
	}
	r.dispatch(ms...)
	r.eventually("bulk begins", func() bool { return len(r.fake.made()) == 1 })
	ms = nil
	for i := range 20 {
		ms = append(ms, message{id: fmt.Sprint("urgent", i), queue: topics.QueueUrgent})
	}
	r.dispatch(ms...)
	r.eventually("all are read", func() bool { return hasRead(topics.QueueUrgent) == 20 && hasRead(topics.QueueBulk) == 40 })
	close(release)
	r.eventually("all calls", func() bool { return len(r.fake.made()) == 60 })
	ids := r.fake.ids()
	bulk := 0
	for _, id := range ids[1 : slices.Index(ids, "urgent19")+1] {
		if id[0] == 'b' {
			bulk++
		}
	}
	if bulk < 1 || bulk > 3 {
		t.Errorf("%d bulk calls among 20 urgent ones, want one of ten: %v", bulk, ids)
	}
}

// hasRead watches the fetches of some queues: it returns up to which offset whoever
// reads them has been given the records, and has taken them over.
func (r *rig) hasRead(qs ...topics.Queue) func(topics.Queue) int64 {
	var mu sync.Mutex
	of, read := map[[16]byte]topics.Queue{}, map[topics.Queue]int64{}
	for _, q := range qs {
		of[r.cluster.TopicInfo(r.names.Dispatch("p", q)).TopicID] = q
	}
	r.cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		for _, topic := range req.(*kmsg.FetchRequest).Topics {
			if q, ok := of[topic.TopicID]; ok {
				for _, p := range topic.Partitions {
					read[q] = max(read[q], p.FetchOffset)
				}
			}
		}
		return nil, nil, false
	})
	return func(q topics.Queue) int64 {
		mu.Lock()
		defer mu.Unlock()
		return read[q]
	}
}

// TestInDoubt: a permit without outcome, whose process is gone. With hold the
// message ends unknown and is never called; with resend it is tried again; and
// a permit of the new owner's waits until no old one can be called on.
func TestInDoubt(t *testing.T) {
	t.Parallel()
	timed(t, oneProvider(nil, schemas.Class{Name: "hold", OnUnknown: schemas.UnknownHold}), func(r *rig, bound bool) {
		t := r.t
		r.dispatch(message{id: "held", class: "hold"}, message{id: "again"}, message{id: "next"})
		now := time.Now()
		for i, id := range []string{"held", "again"} {
			b, err := json.Marshal(map[string]any{"kind": "permit", "id": id, "attempt": 1, "t": schemas.MillisOf(now), "topic": r.names.Dispatch("p", "normal"), "partition": 0, "offset": i})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.cl.ProduceSync(t.Context(), &kgo.Record{Topic: r.names.Journal("p"), Value: b}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		cfg := r.config("a")
		cfg.PermitLife = 1500 * time.Millisecond
		r.run(cfg)
		got := r.statuses("held", schemas.StatusUnknown)
		if got[0].Attempt != 1 || got[0].ErrorCode != "in_doubt" {
			t.Errorf("%+v", got[0])
		}
		r.statuses("again", schemas.StatusRetrying)
		recs := r.read(r.names.Delay("5s"))
		if len(recs) != 1 || r.envelope(recs[0]).Attempt != 1 || r.envelope(recs[0]).Taint != schemas.TaintUnknown {
			t.Errorf("%v", recs)
		}
		r.statuses("next", schemas.StatusSending, schemas.StatusSent)
		if ids := r.fake.ids(); !slices.Equal(ids, []string{"next"}) {
			t.Errorf("called %v", ids)
		}
		if waited := r.fake.at[0].Sub(now); waited < 1490*time.Millisecond {
			t.Errorf("the new owner called %v after a permit that lives 1.5 s", waited)
		}
	})
}

// TestKilledDuringCalls: three of four calls are answered, the first is not,
// and the process ends. The next one calls none of them again: three are
// finished beyond the low-water mark, one is in doubt.
func TestKilledDuringCalls(t *testing.T) {
	timed(t, oneProvider(nil, schemas.Class{Name: "hold", OnUnknown: schemas.UnknownHold}), func(r *rig, bound bool) {
		t := r.t
		r.fake.respond = func(ctx context.Context, c provider.Call) provider.Outcome {
			if c.ID == "m0" {
				<-ctx.Done()
				<-time.After(200 * time.Millisecond)             // it does not even end when told to
				return provider.Outcome{Kind: provider.Accepted} // nobody will know
			}
			return provider.Outcome{Kind: provider.Accepted}
		}
		cfg := r.config("a")
		cfg.Grace, cfg.Settle = time.Millisecond, time.Millisecond
		cfg.PermitLife = 300 * time.Millisecond
		stop := r.start(func(ctx context.Context) error {
			if err := lane.Run(ctx, cfg); !errors.Is(err, lane.ErrInDoubt) {
				return fmt.Errorf("got %w, want ErrInDoubt", err)
			}
			return nil
		})
		r.dispatch(message{id: "m0", class: "hold"}, message{id: "m1"}, message{id: "m2"}, message{id: "m3"})
		for _, id := range []string{"m1", "m2", "m3"} {
			r.statuses(id, schemas.StatusSending, schemas.StatusSent)
		}
		if at := r.position(topics.QueueNormal); at != 0 {
			t.Errorf("the position is %d with the first unfinished", at)
		}
		stop()
		cfg.Stream.TransactionalID = "b"
		cfg.Grace = time.Second
		r.run(cfg)
		r.statuses("m0", schemas.StatusSending, schemas.StatusUnknown)
		r.dispatch(message{id: "m4"})
		r.statuses("m4", schemas.StatusSending, schemas.StatusSent)
		if calls := r.fake.made(); len(calls) != 5 {
			t.Errorf("%d calls", len(calls))
		}
		r.eventually("the position moves", func() bool { return r.position(topics.QueueNormal) == 5 })
	})
}

// TestAbortKeepsOutcomes: the group refuses a transaction's offsets once, with
// an outcome in it. The call is not repeated and its outcome not lost. Refused
// once more with permits in it, nothing is called on them.
func TestAbortKeepsOutcomes(t *testing.T) {
	t.Parallel()
	r := newFakeRig(t, oneProvider(nil))
	refuse, refused := streamtest.RefuseOffsets(r.cluster)
	r.fake.respond = func(context.Context, provider.Call) provider.Outcome {
		refuse.Store(2)
		return provider.Outcome{Kind: provider.Accepted}
	}
	r.run(r.config("a"))
	for i := range 4 {
		id := fmt.Sprint("m", i)
		if i%2 == 1 {
			refuse.Store(1) // the permit's transaction
		}
		r.dispatch(message{id: id})
		r.statuses(id, schemas.StatusSending, schemas.StatusSent)
	}
	if ids := r.fake.ids(); !slices.Equal(ids, []string{"m0", "m1", "m2", "m3"}) {
		t.Errorf("called %v", ids)
	}
	if refused.Load() < 8 {
		t.Fatalf("%d transactions were refused: the test shows nothing", refused.Load())
	}
}

// TestExpiredPermitIsNotCalled: the commit of a permit takes longer than the
// permit lives. It is not called on; a new one is given.
func TestExpiredPermitIsNotCalled(t *testing.T) {
	simulated(t, oneProvider(nil), func(r *rig) {
		t := r.t
		var slow atomic.Bool
		r.cluster.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
			r.cluster.KeepControl()
			if slow.CompareAndSwap(true, false) {
				time.Sleep(1500 * time.Millisecond)
			}
			return nil, nil, false
		})
		cfg := r.config("a")
		cfg.PermitLife = time.Second
		r.run(cfg)
		r.dispatch(message{id: "warm"})
		r.statuses("warm", schemas.StatusSending, schemas.StatusSent)
		slow.Store(true)
		r.dispatch(message{id: "m"})
		r.statuses("m", schemas.StatusSending, schemas.StatusSending, schemas.StatusSent)
		var kinds []string
		for _, e := range r.journal()[2:] {
			kinds = append(kinds, e.Kind+e.Outcome)
		}
		if !slices.Equal(kinds, []string{"permit", "outcomeexpired_permit", "permit", "outcomeaccepted"}) {
			t.Errorf("%v", kinds)
		}
		if calls := r.fake.made(); len(calls) != 2 || calls[1].Attempt != 1 {
			t.Errorf("%+v", calls)
		}
	})
}

// TestGracefulStop: calls under way end, and their outcomes are committed;
// what waits stays.
func TestGracefulStop(t *testing.T) {
	timed(t, oneProvider(func(p *schemas.Provider) { p.Concurrency = 2 }), func(r *rig, bound bool) {
		t := r.t
		called := make(chan struct{}, 10)
		release := make(chan struct{})
		r.fake.respond = func(context.Context, provider.Call) provider.Outcome {
			called <- struct{}{}
			<-release
			return provider.Outcome{Kind: provider.Accepted}
		}
		stop := r.run(r.config("a"))
		r.dispatch(message{id: "m0"}, message{id: "m1"}, message{id: "m2"})
		<-called
		<-called
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		time.AfterFunc(200*time.Millisecond, func() { close(release) })
		<-stopped
		r.statuses("m0", schemas.StatusSending, schemas.StatusSent)
		r.statuses("m1", schemas.StatusSending, schemas.StatusSent)
		if e := r.events()["m2"]; len(e) != 0 || r.position(topics.QueueNormal) != 2 {
			t.Errorf("%v at %d", e, r.position(topics.QueueNormal))
		}
	})
}

// TestGracefulStopCutsOff: a call that does not end within the grace is cut off
// and has an outcome all the same, so that the next owner finds nothing in
// doubt.
func TestGracefulStopCutsOff(t *testing.T) {
	timed(t, oneProvider(nil, schemas.Class{Name: "hold", OnUnknown: schemas.UnknownHold}), func(r *rig, bound bool) {
		t := r.t
		called := make(chan struct{}, 10)
		r.fake.respond = func(ctx context.Context, c provider.Call) provider.Outcome {
			called <- struct{}{}
			if c.ID != "hangs" {
				return provider.Outcome{Kind: provider.Accepted}
			}
			<-ctx.Done()
			return provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "timeout"}
		}
		cfg := r.config("a")
		cfg.Grace = 100 * time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		supervised := cfg
		supervised.Provider = ""
		go func() { ended <- lane.Supervise(ctx, supervised) }()
		r.dispatch(message{id: "hangs", class: "hold"}, message{id: "m1"})
		<-called
		<-called
		cancel()
		if err := <-ended; !errors.Is(err, lane.ErrCutOff) || errors.Is(err, lane.ErrInDoubt) {
			t.Errorf("got %v, want ErrCutOff", err)
		}
		r.statuses("hangs", schemas.StatusSending, schemas.StatusUnknown)
		r.statuses("m1", schemas.StatusSending, schemas.StatusSent)
		permits, outcomes := 0, 0
		for _, e := range r.journal() {
			if e.Kind == "permit" {
				permits++
			} else {
				outcomes++
			}
		}
		if permits != 2 || outcomes != 2 || r.position(topics.QueueNormal) != 2 {
			t.Errorf("%d permits, %d outcomes, position %d: a call is in doubt", permits, outcomes, r.position(topics.QueueNormal))
		}
	})
}

func TestSupervise(t *testing.T) {
	one := oneProvider(nil)
	r := newRig(t, one)
	opened := make(chan string, 10)
	cfg := r.config("slot")
	cfg.Open = func(p schemas.Provider) (provider.Provider, error) {
		if p.Settings["broken"] != nil {
			return nil, fmt.Errorf("broken")
		}
		opened <- p.Name
		return r.fake, nil
	}
	r.start(func(ctx context.Context) error { return lane.Supervise(ctx, cfg) })
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-opened:
			if got != want {
				t.Fatalf("opened %s, want %s", got, want)
			}
		case <-time.After(2 * time.Minute): // of a test that fails
			t.Fatalf("%s was not opened", want)
		}
	}
	expect("p")
	two := oneProvider(nil)
	two.Providers = append(two.Providers, schemas.Provider{Name: "q", Type: "simulated", Channels: schemas.Channels, Settings: map[string]any{"broken": true}})
	r.apply(two)
	r.dispatch(message{id: "m"})
	r.statuses("m", schemas.StatusSending, schemas.StatusSent) // q disturbs nobody
	mended := oneProvider(nil)
	mended.Providers = append(mended.Providers, schemas.Provider{Name: "q", Type: "simulated", Channels: schemas.Channels})
	r.apply(mended)
	expect("q")
	r.dispatch(message{id: "n", provider: "q"})
	r.statuses("n", schemas.StatusSending, schemas.StatusSent)
	changed := oneProvider(func(p *schemas.Provider) { p.Settings = map[string]any{"latency": "1ms"} })
	r.apply(changed) // q is gone, p opens anew
	expect("p")
	r.eventually("q and the old p are closed", func() bool {
		r.fake.mu.Lock()
		defer r.fake.mu.Unlock()
		return r.fake.closed == 2
	})
	r.dispatch(message{id: "o"})
	r.statuses("o", schemas.StatusSending, schemas.StatusSent)
}

// TestUnknownCommit: the answer to a transaction's end never comes, once with
// the permit in it and once with the outcome. The client is rebuilt and the
// lane restored; nothing is called twice, and no outcome is lost.
func TestUnknownCommit(t *testing.T) {
	t.Parallel()
	simulated(t, oneProvider(nil, schemas.Class{Name: "hold", OnUnknown: schemas.UnknownHold}), func(r *rig) {
		t := r.t
		var silent atomic.Bool
		var swallowed atomic.Int32
		r.cluster.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
			r.cluster.KeepControl()
			if silent.Load() {
				swallowed.Add(1)
				return nil, errors.New("no answer"), true
			}
			return nil, nil, false
		})
		// After the stream has given up on the transaction, ends work again.
		later := func() {
			silent.Store(true)
			time.AfterFunc(1200*time.Millisecond, func() { silent.Store(false) })
		}
		cfg := r.config("a")
		cfg.Stream.TransactionTimeout = time.Second
		r.run(cfg)
		r.dispatch(message{id: "warm"})
		r.statuses("warm", schemas.StatusSending, schemas.StatusSent)

		later()
		r.dispatch(message{id: "m1", class: "hold"})
		r.statuses("m1", schemas.StatusSending, schemas.StatusSent)

		r.fake.mu.Lock()
		r.fake.respond = func(context.Context, provider.Call) provider.Outcome {
			later()
			return provider.Outcome{Kind: provider.Accepted}
		}
		r.fake.mu.Unlock()
		r.dispatch(message{id: "m2", class: "hold"})
		r.statuses("m2", schemas.StatusSending, schemas.StatusSent)
		if ids := r.fake.ids(); !slices.Equal(ids, []string{"warm", "m1", "m2"}) {
			t.Errorf("called %v", ids)
		}
		if swallowed.Load() < 2 {
			t.Fatalf("%d ends of transactions got no answer: the test shows nothing", swallowed.Load())
		}
	})
}

// TestMoves: three members, of which one has the lane; it is stopped, and
// comes back as another. Each message is called exactly once and settled
// exactly once, at the pace of one lane.
func TestMoves(t *testing.T) {
	t.Parallel()
	timed(t, oneProvider(func(p *schemas.Provider) {
		p.Pace = []schemas.Window{window(20, 200*time.Millisecond)}
	}), func(r *rig, bound bool) {
		t := r.t
		r.fake.respond = func(ctx context.Context, _ provider.Call) provider.Outcome {
			select { // long enough that calls are under way when a member stops
			case <-time.After(30 * time.Millisecond):
			case <-ctx.Done():
			}
			return provider.Outcome{Kind: provider.Accepted}
		}
		const n = 200
		var ms []message
		for i := range n {
			ms = append(ms, message{id: fmt.Sprint(i), queue: topics.Queues[i%4]})
		}
		r.dispatch(ms...)
		stops := []func(){r.run(r.config("a0")), r.run(r.config("a1")), r.run(r.config("a2"))}
		for i := range 2 {
			r.eventually("some calls", func() bool { return len(r.fake.made()) >= 60*(i+1) })
			stops[i]()
			stops = append(stops, r.run(r.config(fmt.Sprint("b", i))))
		}
		r.eventually("all calls", func() bool { return len(r.fake.made()) >= n })
		// A lane that moves while its member lives on leaves calls in doubt: those
		// are resent. But nobody may settle a message twice.
		settled := func() (all bool) {
			all = true
			events := r.events()
			for i := range n {
				ends := 0
				for _, e := range events[fmt.Sprint(i)] {
					if e.Status == schemas.StatusSent || e.Status == schemas.StatusRetrying {
						ends++
					}
				}
				if ends > 1 {
					t.Fatalf("settled %d times: %+v", ends, events[fmt.Sprint(i)])
				}
				all = all && ends == 1
			}
			return all
		}
		r.eventually("all are settled", settled)
		ids := r.fake.ids()
		slices.Sort(ids)
		if len(slices.Compact(ids)) != n || len(r.fake.made()) != n {
			t.Errorf("%d calls for %d messages", len(r.fake.made()), n)
		}
		var permits []schemas.Millis
		for _, e := range r.journal() {
			if e.Kind == "permit" {
				permits = append(permits, e.T)
			}
		}
		judge(t, permits, 20, 200*time.Millisecond)
	})
}

// TestMovesFinishCalls: calls are under way whenever a lane moves to another
// member. They end where they were made: nothing is in doubt, although a move
// takes less than a call may.
func TestMovesFinishCalls(t *testing.T) {
	t.Parallel()
	timed(t, oneProvider(func(p *schemas.Provider) { p.Concurrency = 8 }, schemas.Class{Name: "hold", OnUnknown: schemas.UnknownHold}), func(r *rig, bound bool) {
		t := r.t
		r.fake.respond = func(ctx context.Context, _ provider.Call) provider.Outcome {
			select {
			case <-time.After(400 * time.Millisecond):
			case <-ctx.Done():
			}
			return provider.Outcome{Kind: provider.Accepted}
		}
		var restored atomic.Int32
		member := func(i int) {
			cfg := r.config(fmt.Sprint("m", i))
			cfg.Stream.ClientID = string(rune('z' - i)) // the first by name has the lane
			cfg.Logger = slog.New(counting{slog.DiscardHandler, "lanes restored", &restored})
			r.run(cfg)
		}
		const moves = 4
		member(0)
		sent := 0
		work := func() { // there is always some
			for ; len(r.fake.made()) > sent-16; sent += 16 {
				var ms []message
				for j := range 16 {
					ms = append(ms, message{id: fmt.Sprint(sent + j), class: "hold"})
				}
				r.dispatch(ms...)
			}
		}
		for i := 1; i <= moves; i++ {
			calls := len(r.fake.made())
			r.eventually("calls are under way", func() bool { work(); return len(r.fake.made()) > calls })
			member(i)
			r.eventually("the lane moves", func() bool { work(); return restored.Load() == int32(i+1) })
		}
		r.eventually("all are settled", func() bool { return r.position(topics.QueueNormal) == int64(sent) })
		for _, e := range r.journal() {
			if e.Kind == "outcome" && e.Outcome != "accepted" && e.Outcome != "expired_permit" {
				t.Errorf("%+v", e)
			}
		}
		if got := len(r.fake.made()); got != sent {
			t.Errorf("%d calls for %d messages", got, sent)
		}
		t.Logf("%d moves, %d calls, none in doubt", moves, sent)
	})
}

// counting counts the log lines of one message.
type counting struct {
	slog.Handler
	message string
	n       *atomic.Int32
}

func (c counting) Enabled(context.Context, slog.Level) bool { return true }

func (c counting) Handle(_ context.Context, r slog.Record) error {
	if r.Message == c.message {
		c.n.Add(1)
	}
	return nil
}

// TestThroughput shows what one lane does with a provider of 200 ms at
// concurrency 512: at most 2,560 calls/s.
func TestThroughput(t *testing.T) {
	r := newRig(t, oneProvider(func(p *schemas.Provider) { p.Concurrency = 512 }))
	r.fake.respond = func(context.Context, provider.Call) provider.Outcome {
		<-time.After(200 * time.Millisecond)
		return provider.Outcome{Kind: provider.Accepted}
	}
	const n = 4000
	var ms []message
	for i := range n {
		ms = append(ms, message{id: fmt.Sprint(i)})
	}
	r.dispatch(ms...)
	r.run(r.config("a"))
	r.eventually("it begins", func() bool { return len(r.fake.made()) > 0 })
	started := time.Now()
	r.eventually("all calls", func() bool { return len(r.fake.made()) == n })
	t.Logf("%.0f calls/s, %d at once", n/time.Since(started).Seconds(), r.fake.most)
	r.eventually("the position moves", func() bool { return r.position(topics.QueueNormal) == n })
}
