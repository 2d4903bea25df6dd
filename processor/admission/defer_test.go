package admission

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/recipient"
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
		due := want
		if i > 0 { // it looks whether it can move up, at the turn of the one before
			due += 2000 - 60_000
		}
		if o.event.Status != schemas.StatusDeferred || o.event.RetryAt != want || o.send[0].env.DueAt != due || o.event.Limit != "slow" || len(o.event.Decision.Evidence) != 1 {
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

// TestNothingWaitsBeyondItsExpiry: whatever a message waits for, it comes back
// when it expires, and ends then.
func TestNothingWaitsBeyondItsExpiry(t *testing.T) {
	for _, c := range []struct{ name, policy, before, want string }{
		{"a limit that defers", `
limits:
  - {name: l, match: {class: c}, per: [recipient], allow: [1/1h], on_refusal: defer}`, "queued admit +1 > dispatch.one.normal", "deferred defer limited > delay.30s"},
		{"quiet hours", `
classes:
  - {name: c, quiet_hours: {from: "08:00", to: "20:00", timezone: UTC, then: defer}}`, "", "deferred defer quiet_hours > delay.30s"},
		{"send_at", "", "", "scheduled defer send_at > delay.30s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.apply(2, c.policy+"\nproviders:\n  - {name: one, type: simulated, channels: [sms]}\n")
			expires := b.now + 90_000
			value := fmt.Sprintf(`{"channel":"sms","to":"+8613800000000","class":"c","body":"x","expires_at":%q`, expires)
			if c.name == "send_at" {
				value += fmt.Sprintf(`,"send_at":%q`, b.now+3_600_000)
			}
			value += "}"
			if c.before != "" {
				b.want(b.request("%s", value), c.before)
			}
			o := b.want(b.request("%s", value), c.want)
			if o.event.RetryAt != expires || o.send[0].env.DueAt != expires {
				t.Errorf("waits until %v, and expires at %v", o.event.RetryAt, expires)
			}
			b.now = expires
			b.want(b.back(schemas.ReadmitDue, o.send[0], value, nil), "expired expire expired")
		})
	}
}

// A bucket gives back one token after another.
func TestDeferralOfABucket(t *testing.T) {
	b := newBench(t)
	b.apply(2, limitsPolicy("  - {name: b, per: [recipient], allow: [bucket 2 refill 1/10s], on_refusal: defer}"))
	for range 2 {
		b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
	}
	for i := range schemas.Millis(4) {
		o := b.want(b.request(code), "deferred defer limited > "+[]string{"delay.5s", "delay.5s", "delay.5s", "delay.30s"}[i])
		want := b.now + (i+1)*10_000
		due := want
		if i > 0 { // it looks whether it can move up, at the turn of the one before
			due += 2000 - 10_000
		}
		if o.event.RetryAt != want || o.send[0].env.DueAt != due {
			t.Errorf("number %d waits until %v, want %v", i, o.event.RetryAt, want)
		}
	}
}

// TestQuietHoursInEveryZone: a number that may be in several zones is quiet
// while any of them is.
func TestQuietHoursInEveryZone(t *testing.T) {
	b := newWaitBench(t)
	const to = "+18005550123" // toll-free: all of North America
	seen := map[bool]bool{}
	for _, at := range []string{"2026-11-21T21:00:00Z", "2026-11-22T00:30:00Z", "2026-11-22T02:31:00Z", "2026-11-22T12:59:00Z", "2026-11-22T19:00:00Z"} {
		at, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		b.now = schemas.MillisOf(at)
		o := b.send("night", to)
		quiet, strictest := o.event.Status == schemas.StatusDeferred, false
		for _, z := range recipient.Zones(to) {
			h := at.In(z).Hour()
			strictest = strictest || h >= 22 || h < 8
		}
		if quiet != strictest {
			t.Errorf("at %s: quiet %v, by the zones %v", at, quiet, strictest)
		}
		t.Logf("at %s quiet %v until %s", at, quiet, o.event.RetryAt)
		seen[quiet] = true
		if !quiet {
			continue
		}
		until := o.event.RetryAt.Time()
		for _, z := range recipient.Zones(to) {
			if h := until.In(z).Hour(); h >= 22 || h < 8 {
				t.Errorf("at %s: until %s, when it is %d o'clock in %s", at, until, h, z)
			}
		}
	}
	if n := len(recipient.Zones(to)); n < 2 || !seen[true] || !seen[false] {
		t.Errorf("%d zones, quiet %v: the test shows nothing", n, seen)
	}
}

// TestWhatChangedMeanwhile: a message that comes back is held to the policy in
// force then: countries, quiet hours and routes as well as limits.
func TestWhatChangedMeanwhile(t *testing.T) {
	value := `{"channel":"sms","to":"+8613800000000","class":"slow","body":"x"}`
	attempt := func(e *schemas.Envelope) { e.Attempt = 1 }
	for _, c := range []struct{ name, old, new, want, unsent string }{
		{"countries", "classes:", "classes:\n  - {name: slow, countries: [US]}", "rejected reject country_not_allowed -1 > dlq", "rejected reject country_not_allowed > dlq"},
		{"quiet hours that reject", "classes:", "classes:\n  - {name: slow, quiet_hours: {from: \"08:00\", to: \"20:00\", timezone: UTC, then: reject}}", "rejected reject quiet_hours -1 > dlq", "rejected reject quiet_hours > dlq"},
		{"quiet hours that defer", "classes:", "classes:\n  - {name: slow, quiet_hours: {from: \"08:00\", to: \"20:00\", timezone: UTC, then: defer}}", "deferred defer quiet_hours > delay.6h", "deferred defer quiet_hours > delay.6h"},
		{"no provider of the channel", "channels: [sms, email]", "channels: [email]", "rejected reject no_route -1 > dlq", "rejected reject no_route > dlq"},
	} {
		for _, reason := range []string{schemas.ReadmitRetry, schemas.ReadmitStale, schemas.ReadmitDue} {
			t.Run(c.name+" "+reason, func(t *testing.T) {
				b := newWaitBench(t)
				first := b.want(b.send("slow", "+8613800000000"), "queued admit +1 > dispatch.one.normal")
				waits := b.want(b.send("slow", "+8613800000000"), "deferred defer limited > delay.30s")
				b.apply(3, strings.Replace(waitPolicy, c.old, c.new, 1))
				b.now += 60_000
				switch reason {
				case schemas.ReadmitDue:
					b.want(b.back(reason, waits.send[0], value, nil), c.unsent)
				case schemas.ReadmitRetry:
					b.want(b.back(reason, first.send[0], value, attempt), c.want)
				default:
					b.want(b.back(reason, first.send[0], value, nil), c.want)
				}
			})
		}
	}
}

// TestTimesHandedOutByAnAbortedTransactionAreNot: the time of what is aborted
// may have been wrong, and nobody waits for what it handed out.
func TestTimesHandedOutByAnAbortedTransactionAreNot(t *testing.T) {
	b := newWaitBench(t)
	const to = "+8613800000000"
	t0 := b.want(b.send("slow", to), "queued admit +1 > dispatch.one.normal").event.Decision.T
	right := b.now
	b.now += 3_600_000
	b.p.begin()
	b.p.advance(b.now)
	for range 3 {
		if _, err := b.p.decide(&input{
			source: schemas.Source{Topic: "weir.requests", Offset: b.offset}, value: fmt.Appendf(nil, `{"channel":"sms","to":%q,"class":"slow","body":"x"}`, to),
			header: func(string) (string, bool) { return "", false }, appended: b.now,
		}); err != nil {
			t.Fatal(err)
		}
	}
	b.p.rollback()
	b.now = right
	if o := b.send("slow", to); o.event.Status != schemas.StatusDeferred || o.event.RetryAt != t0+60_000 {
		t.Errorf("%s until %v, want %v", brief(o), o.event.RetryAt, t0+60_000)
	}
}
