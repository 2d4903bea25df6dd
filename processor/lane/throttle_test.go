package lane_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// TestThrottledRecipientWaitsAlone: a provider that throttles one recipient goes on
// being called for all others, at once.
func TestThrottledRecipientWaitsAlone(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]provider.Outcome{
		"of the recipient": {Kind: provider.Throttled, OfRecipient: true, RetryAfter: 40 * time.Second, Code: "http_429"},
		"nobody knows":     {Kind: provider.Throttled, RetryAfter: 40 * time.Second, Code: "http_429"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timed(t, oneProvider(func(p *schemas.Provider) { p.Concurrency = 1 }), func(r *rig, bound bool) {
				r.fake.respond = func(_ context.Context, c provider.Call) provider.Outcome {
					if c.To == "+8613800000001" {
						return o
					}
					return provider.Outcome{Kind: provider.Accepted}
				}
				r.run(r.config("a"))
				var ms []message
				for i := range 5 {
					ms = append(ms, message{id: fmt.Sprint("his", i), key: "+8613800000001"}, message{id: fmt.Sprint("other", i), key: fmt.Sprint("+861380000001", i)})
				}
				r.dispatch(ms...)
				r.statuses("other4", schemas.StatusSending, schemas.StatusSent)
				r.statuses("his4", schemas.StatusSending, schemas.StatusRetrying)
				if took := r.fake.at[9].Sub(r.fake.at[0]); bound && took > 5*time.Second {
					r.t.Errorf("ten calls took %v", took)
				}
				for _, h := range r.health() {
					if h.SilentUntil != 0 {
						r.t.Errorf("it is silent: %+v", h)
					}
				}
			})
		})
	}
}

// TestSilentLane: a provider that throttles everyone is silent for as long as it says,
// and no longer: answers to calls that were under way do not renew it. What another
// provider may send goes back at once, what names this one or would wait within its
// slack stays. Then one call probes, and the others follow when it is answered.
func TestSilentLane(t *testing.T) {
	t.Parallel()
	if os.Getenv("KAFKA_BROKERS") != "" {
		t.Skip("it takes simulated time: run without KAFKA_BROKERS")
	}
	two := oneProvider(func(p *schemas.Provider) { p.Concurrency = 4; p.Timeout = schemas.Duration(10 * time.Second) })
	two.Providers = append(two.Providers, schemas.Provider{Name: "q", Type: "simulated", Channels: []schemas.Channel{schemas.ChannelSMS}})
	simulated(t, two, func(r *rig) {
		t := r.t
		all := provider.Outcome{Kind: provider.Throttled, OfProvider: true, RetryAfter: 20 * time.Second, Code: "http_429"}
		answer := map[string]time.Duration{"call0": 10 * time.Millisecond, "call1": time.Second, "call2": 5 * time.Second, "call3": 9 * time.Second}
		r.fake.respond = func(_ context.Context, c provider.Call) provider.Outcome {
			if d, ok := answer[c.ID]; ok {
				time.Sleep(d)
				return all
			}
			time.Sleep(time.Second)
			return provider.Outcome{Kind: provider.Accepted}
		}
		r.run(r.config("a"))
		for i := range 4 {
			r.dispatch(message{id: fmt.Sprint("call", i), key: fmt.Sprint("+861380000000", i)})
		}
		r.eventually("it is silent", func() bool { h := r.health(); return len(h) > 0 && h[len(h)-1].SilentUntil != 0 })
		h := r.health()
		until := h[len(h)-1].SilentUntil
		if h[len(h)-1].Breaker != schemas.BreakerClosed {
			t.Errorf("%+v", h[len(h)-1])
		}
		var ms []message
		for i := range 20 {
			ms = append(ms, message{id: fmt.Sprint("m", i)}, message{id: fmt.Sprint("pinned", i), pinned: true})
		}
		ms = append(ms, message{id: "push", body: `{"to":"+8613800000000","channel":"push","class":"notice","body":"x"}`})
		r.dispatch(ms...)
		r.eventually("what may go elsewhere goes back", func() bool { return len(r.read(r.names.Readmit())) >= 20 })
		if waited := schemas.MillisOf(time.Now()).Sub(until.Add(-20 * time.Second)); waited > 3*time.Second {
			t.Errorf("handed back after %v", waited)
		}
		for _, rec := range r.read(r.names.Readmit()) {
			if env := r.envelope(rec); env.Reason != schemas.ReadmitReroute || !strings.HasPrefix(env.ID, "m") || env.Attempt != 0 {
				t.Errorf("%+v", env)
			}
		}
		for i := range 20 {
			r.statuses(fmt.Sprint("pinned", i), schemas.StatusSending, schemas.StatusSent)
		}
		r.statuses("push", schemas.StatusSending, schemas.StatusSent) // no other provider has its channel
		if got := len(r.read(r.names.Readmit())); got != 20 {
			t.Errorf("%d went back", got)
		}
		at := slices.Clone(r.fake.at[4:])
		slices.SortFunc(at, time.Time.Compare)
		if probe := schemas.MillisOf(at[0]).Sub(until); probe < 0 || probe > 500*time.Millisecond {
			t.Errorf("the probe came %v after the silence", probe)
		}
		if next := at[1].Sub(at[0]); next < time.Second {
			t.Errorf("a second call came %v after the probe, which takes a second", next)
		}
		if fourth := at[4].Sub(at[1]); fourth > 500*time.Millisecond {
			t.Errorf("the others came within %v of each other", fourth)
		}
	})
}

// TestShortSilenceKeepsItsMessages: what waits no longer than its slack stays.
func TestShortSilenceKeepsItsMessages(t *testing.T) {
	t.Parallel()
	two := oneProvider(func(p *schemas.Provider) { p.Concurrency = 1 })
	two.Providers = append(two.Providers, schemas.Provider{Name: "q", Type: "simulated", Channels: []schemas.Channel{schemas.ChannelSMS}})
	timed(t, two, func(r *rig, _ bool) {
		r.fake.respond = func(_ context.Context, c provider.Call) provider.Outcome {
			if c.ID == "call" {
				return provider.Outcome{Kind: provider.Throttled, OfProvider: true, RetryAfter: 2 * time.Second, Code: "http_429"}
			}
			return provider.Outcome{Kind: provider.Accepted}
		}
		r.run(r.config("a"))
		r.dispatch(message{id: "call"}, message{id: "m"}, message{id: "brief", change: func(e *schemas.Envelope) { e.ExpiresAt = e.DecidedAt.Add(15 * time.Second) }})
		r.statuses("m", schemas.StatusSending, schemas.StatusSent)
		back := r.read(r.names.Readmit())
		if len(back) != 1 || r.envelope(back[0]).ID != "brief" { // its slack is 1.5 s
			r.t.Errorf("%d went back", len(back))
		}
	})
}

// TestRetryElsewhereDoesNotWaitForTheProvider: what Retry-After asks for is between Weir
// and that provider. A retry that prefers another one waits as its class says.
func TestRetryElsewhereDoesNotWaitForTheProvider(t *testing.T) {
	t.Parallel()
	two := oneProvider(nil, schemas.Class{Name: "quick", Retries: []schemas.Duration{schemas.Duration(time.Second), schemas.Duration(2 * time.Second)}})
	two.Providers = append(two.Providers, schemas.Provider{Name: "q", Type: "simulated", Channels: []schemas.Channel{schemas.ChannelSMS}})
	timed(t, two, func(r *rig, _ bool) {
		r.fake.respond = always(provider.Outcome{Kind: provider.Throttled, OfRecipient: true, RetryAfter: 40 * time.Second, Code: "http_429"})
		r.run(r.config("a"))
		tried := func(who ...string) func(*schemas.Envelope) {
			return func(e *schemas.Envelope) {
				for _, name := range who {
					e.Tried, e.Attempt = schemas.Try(e.Tried, name, schemas.RetryThrottled), 1
				}
			}
		}
		r.dispatch(message{id: "first", class: "quick"}, message{id: "q failed it", class: "quick", change: tried("q")},
			message{id: "back", class: "quick", change: tried("p")}, message{id: "pinned", class: "quick", pinned: true})
		for id, want := range map[string]time.Duration{"first": time.Second, "q failed it": 40 * time.Second, "back": 40 * time.Second, "pinned": 40 * time.Second} {
			if e := r.statuses(id, schemas.StatusSending, schemas.StatusRetrying)[1]; e.RetryAt.Sub(e.At) != want {
				r.t.Errorf("%s is tried again after %v, want %v", id, e.RetryAt.Sub(e.At), want)
			}
		}
	})
}
