package lane_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// admission stands in for the real one: what comes back stale is decided anew
// after a while, and dispatched on again.
func (r *rig) admission(after time.Duration) { r.decides(after, 0, 0) }

// decides is admission, whose decisions are so old when they are dispatched, and may be
// called on for so long (0: as their class says).
func (r *rig) decides(after, age, slack time.Duration) {
	cl, err := kgo.NewClient(r.client(kgo.ConsumeTopics(r.names.Readmit()), kgo.FetchMaxWait(20*time.Millisecond),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	type due struct {
		at   time.Time
		recs []*kgo.Record
	}
	waits, done := make(chan due, 100_000), make(chan struct{}, 2)
	go func() {
		defer func() { close(waits); done <- struct{}{} }()
		for ctx.Err() == nil {
			if recs := cl.PollFetches(ctx).Records(); len(recs) > 0 {
				waits <- due{time.Now().Add(after), recs}
			}
		}
	}()
	go func() {
		defer func() { done <- struct{}{} }()
		for d := range waits {
			select {
			case <-time.After(time.Until(d.at)):
			case <-ctx.Done():
				return
			}
			for _, rec := range d.recs {
				env := r.envelope(rec)
				env.DecidedAt = schemas.MillisOf(time.Now().Add(-age))
				if slack > 0 {
					env.CallBy = env.DecidedAt.Add(slack)
				}
				out := &kgo.Record{Topic: r.names.Dispatch("p", topics.QueueAgain), Key: rec.Key, Value: rec.Value}
				env.Each(func(k string, v []byte) { out.Headers = append(out.Headers, kgo.RecordHeader{Key: k, Value: v}) })
				cl.Produce(ctx, out, nil)
			}
		}
	}()
	r.t.Cleanup(func() { cancel(); <-done; <-done; cl.Close() })
}

// TestStaleBacklogDoesNotChaseItsTail: a backlog that is stale goes back for a
// new decision and returns on again. No more may go back than the lane can call
// before they are stale once more: with a pace, and without one, however long
// admission takes.
func TestStaleBacklogDoesNotChaseItsTail(t *testing.T) {
	for _, c := range []struct {
		name    string
		pace    []schemas.Window
		latency time.Duration
		after   time.Duration // admission's delay
		n       int
		most    float64       // times that each goes back
		within  time.Duration // all are called
	}{
		{"no pace", nil, 20 * time.Millisecond, 200 * time.Millisecond, 6000, 1.1, 14 * time.Second},
		{"no pace, admission is slow", nil, 20 * time.Millisecond, 1500 * time.Millisecond, 4000, 1.3, 25 * time.Second},
		{"100 a second", []schemas.Window{window(100, time.Second)}, 20 * time.Millisecond, 200 * time.Millisecond, 1000, 1.1, 13 * time.Second},
		{"a pace that concurrency does not reach", []schemas.Window{window(5000, time.Second)}, 100 * time.Millisecond, 200 * time.Millisecond, 1500, 1.3, 14 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := oneProvider(func(p *schemas.Provider) { p.Pace, p.Concurrency = c.pace, 16 },
				schemas.Class{Name: "quick", StaleAfter: schemas.Duration(2 * time.Second)})
			simulated(t, p, func(r *rig) {
				r.fake.respond = func(context.Context, provider.Call) provider.Outcome {
					<-time.After(c.latency)
					return provider.Outcome{Kind: provider.Accepted}
				}
				r.admission(c.after)
				var ms []message
				for i := range c.n {
					ms = append(ms, message{id: fmt.Sprint(i), class: "quick", change: func(e *schemas.Envelope) { e.DecidedAt -= 100_000 }})
				}
				r.dispatch(ms...)
				r.run(r.config("a"))
				began := time.Now()
				for len(r.fake.made()) < c.n && time.Since(began) < c.within+10*time.Second {
					<-time.After(20 * time.Millisecond)
				}
				took := time.Since(began)
				back := 0
				for _, e := range r.journal() {
					if e.Outcome == "stale" {
						back++
					}
				}
				calls := len(r.fake.made())
				r.fake.mu.Lock()
				rate := float64(calls-1) / r.fake.at[calls-1].Sub(r.fake.at[0]).Seconds()
				r.fake.mu.Unlock()
				r.t.Logf("STALE %s: %d stale messages, %d calls in %.1f s (%.0f calls/s between the first and the last), went back %.2f times each", c.name, c.n, calls, took.Seconds(), rate, float64(back)/float64(c.n))
				if calls != c.n || took > c.within {
					r.t.Errorf("%d calls in %v, want %d within %v", calls, took, c.n, c.within)
				}
				if float64(back) > c.most*float64(c.n) {
					r.t.Errorf("%d went back of %d", back, c.n)
				}
				if c.name == "100 a second" && rate < 98 {
					r.t.Errorf("%.1f calls a second, the pace is 100", rate)
				}
			})
		})
	}
}
