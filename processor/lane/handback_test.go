package lane_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhq/weir/processor/lane"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// TestBreakerHandsBack: a provider that refuses connections opens its lane's
// breaker after five calls. What no request pinned to it goes back at once,
// also behind pinned messages, which wait and may expire; when it is well
// again, three probes close the breaker.
func TestBreakerHandsBack(t *testing.T) {
	t.Parallel()
	timed(t, twoProviders(func(p *schemas.Provider) { p.Concurrency = 1 }), func(r *rig, bound bool) {
		t := r.t
		down := provider.Outcome{Kind: provider.Transient, Code: "connect_refused"}
		r.fake.respond = always(down)
		const n = 3000
		ms := []message{}
		ms = append(ms, message{id: "pinned", pinned: true}, message{id: "brief", pinned: true, change: func(e *schemas.Envelope) { e.ExpiresAt = e.DecidedAt + 3000 }})
		for i := range n {
			ms = append(ms, message{id: fmt.Sprint("m", i), queue: topics.Queues[1+i%3]})
		}
		ms = append(ms, message{id: "pinned2", pinned: true}, message{id: "late", change: func(e *schemas.Envelope) { e.DecidedAt += 5000 }})
		cfg := r.config("a")
		reg := prometheus.NewRegistry()
		cfg.Metrics = reg
		r.run(cfg)
		for i := range 5 {
			r.dispatch(message{id: fmt.Sprint("call", i), queue: topics.QueueUrgent})
		}
		r.eventually("it is open", func() bool { h := r.health(); return len(h) > 0 && h[len(h)-1].Breaker == schemas.BreakerOpen })
		r.dispatch(ms...)
		sent := time.Now()
		h := r.health()
		if last := h[len(h)-1]; last.Provider != "p" || last.Lane != 0 || last.Calls != 5 || last.Failures != 5 || last.ProbeAt.Sub(last.At) < 9*time.Second || last.ProbeAt.Sub(last.At) > 10*time.Second+time.Millisecond {
			t.Errorf("%+v", last)
		}
		r.eventually("all go back", func() bool { return len(r.read(r.names.Readmit())) >= n })
		t.Logf("%d handed back within %v", n, time.Since(sent))
		if got := figure(t, reg, "weir_breaker_state"); got != 2 {
			t.Errorf("weir_breaker_state %v", got)
		}
		back := r.read(r.names.Readmit())
		for _, rec := range back {
			env := r.envelope(rec)
			if env.Reason != schemas.ReadmitReroute || !strings.HasPrefix(env.ID, "m") || len(env.Place) != 1 || len(rec.Value) == 0 || env.Attempt != 0 || env.Provider != "p" || rec.Partition != schemas.PartitionOf(env.Key, parts) {
				t.Fatalf("%+v", env)
			}
		}
		if len(back) != n {
			t.Errorf("%d went back of %d", len(back), n)
		}
		reroutes := 0
		for _, e := range r.journal() {
			if e.Kind == "outcome" && e.Outcome == "reroute" {
				reroutes++
			}
		}
		if calls := len(r.fake.made()); calls != 5 || reroutes != n {
			t.Errorf("%d calls, %d outcomes reroute", calls, reroutes)
		}
		r.statuses("brief", schemas.StatusExpired)
		events := r.events()
		if len(events["m0"])+len(events["pinned"])+len(events["late"]) != 0 {
			t.Errorf("%v %v %v", events["m0"], events["pinned"], events["late"])
		}
		r.fake.mu.Lock()
		r.fake.respond = nil
		r.fake.mu.Unlock()
		for _, id := range []string{"pinned", "pinned2", "late"} {
			r.statuses(id, schemas.StatusSending, schemas.StatusSent)
		}
		if waited := r.fake.at[5].Sub(r.fake.at[4]); waited < 10*time.Second || bound && waited > 12*time.Second {
			t.Errorf("the first probe came after %v", waited)
		}
		r.dispatch(message{id: "well"})
		r.statuses("well", schemas.StatusSending, schemas.StatusSent)
		var states []schemas.Breaker
		for _, h := range r.health() {
			if h.Provider == "p" && (len(states) == 0 || states[len(states)-1] != h.Breaker) {
				states = append(states, h.Breaker)
			}
		}
		if states[0] == schemas.BreakerClosed {
			states = states[1:]
		}
		if !slices.Equal(states, []schemas.Breaker{schemas.BreakerOpen, schemas.BreakerHalfOpen, schemas.BreakerClosed}) {
			t.Errorf("%v", states)
		}
		r.eventually("the outage is forgotten", func() bool {
			h := r.health()
			last := h[len(h)-1]
			return last.Breaker == schemas.BreakerClosed && last.Calls == 1 && last.Failures == 0
		})
		r.eventually("the position moves", func() bool { return r.position(topics.QueueNormal) == int64(n/3+4+1) })
	})
}

// TestBreakerKeeps: what no other provider of the policy may send stays in the lane while
// its breaker is open, and is not decided again for nothing.
func TestBreakerKeeps(t *testing.T) {
	t.Parallel()
	policy := twoProviders(func(p *schemas.Provider) { p.Concurrency = 1 })
	policy.Routes = []schemas.Route{{Name: "alone", Match: schemas.Match{Class: []string{"notice"}}, To: []schemas.Target{{Provider: "p", Weight: 1}}}}
	timed(t, policy, func(r *rig, _ bool) {
		r.fake.respond = always(provider.Outcome{Kind: provider.Transient, Code: "connect_refused"})
		r.run(r.config("a"))
		for i := range 5 {
			r.dispatch(message{id: fmt.Sprint("call", i), queue: topics.QueueUrgent})
		}
		r.eventually("it is open", func() bool { h := r.health(); return len(h) > 0 && h[len(h)-1].Breaker == schemas.BreakerOpen })
		before := func(e *schemas.Envelope) { e.DecidedAt -= 1000 }
		push := `{"to":"+8613800000000","channel":"push","class":"other","body":"x"}` // q has not its channel
		other := `{"to":"+8613800000000","channel":"sms","class":"other","body":"x"}`
		r.dispatch(message{id: "alone", change: before}, message{id: "push", body: push, change: before}, message{id: "other", body: other, change: before})
		r.eventually("what q may send goes back", func() bool { return len(r.read(r.names.Readmit())) > 0 })
		r.fake.mu.Lock()
		r.fake.respond = nil
		r.fake.mu.Unlock()
		for _, id := range []string{"alone", "push"} {
			r.statuses(id, schemas.StatusSending, schemas.StatusSent)
		}
		if back := r.read(r.names.Readmit()); len(back) != 1 || r.envelope(back[0]).ID != "other" {
			r.t.Errorf("%d went back", len(back))
		}
	})
}

// TestWhatCameAfterTheOpeningDoesNotGoRound: as long as admission may not know
// of the breaker it sends the same message here again; the lane waits for that
// time to pass rather than hand it back as fast as both can write.
func TestWhatCameAfterTheOpeningDoesNotGoRound(t *testing.T) {
	t.Parallel()
	timed(t, twoProviders(func(p *schemas.Provider) { p.Concurrency = 1 }), func(r *rig, bound bool) {
		r.fake.respond = always(provider.Outcome{Kind: provider.Transient, Code: "connect_refused"})
		r.run(r.config("a"))
		for i := range 5 {
			r.dispatch(message{id: fmt.Sprint("call", i), queue: topics.QueueUrgent})
		}
		r.eventually("it is open", func() bool { h := r.health(); return len(h) > 0 && h[len(h)-1].Breaker == schemas.BreakerOpen })
		opened := r.health()[len(r.health())-1].At
		// Decided before admission can know, however long it took here to see that it is open.
		r.dispatch(message{id: "m", change: func(e *schemas.Envelope) { e.DecidedAt = opened + 500 }})
		r.eventually("it goes back", func() bool { return len(r.read(r.names.Readmit())) == 1 })
		if after := schemas.MillisOf(time.Now()).Sub(opened); after < time.Second {
			r.t.Errorf("handed back %v after the opening, when admission need not know", after)
		}
	})
}

// figure returns the value of the one gauge or counter of a name.
func figure(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	got, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range got {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// TestRestartAmidHandBack: a lane that is stopped while its breaker is open,
// with a pinned message at the head and thousands handed back behind it, hands
// none of them back again.
func TestRestartAmidHandBack(t *testing.T) {
	t.Parallel()
	timed(t, twoProviders(func(p *schemas.Provider) { p.Concurrency = 1 }), func(r *rig, bound bool) {
		t := r.t
		r.fake.respond = always(provider.Outcome{Kind: provider.Transient, Code: "connect_refused"})
		const n = 3000
		ms := []message{{id: "pinned", pinned: true, change: func(e *schemas.Envelope) { e.DecidedAt += 60_000 }}}
		for i := range n {
			ms = append(ms, message{id: fmt.Sprint("m", i)})
		}
		stop := r.run(r.config("a"))
		for i := range 5 {
			r.dispatch(message{id: fmt.Sprint("call", i), queue: topics.QueueUrgent})
		}
		r.eventually("it is open", func() bool { h := r.health(); return len(h) > 0 && h[len(h)-1].Breaker == schemas.BreakerOpen })
		r.dispatch(ms...)
		r.eventually("all go back", func() bool { return len(r.read(r.names.Readmit())) >= n })
		stop()
		if at := r.position(topics.QueueNormal); at != 0 {
			t.Fatalf("the position is %d with the first unfinished: the test shows nothing", at)
		}
		r.fake.mu.Lock()
		r.fake.respond = nil
		r.fake.mu.Unlock()
		r.run(r.config("b"))
		r.statuses("pinned", schemas.StatusSending, schemas.StatusSent)
		r.eventually("the position moves", func() bool { return r.position(topics.QueueNormal) == n+1 })
		if got := len(r.read(r.names.Readmit())); got != n {
			t.Errorf("%d handed back of %d", got, n)
		}
		if got := r.fake.made(); len(got) != 6 {
			t.Errorf("%d calls", len(got))
		}
	})
}

// TestDrain: a provider leaves the policy while calls are under way. All that
// waits goes back, pinned or not; the calls' outcomes are committed; the lane
// takes its word back and ends. What is dispatched to it later, while nobody
// runs, is handed back by the next start, which opens no adapter.
func TestDrain(t *testing.T) {
	for name, without := range map[string]schemas.Policy{
		"removed":      {Classes: []schemas.Class{{Name: "notice"}}},
		"only decides": oneProvider(func(p *schemas.Provider) { p.Type = schemas.ProviderNone }),
	} {
		t.Run(name, func(t *testing.T) { drains(t, without) })
	}
}

func drains(t *testing.T, without schemas.Policy) {
	r := newRig(t, oneProvider(func(p *schemas.Provider) { p.Concurrency = 2 }))
	called, release := make(chan struct{}, 10), make(chan struct{})
	r.fake.respond = func(_ context.Context, c provider.Call) provider.Outcome {
		if c.ID != "early" {
			called <- struct{}{}
			<-release
		}
		return provider.Outcome{Kind: provider.Accepted}
	}
	opened := make(chan string, 10)
	cfg := r.config("slot")
	cfg.Open = func(p schemas.Provider) (provider.Provider, error) { opened <- p.Name; return r.fake, nil }
	stop := r.start(func(ctx context.Context) error { return lane.Supervise(ctx, cfg) })
	r.dispatch(message{id: "early"})
	r.eventually("the lane says how its provider is", func() bool { h := r.health(); return len(h) > 0 && h[len(h)-1].Calls == 1 })
	r.dispatch(message{id: "c0", queue: topics.QueueUrgent}, message{id: "c1", queue: topics.QueueUrgent})
	<-called
	<-called
	for i, q := range topics.Queues {
		r.dispatch(message{id: fmt.Sprint("m", i), queue: q}, message{id: fmt.Sprint("n", i), queue: q, pinned: true})
	}
	r.apply(without)
	r.eventually("all go back", func() bool { return len(r.read(r.names.Readmit())) == 8 })
	for _, rec := range r.read(r.names.Readmit()) {
		if env := r.envelope(rec); env.Reason != schemas.ReadmitReroute || len(env.Place) != 1 || len(rec.Value) == 0 {
			t.Errorf("%+v", env)
		}
	}
	close(release)
	for _, id := range []string{"c0", "c1"} {
		r.statuses(id, schemas.StatusSending, schemas.StatusSent)
	}
	r.eventually("the lane ends", func() bool {
		r.fake.mu.Lock()
		defer r.fake.mu.Unlock()
		return r.fake.closed == 1
	})
	if h := r.health(); h[len(h)-1] != nil {
		t.Errorf("its last word stands: %+v", h[len(h)-1])
	}
	stop()
	r.dispatch(message{id: "left"}, message{id: "pin", queue: topics.QueueBulk, pinned: true})
	cfg.Stream.TransactionalID = "slot2"
	r.start(func(ctx context.Context) error { return lane.Supervise(ctx, cfg) })
	r.eventually("the rest goes back", func() bool { return len(r.read(r.names.Readmit())) == 10 })
	if len(opened) != 1 || len(r.fake.made()) != 3 {
		t.Errorf("opened %d times, %d calls", len(opened), len(r.fake.made()))
	}

	// It returns to the policy: its lane opens and calls again.
	r.apply(oneProvider(nil))
	r.dispatch(message{id: "new"})
	r.statuses("new", schemas.StatusSending, schemas.StatusSent)
}

// TestLanesGrow: one lane becomes three, while all have work. No second holds
// more than the pace, whoever gave the permits, and afterwards all three use
// their share.
func TestLanesGrow(t *testing.T) {
	t.Parallel()
	pace := func(lanes int32) schemas.Policy {
		return oneProvider(func(p *schemas.Provider) {
			p.Pace, p.Lanes = []schemas.Window{window(10, time.Second)}, lanes
		})
	}
	r := newRig(t, pace(1))
	supervise := func(slot string) {
		cfg := r.config(slot)
		r.start(func(ctx context.Context) error { return lane.Supervise(ctx, cfg) })
	}
	supervise("a")
	var ms []message
	for i := range 40 {
		ms = append(ms, message{id: fmt.Sprint("m", i)})
	}
	r.dispatch(ms...)
	r.eventually("it begins", func() bool { return len(r.fake.made()) >= 12 })
	adm := kadm.NewClient(r.cl)
	grow := []string{r.names.Journal("p")}
	for _, q := range topics.Queues {
		grow = append(grow, r.names.Dispatch("p", q))
	}
	if got, err := adm.UpdatePartitions(t.Context(), 3, grow...); err != nil || got.Error() != nil {
		t.Fatal(err, got.Error())
	}
	r.connect() // the old client knows the old partitions
	supervise("b")
	r.apply(pace(3))
	ms = nil
	for i := range 40 {
		ms = append(ms, message{id: fmt.Sprint("n", i), partition: int32(1 + i%2)})
	}
	r.dispatch(ms...)
	r.eventually("all calls", func() bool { return len(r.fake.made()) == 80 })
	var all []schemas.Millis
	by, of := make(map[int32][]schemas.Millis), make(map[int32]map[string]bool) // messages: a permit that expires is followed by another
	for _, rec := range r.read(r.names.Journal("p")) {
		if e := r.entry(rec); e.Kind == "permit" {
			all = append(all, e.T)
			by[rec.Partition] = append(by[rec.Partition], e.T)
			if of[rec.Partition] == nil {
				of[rec.Partition] = make(map[string]bool)
			}
			of[rec.Partition][e.ID] = true
		}
	}
	slices.Sort(all)
	judge(t, all, 10, time.Second)
	if len(of[1]) != 20 || len(of[2]) != 20 {
		t.Fatalf("messages that were permitted, by lane: %d, %d, %d", len(of[0]), len(of[1]), len(of[2]))
	}
	for _, l := range []int32{1, 2} { // their shares are 3 of 10 each
		judge(t, by[l], 3, time.Second)
		if first := by[l][0]; first.Sub(all[0]) < time.Second {
			t.Errorf("lane %d began %v after the first permit of all", l, first.Sub(all[0]))
		}
	}
	t.Logf("80 permits in %v; lanes 1 and 2 began after %v and %v", all[79].Sub(all[0]), by[1][0].Sub(all[0]), by[2][0].Sub(all[0]))
}

// TestSmoothLane: a smooth pace is kept by the calls themselves, evenly.
func TestSmoothLane(t *testing.T) {
	r := newRig(t, oneProvider(func(p *schemas.Provider) {
		p.Pace, p.Smooth = []schemas.Window{window(150, time.Second)}, true
		p.Price = &schemas.Price{Currency: "CNY", PerSegment: "0.045"}
	}))
	var ms []message
	for i := range 300 {
		ms = append(ms, message{id: fmt.Sprint(i)})
	}
	r.dispatch(ms...)
	r.run(r.config("a"))
	r.eventually("all calls", func() bool { return len(r.fake.made()) == 300 })
	var at []schemas.Millis
	for _, e := range r.journal() {
		if e.Kind == "permit" {
			at = append(at, e.T)
		}
	}
	judge(t, at, 150, time.Second)
	for i := range at[1:] {
		if gap := at[i+1] - at[i]; gap < 6 {
			t.Fatalf("permit %d came %d ms after the one before", i+1, gap)
		}
	}
	took := at[len(at)-1].Sub(at[0])
	t.Logf("300 permits in %v, %.1f %% of the pace", took, 299/0.15/float64(took.Milliseconds())*100)
	e := r.statuses("299", schemas.StatusSending, schemas.StatusSent)
	if e[1].Price != "0.045" || e[1].Currency != "CNY" || e[0].Price != "" {
		t.Errorf("%+v", e)
	}
}
