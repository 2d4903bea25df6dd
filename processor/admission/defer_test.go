package admission

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

const waitPolicy = `
limits:
  - {name: slow, match: {class: slow}, per: [recipient], allow: [1/60s], on_refusal: defer}
  - {name: daily, match: {class: daily}, per: [recipient], allow: [2/calendar-day], timezone: Asia/Shanghai, on_refusal: defer}
  - {name: both, match: {class: both}, per: [recipient], allow: [1/60s], on_refusal: defer}
  - {name: hard, match: {class: both}, per: [recipient], allow: [1/30s]}
classes:
  - {name: night, quiet_hours: {from: "22:00", to: "08:00", timezone: recipient, then: defer}}
  - {name: strict, quiet_hours: {from: "22:00", to: "08:00", timezone: Asia/Shanghai, then: reject}}
  - {name: home, countries: [CN, SG]}
providers:
  - {name: one, type: simulated, channels: [sms, email]}
`

func (b *bench) send(class, to string) outcome {
	b.t.Helper()
	channel := `"sms"`
	extra := ""
	if to[0] != '+' {
		channel, extra = `"email"`, `,"subject":"s"`
	}
	return b.request(`{"channel":%s,"to":%q,"class":%q,"body":"x"%s}`, channel, to, class, extra)
}

func newWaitBench(t *testing.T) *bench {
	b := newBench(t)
	b.apply(2, waitPolicy)
	return b
}

func TestDeferral(t *testing.T) {
	b := newWaitBench(t)
	const to = "+8613800000000"
	value := fmt.Sprintf(`{"channel":"sms","to":%q,"class":"slow","body":"x"}`, to)
	t0 := b.want(b.send("slow", to), "queued admit +1 > dispatch.one.normal").event.Decision.T
	var waiting []outcome
	for i := range 3 {
		o := b.send("slow", to)
		want := t0 + schemas.Millis(60_000*(i+1))
		if o.event.Status != schemas.StatusDeferred || o.event.RetryAt != want || o.send[0].env.DueAt != want || o.event.Limit != "slow" || len(o.event.Decision.Evidence) != 1 {
			t.Fatalf("number %d: %s until %v, want %v: %+v", i, brief(o), o.event.RetryAt, want, o.event)
		}
		if len(o.send[0].env.Place) != 0 {
			t.Fatalf("number %d holds a place while it waits", i)
		}
		waiting = append(waiting, o)
	}
	for _, o := range waiting {
		b.now = o.event.RetryAt
		b.want(b.back(schemas.ReadmitDue, o.send[0], value, nil), "queued admit +1 > dispatch.one.normal")
	}
}

func TestDeferralOverDays(t *testing.T) {
	b := newWaitBench(t)
	const to = "+8613800000000"
	midnight := schemas.MillisOf(time.Date(2026, 11, 22, 0, 0, 0, 0, time.FixedZone("CST", 8*3600)))
	for range 2 {
		b.want(b.send("daily", to), "queued admit +1 > dispatch.one.normal")
	}
	for i, want := range []schemas.Millis{midnight, midnight, midnight + 86_400_000, midnight + 86_400_000, midnight + 2*86_400_000} {
		if o := b.send("daily", to); o.event.Status != schemas.StatusDeferred || o.event.RetryAt != want {
			t.Fatalf("number %d: %s until %v, want %v", i, brief(o), o.event.RetryAt, want)
		}
	}
}

func TestALimitThatRejectsOutweighsOneThatDefers(t *testing.T) {
	b := newWaitBench(t)
	const to = "+8613800000000"
	b.want(b.send("both", to), "queued admit +2 > dispatch.one.normal")
	b.want(b.send("both", to), "limited refuse limited")
	b.now += 30_000 // only the one that defers refuses now
	b.want(b.send("both", to), "deferred defer limited > delay.30s")
}

func TestQuietHours(t *testing.T) {
	shanghai := time.FixedZone("CST", 8*3600)
	b := newWaitBench(t)
	b.now = schemas.MillisOf(time.Date(2026, 11, 21, 23, 0, 0, 0, shanghai))
	until := schemas.MillisOf(time.Date(2026, 11, 22, 8, 0, 0, 0, shanghai))
	o := b.want(b.send("night", "+8613800000000"), "deferred defer quiet_hours > delay.6h")
	if o.event.RetryAt != until {
		t.Errorf("until %v, want %v", o.event.RetryAt, until)
	}
	b.want(b.send("strict", "+8613800000000"), "rejected reject quiet_hours > dlq")
	b.want(b.send("night", "+12125550123"), "queued admit > dispatch.one.normal") // ten in the morning in New York
	b.want(b.send("night", "someone@example.com"), "queued admit > dispatch.one.normal")
	value := `{"channel":"sms","to":"+8613800000000","class":"night","body":"x"}`
	b.now = until - 1
	b.want(b.back(schemas.ReadmitDue, o.send[0], value, nil), "deferred defer quiet_hours > delay.1s")
	b.now = until
	b.want(b.back(schemas.ReadmitDue, o.send[0], value, nil), "queued admit > dispatch.one.normal")
	// A retry waits likewise, with its place.
	b.now = schemas.MillisOf(time.Date(2026, 11, 22, 22, 0, 0, 0, shanghai))
	r := b.want(b.back(schemas.ReadmitRetry, o.send[0], value, func(e *schemas.Envelope) { e.Attempt = 1 }), "deferred defer quiet_hours > delay.6h")
	if r.send[0].env.Reason != schemas.ReadmitRetry {
		t.Errorf("comes back for %q", r.send[0].env.Reason)
	}
}

func TestCountries(t *testing.T) {
	b := newWaitBench(t)
	b.want(b.send("home", "+8613800000000"), "queued admit > dispatch.one.normal")
	b.want(b.send("home", "+6591234567"), "queued admit > dispatch.one.normal")
	b.want(b.send("home", "+12125550123"), "rejected reject country_not_allowed > dlq")
	b.want(b.send("home", "someone@example.com"), "queued admit > dispatch.one.normal")
}
