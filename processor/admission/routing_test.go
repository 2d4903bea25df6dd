package admission

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/schemas"
)

const routePolicy = `
limits:
  - {name: code, match: {class: code}, per: [recipient], allow: [1/60s]}
  - {name: by-two, match: {provider: two, class: apart}, per: [recipient, provider], allow: [1/60s]}
classes:
  - {name: code, expires_after: 5m}
providers:
  - {name: one, type: simulated, channels: [sms], lanes: 2}
  - {name: two, type: simulated, channels: [sms]}
  - {name: spare, type: simulated, channels: [sms]}
routes:
  - {name: failing-over, match: {class: code}, to: [{provider: one}], failover: [spare]}
  - {name: apart, match: {class: apart}, to: [{provider: one}, {provider: two}]}
  - {name: alone, match: {}, to: [{provider: one}]}
`

// newRouteBench returns a bench and what to call to change a provider's breaker
// in all its lanes.
func newRouteBench(t *testing.T) (*bench, func(name string, b schemas.Breaker)) {
	b := newBench(t)
	health := route.Health{}
	b.p.env.routing = newRouting(func() route.Health { return health })
	b.apply(2, routePolicy)
	return b, func(name string, br schemas.Breaker) {
		next := route.Health{}
		for n, s := range health {
			next[n] = s
		}
		s := next[name]
		lanes := s.Lanes
		for lane := range int32(2) {
			h := schemas.Health{Provider: name, Lane: lane, Breaker: br, At: b.now}
			if br == schemas.BreakerOpen {
				h.ProbeAt = b.now.Add(10 * time.Second)
			}
			lanes = route.Take(lanes, h, b.now)
		}
		next[name] = route.Step(s, lanes, b.now)
		health = next
	}
}

func routed(class string, i int, more string) string {
	return fmt.Sprintf(`{"channel":"sms","to":"+861380000%04d","class":%q,"body":"x"%s}`, i, class, more)
}

func TestAdmissionRoutesByHealth(t *testing.T) {
	b, is := newRouteBench(t)
	b.want(b.request("%s", routed("code", 1, "")), "queued admit +1 > dispatch.one.normal")
	is("one", schemas.BreakerOpen)
	b.want(b.request("%s", routed("code", 2, "")), "queued admit +1 > dispatch.spare.normal")
	b.want(b.request("%s", routed("code", 3, `,"provider":"one"`)), "queued admit +1 > dispatch.one.normal") // waits there
	for i := range 20 {
		b.want(b.request("%s", routed("plain2", 100+i, `,"provider":"two"`)), "queued admit > dispatch.two.normal")
		if o := b.request("%s", routed("apart", 100+i, "")); o.event.Provider != "two" {
			t.Fatalf("went to %s", o.event.Provider)
		}
	}
	// Its first messages after ProbeAt are probes, and then a few in a hundred.
	b.now += 10_000
	probes := 0
	for i := range 200 {
		if o := b.request("%s", routed("code", 200+i, "")); o.event.Provider == "one" {
			probes++
			if i < 3 {
				continue
			}
		} else if i < 3 {
			t.Errorf("the %dth message is no probe", i)
		}
	}
	if probes < 3 || probes > 20 {
		t.Errorf("%d probes of 200", probes)
	}
	is("one", schemas.BreakerClosed)
	b.want(b.request("%s", routed("code", 999, "")), "queued admit +1 > dispatch.one.normal")
}

// Messages of a lane that is open go elsewhere; those of the provider's other
// lanes need not.
func TestAdmissionRoutesByLane(t *testing.T) {
	b, _ := newRouteBench(t)
	health := route.Health{"one": route.Step(route.Standing{}, []schemas.Health{
		{Lane: 0, Breaker: schemas.BreakerClosed, At: b.now},
		{Lane: 1, Breaker: schemas.BreakerOpen, ProbeAt: b.now + 10_000, At: b.now},
	}, b.now)}
	b.p.env.routing = newRouting(func() route.Health { return health })
	count := map[string]int{}
	for i := range 100 {
		o := b.request("%s", routed("code", i, ""))
		want := []string{"one", "spare"}[schemas.PartitionOf(o.event.To, 2)]
		if o.event.Provider != want {
			t.Fatalf("%s went to %s, want %s", o.event.To, o.event.Provider, want)
		}
		count[want]++
	}
	if count["one"] < 20 || count["spare"] < 20 {
		t.Error(count)
	}
}

// A message that finds no usable provider waits without a place, and tries
// again; what it may not do meanwhile is outlive its expiry.
func TestNoUsableProviderWaits(t *testing.T) {
	b, is := newRouteBench(t)
	is("one", schemas.BreakerOpen)
	is("spare", schemas.BreakerOpen)
	opened := b.now
	value := routed("code", 1, "")
	o := b.want(b.request("%s", value), "deferred defer no_usable_provider > delay.5s")
	if at := o.event.RetryAt; at < opened+10_000 || at > opened+12_000 || o.send[0].env.DueAt != at || len(o.send[0].env.Place) != 0 || len(o.event.Decision.Charges) != 0 || o.send[0].env.Reason != schemas.ReadmitDue {
		t.Fatalf("%+v %+v", o.event, o.send[0].env)
	}
	// Nobody holds a place, so another message to the recipient waits too.
	again := b.want(b.request("%s", strings.Replace(value, `"x"`, `"y"`, 1)), "deferred defer no_usable_provider > delay.5s")
	if again.event.RetryAt == o.event.RetryAt {
		t.Error("both come back at once")
	}
	b.now = o.event.RetryAt
	is("one", schemas.BreakerClosed)
	b.want(b.back(schemas.ReadmitDue, o.send[0], value, nil), "queued admit +1 > dispatch.one.normal")

	is("one", schemas.BreakerOpen)
	is("spare", schemas.BreakerOpen)
	soon := routed("code", 2, fmt.Sprintf(`,"expires_at":%q`, b.now+4000))
	o = b.want(b.request("%s", soon), "deferred defer no_usable_provider > delay.1s")
	if o.event.RetryAt != b.now+4000 {
		t.Errorf("comes back at %v", o.event.RetryAt)
	}
	b.now += 4000
	b.want(b.back(schemas.ReadmitDue, o.send[0], soon, nil), "expired expire expired")
}

// What comes back from a lane keeps its place while it waits for a provider,
// and comes back for the same reason.
func TestGivenBackWaitsWithItsPlace(t *testing.T) {
	for _, reason := range []string{schemas.ReadmitReroute, schemas.ReadmitStale, schemas.ReadmitRetry} {
		b, is := newRouteBench(t)
		value := routed("code", 1, "")
		first := b.want(b.request("%s", value), "queued admit +1 > dispatch.one.normal")
		is("one", schemas.BreakerOpen)
		is("spare", schemas.BreakerOpen)
		retry := func(e *schemas.Envelope) {
			if reason == schemas.ReadmitRetry {
				e.Attempt = 1
			}
		}
		o := b.want(b.back(reason, first.send[0], value, retry), "deferred defer no_usable_provider > delay.5s")
		if got := o.send[0].env; got.Reason != reason || len(got.Place) != 1 || got.Place[0] != first.send[0].env.Place[0] {
			t.Fatalf("%s: %+v", reason, got)
		}
		if r := b.request("%s", routed("code", 1, `,"provider":"two"`)); r.event.Status != schemas.StatusLimited {
			t.Fatalf("%s: its place does not stand: %s", reason, brief(r))
		}
		b.now = o.event.RetryAt
		is("one", schemas.BreakerOpen) // its probes failed
		is("spare", schemas.BreakerClosed)
		queue := "normal"
		if reason != schemas.ReadmitReroute {
			queue = "again"
		}
		b.want(b.back(reason, o.send[0], value, nil), "queued move +1 -1 > dispatch.spare."+queue)
	}
}

// TestARetryPrefersAnotherProvider: with a breaker that opens at five failures, all four
// attempts of a message went to the provider that fails, next to one that is well. Now
// the second goes to the other, whatever the message's id says, and the third back if
// that fails too; after an unknown outcome, all go to the one that may have it.
func TestARetryPrefersAnotherProvider(t *testing.T) {
	b, is := newRouteBench(t)
	other := map[string]string{"one": "two", "two": "one"}
	for i := range 20 {
		value := routed("apart", i, "")
		first := b.request("%s", value)
		at := first.event.Provider
		tried := func(how schemas.RetryCause) func(*schemas.Envelope) {
			return func(e *schemas.Envelope) {
				e.Attempt++
				e.Tried = schemas.Try(e.Tried, e.Provider, how)
			}
		}
		second := b.back(schemas.ReadmitRetry, first.send[0], value, tried(schemas.RetryTransient))
		if second.event.Provider != other[at] {
			t.Fatalf("the retry went to %s again", second.event.Provider)
		}
		third := b.back(schemas.ReadmitRetry, second.send[0], value, tried(schemas.RetryThrottled))
		if third.event.Provider != at {
			t.Fatalf("the third attempt went to %s again", third.event.Provider)
		}
		fourth := b.back(schemas.ReadmitRetry, third.send[0], value, tried(schemas.RetryUnknown))
		if fourth.event.Provider != at {
			t.Fatalf("a call of unknown outcome was repeated at %s", fourth.event.Provider)
		}
		fifth := b.back(schemas.ReadmitRetry, fourth.send[0], value, tried(schemas.RetryTransient))
		if fifth.event.Provider != at {
			t.Fatalf("after one of unknown outcome it went to %s", fifth.event.Provider)
		}
	}
	// One that is not well is not preferred.
	is("two", schemas.BreakerOpen)
	value := routed("apart", 100, "")
	first := b.request("%s", value)
	o := b.back(schemas.ReadmitRetry, first.send[0], value, func(e *schemas.Envelope) {
		e.Attempt, e.Tried = 1, []schemas.Tried{{Provider: "one", Outcome: schemas.RetryTransient}}
	})
	if o.event.Provider != "one" {
		t.Errorf("it went to %s, whose breaker is open", o.event.Provider)
	}
}

// TestSilentProvider: one that throttles everyone gets nothing while another may send
// it. Where there is no other, a message waits for a short silence in its lane, and for
// a longer one it is deferred to its end.
func TestSilentProvider(t *testing.T) {
	b, _ := newRouteBench(t)
	health := route.Health{}
	b.p.env.routing = newRouting(func() route.Health { return health })
	silent := func(name string, d time.Duration) {
		lanes := []schemas.Health{}
		for lane := range int32(2) {
			lanes = route.Take(lanes, schemas.Health{Provider: name, Lane: lane, Breaker: schemas.BreakerClosed, SilentUntil: b.now.Add(d), At: b.now}, b.now)
		}
		health[name] = route.Step(health[name], lanes, b.now)
	}
	silent("one", time.Second)
	b.want(b.request("%s", routed("code", 1, "")), "queued admit +1 > dispatch.spare.normal")
	b.want(b.request("%s", routed("code", 2, `,"provider":"one"`)), "queued admit +1 > dispatch.one.normal")
	b.want(b.request("%s", routed("plain", 3, "")), "queued admit > dispatch.one.normal") // within its slack
	silent("one", 30*time.Second)
	b.want(b.request("%s", routed("code", 4, "")), "queued admit +1 > dispatch.spare.normal")
	o := b.want(b.request("%s", routed("plain", 5, "")), "deferred defer no_usable_provider > delay.30s")
	if at := o.event.RetryAt; at < b.now+30_000 || at > b.now+32_000 {
		t.Errorf("comes back at %v", at.Sub(b.now))
	}
	b.now += 30_000
	b.want(b.request("%s", routed("code", 6, "")), "queued admit +1 > dispatch.one.normal")
	silent("one", time.Hour) // a lane's clock may be wrong
	b.now += 61_000
	b.want(b.request("%s", routed("code", 7, "")), "queued admit +1 > dispatch.one.normal")
}

// TestAskAgain: however many wait however long, each costs few decisions.
func TestAskAgain(t *testing.T) {
	const t0 = schemas.Millis(1_000_000)
	for _, tt := range []struct {
		name               string
		waited             time.Duration
		probeAt            schemas.Millis
		earliest, notAfter time.Duration
	}{
		{"at first", 0, 0, time.Second, 2 * time.Second},
		{"until the probe", 0, t0 + 7000, 7 * time.Second, 8 * time.Second},
		{"after 40 s", 40 * time.Second, 0, time.Second, 11 * time.Second},
		{"after a day", 24 * time.Hour, 0, time.Second, 31 * time.Second},
		{"a clock that stepped", -time.Hour, 0, time.Second, 2 * time.Second},
	} {
		least, most := time.Hour, time.Duration(0)
		for i := range uint64(1000) {
			at := askAgain(t0, tt.probeAt, t0.Add(-tt.waited), pick(fmt.Sprintf("0b6f0e7e-0000-4000-8000-%012d", i)))
			least, most = min(least, at.Sub(t0)), max(most, at.Sub(t0))
		}
		if spread := tt.notAfter - tt.earliest; least < tt.earliest || most >= tt.notAfter || most-least < spread*9/10 {
			t.Errorf("%s: from %v to %v", tt.name, least, most)
		}
	}
}
