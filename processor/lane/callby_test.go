package lane_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
)

// TestCallBy: a message is called until the time that its decision names, whatever its
// class says, and goes back after it. The time is this record's alone.
func TestCallBy(t *testing.T) {
	by := func(d time.Duration) func(*schemas.Envelope) {
		return func(e *schemas.Envelope) { e.CallBy, e.Stale = e.DecidedAt.Add(d), 1 }
	}
	simulated(t, oneProvider(nil, schemas.Class{Name: "quick", StaleAfter: schemas.Duration(10 * time.Second)}), func(r *rig) {
		t := r.t
		r.fake.respond = func(_ context.Context, c provider.Call) provider.Outcome {
			if c.ID == "tried" {
				return provider.Outcome{Kind: provider.Transient}
			}
			return provider.Outcome{Kind: provider.Accepted}
		}
		old := func(d time.Duration) func(*schemas.Envelope) {
			return func(e *schemas.Envelope) { e.DecidedAt -= 11_000; by(d)(e) }
		}
		r.dispatch(message{id: "over", change: old(10_999 * time.Millisecond)}, message{id: "long", class: "quick", change: old(time.Minute)}, message{id: "tried", change: by(time.Second)})
		r.run(r.config("a"))
		r.statuses("long", schemas.StatusSending, schemas.StatusSent)
		r.statuses("tried", schemas.StatusSending, schemas.StatusRetrying)
		back := r.read(r.names.Readmit())
		if len(back) != 1 {
			t.Fatalf("%d records", len(back))
		}
		if env := r.envelope(back[0]); env.ID != "over" || env.CallBy != 0 || env.Stale != 1 {
			t.Errorf("%+v", env)
		}
		if env := r.envelope(r.read(r.names.Delay("5s"))[0]); env.CallBy != 0 || env.Stale != 0 {
			t.Errorf("%+v", env)
		}
		for _, e := range r.journal() {
			if e.Kind == "permit" && (e.CallBy < e.T || e.Late) {
				t.Errorf("%+v", e)
			}
		}
		if ids := r.fake.ids(); slices.Contains(ids, "over") {
			t.Errorf("called %v", ids)
		}
	})
}

// TestOverdueIsCalledLate: where each decision is too old when it arrives, or when its
// permit is committed, a message is decided again twice, and then called all the same.
func TestOverdueIsCalledLate(t *testing.T) {
	for _, c := range []struct {
		name         string
		age, commits time.Duration
		ahead        time.Duration // the lane's clock
	}{
		{"decisions arrive too late", 1100 * time.Millisecond, 0, 0},
		{"permits are committed too late", 0, 1200 * time.Millisecond, 0},
		{"the lane's clock is ahead", 0, 0, time.Minute},
		{"neither", 100 * time.Millisecond, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			simulated(t, oneProvider(nil), func(r *rig) {
				t := r.t
				if c.commits > 0 {
					r.cluster.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
						r.cluster.KeepControl()
						r.cluster.SleepControl(func() { <-time.After(c.commits) })
						return nil, nil, false
					})
				}
				r.decides(200*time.Millisecond, c.age, time.Second)
				const n = 40
				var ms []message
				for i := range n {
					ms = append(ms, message{id: fmt.Sprint(i), change: func(e *schemas.Envelope) { e.DecidedAt -= 100_000; e.CallBy = e.DecidedAt.Add(time.Second) }})
				}
				r.dispatch(ms...)
				cfg, began := r.config("a"), time.Now()
				cfg.Metrics = prometheus.NewRegistry()
				cfg.Now = func() time.Time { return time.Now().Add(c.ahead) }
				r.run(cfg)
				r.eventually("all are called", func() bool { return len(r.fake.made()) >= n })
				late, stale := 0, map[string]int{}
				for _, e := range r.journal() {
					if e.Late != (e.Kind == "permit" && e.T > e.CallBy) {
						t.Errorf("%+v", e)
					}
					if e.Late {
						late++
					}
					if e.Outcome == "stale" {
						stale[e.ID]++
					}
				}
				t.Logf("%v: %d of %d are late", time.Since(began), late, n)
				if want := map[bool]int{true: n}[c.name != "neither"]; late != want || streamtest.Sum(t, cfg.Metrics.(*prometheus.Registry), "weir_lane_late_calls_total") != float64(want) {
					t.Errorf("%d calls are late, want %d", late, want)
				}
				for id, n := range stale {
					if want := map[bool]int{true: 2, false: 1}[c.name != "neither"]; n != want {
						t.Errorf("%s went back %d times, want %d", id, n, want)
					}
				}
			})
		})
	}
}

// TestNoCallBeforeItsDecision: a lane whose clock is a little behind the one that decided
// waits for the moment of the decision; it does not where its clock is far off.
func TestNoCallBeforeItsDecision(t *testing.T) {
	for ahead, waits := range map[time.Duration]time.Duration{
		1500 * time.Millisecond: 1500 * time.Millisecond,
		time.Hour:               0,
	} {
		simulated(t, oneProvider(nil), func(r *rig) {
			r.run(r.config("a"))
			r.dispatch(message{id: "warm"})
			r.statuses("warm", schemas.StatusSending, schemas.StatusSent)
			began := time.Now()
			r.dispatch(message{id: "m", change: func(e *schemas.Envelope) { e.DecidedAt = e.DecidedAt.Add(ahead) }})
			r.statuses("m", schemas.StatusSending, schemas.StatusSent)
			if took := r.fake.at[1].Sub(began); took < waits || took > waits+500*time.Millisecond {
				r.t.Errorf("decided %v ahead: called after %v", ahead, took)
			}
		})
	}
}
