package limit

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

func TestNextSince(t *testing.T) {
	const before, now = schemas.Millis(1000), schemas.Millis(10*day + 9000)
	type moments = map[string]schemas.Millis
	for _, test := range []struct {
		name   string
		change func(l *schemas.Limit)
		want   moments
	}{
		{"nothing", func(*schemas.Limit) {}, moments{"60s": before, "1h": before + 1, "calendar-day": before + 2}},
		{"lower and higher n", func(l *schemas.Limit) { l.Allow = windows(t, "9/60s", "1/1h", "1/calendar-day") }, moments{"60s": before, "1h": before + 1, "calendar-day": before + 2}},
		{"a window goes", func(l *schemas.Limit) { l.Allow = windows(t, "1/60s") }, moments{"60s": before, "1h": before + 1, "left 1h": now, "calendar-day": before + 2, "left calendar-day": now}},
		{"a longer window", func(l *schemas.Limit) { l.Allow = windows(t, "1/60s", "1/61m") }, moments{"60s": before, "61m": now - 3_600_000, "1h": before + 1, "left 1h": now, "calendar-day": before + 2, "left calendar-day": now}},
		{"a shorter window inherits", func(l *schemas.Limit) { l.Allow = windows(t, "1/30m", "1/10s") }, moments{"30m": before + 1, "10s": before, "1h": before + 1, "left 1h": now, "60s": before, "left 60s": now, "calendar-day": before + 2, "left calendar-day": now}},
		{"another calendar unit", func(l *schemas.Limit) { l.Allow = windows(t, "1/calendar-hour", "1/calendar-day") }, moments{"calendar-hour": now, "calendar-day": before + 2, "1h": before + 1, "left 1h": now, "60s": before, "left 60s": now}},
		{"match in another order", func(l *schemas.Limit) { l.Match.Class = []string{"b", "a", "b"} }, moments{"60s": before, "1h": before + 1, "calendar-day": before + 2}},
		{"match", func(l *schemas.Limit) { l.Match.Class = []string{"a"} }, moments{"60s": now, "1h": now, "calendar-day": now}},
		{"match metadata", func(l *schemas.Limit) { l.Match.Metadata = map[string][]string{"x": {"1"}} }, moments{"60s": now, "1h": now, "calendar-day": now}},
		{"per in another order", func(l *schemas.Limit) { l.Per = []string{"class", "recipient"} }, moments{"60s": before, "1h": before + 1, "calendar-day": before + 2}},
		{"per", func(l *schemas.Limit) { l.Per = []string{"recipient"} }, moments{"60s": now, "1h": now, "calendar-day": now}},
		{"exempt", func(l *schemas.Limit) { l.Exempt = nil }, moments{"60s": now, "1h": now, "calendar-day": now}},
		{"count", func(l *schemas.Limit) { l.Count = schemas.CountAttempt }, moments{"60s": now, "1h": now, "calendar-day": now}},
		{"count spelled out", func(l *schemas.Limit) { l.Count = schemas.CountMessage }, moments{"60s": before, "1h": before + 1, "calendar-day": before + 2}},
		{"zone", func(l *schemas.Limit) { l.Timezone = "Asia/Shanghai" }, moments{"60s": before, "1h": before + 1, "calendar-day": now}},
		{"zone spelled out", func(l *schemas.Limit) { l.Timezone = "UTC" }, moments{"60s": before, "1h": before + 1, "calendar-day": before + 2}},
		{"defer", func(l *schemas.Limit) { l.OnRefusal = schemas.RefusalDefer }, moments{"60s": before, "1h": before + 1, "calendar-day": before + 2}},
		{"an override", func(l *schemas.Limit) {
			l.Overrides = []schemas.Override{{To: "+1", Allow: windows(t, "9/1h", "9/2h", "9/calendar-month")}}
		}, moments{"60s": before, "1h": before + 1, "calendar-day": before + 2, "2h": now - 3_600_000, "calendar-month": now}},
		{"off", func(l *schemas.Limit) { l.Mode = schemas.ModeOff }, nil},
		{"another name", func(l *schemas.Limit) { l.Name = "b" }, nil},
	} {
		limit := func() schemas.Limit {
			l := perRecipient(t, "a", "1/60s", "5/1h", "10/calendar-day")
			l.Per, l.Match.Class, l.Exempt = []string{"recipient", "class"}, []string{"a", "b"}, []string{"+1"}
			return l
		}
		prev, next := limit(), limit()
		test.change(&next)
		since := map[string]moments{"a": {"60s": before, "1h": before + 1, "calendar-day": before + 2}}
		got := NextSince(&schemas.Policy{Limits: []schemas.Limit{prev}}, since, &schemas.Policy{Limits: []schemas.Limit{next}}, now)
		if !maps.Equal(got["a"], test.want) {
			t.Errorf("%s: %v, want %v", test.name, got["a"], test.want)
		}
		if test.name == "another name" && !maps.Equal(got["b"], moments{"60s": now, "1h": now, "calendar-day": now}) {
			t.Errorf("%s: %v", test.name, got)
		}
	}
	// Other mailboxes are another history for limits per mailbox, and for no other.
	for name, per := range map[string]string{"per recipient": "recipient", "per mailbox": "mailbox"} {
		l := perRecipient(t, "a", "1/60s")
		l.Per = []string{per}
		bare, ruled := &schemas.Policy{Limits: []schemas.Limit{l}}, &schemas.Policy{Limits: []schemas.Limit{l}, Mailboxes: gmail}
		since := map[string]moments{"a": {"60s": before}}
		want := now
		if per == "recipient" {
			want = before
		}
		if got := NextSince(bare, since, ruled, now)["a"]["60s"]; got != want {
			t.Errorf("%s, other mailboxes: %d, want %d", name, got, want)
		}
		if got := NextSince(ruled, since, ruled, now)["a"]["60s"]; got != before {
			t.Errorf("%s, the same mailboxes: %d, want %d", name, got, before)
		}
		var c Course
		c.Take(bare, before)
		if lost := c.Lost(ruled, now); (len(lost) == 1) != (per == "mailbox") {
			t.Errorf("%s, other mailboxes: it loses %v", name, lost)
		}
	}
	// From off, and from nothing, all begins now.
	off := perRecipient(t, "a", "1/60s")
	off.Mode = schemas.ModeOff
	on := &schemas.Policy{Limits: []schemas.Limit{perRecipient(t, "a", "1/60s")}}
	for name, prev := range map[string]*schemas.Policy{"off": {Limits: []schemas.Limit{off}}, "empty": {}, "nil": nil} {
		if got := NextSince(prev, map[string]moments{"a": {"60s": before}}, on, now); got["a"]["60s"] != now {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A window that is changed and changed back within a day counts what it counted
// all along, and after a day it begins again.
func TestNextSinceOfAWindowThatComesBack(t *testing.T) {
	const hour = schemas.Millis(3_600_000)
	type moments = map[string]schemas.Millis
	at := schemas.Millis(40*day) + 10*hour
	now := at
	since := map[string]moments(nil)
	var last *schemas.Policy
	for _, step := range []struct {
		name  string
		after schemas.Millis
		allow []string
		want  moments
	}{
		{"the first", 0, []string{"2/calendar-day"}, moments{"calendar-day": at}},
		{"another", hour, []string{"1/24h"}, moments{"24h": at, "calendar-day": at, "left calendar-day": at + hour}},
		{"back", hour, []string{"2/calendar-day"}, moments{"calendar-day": at, "24h": at, "left 24h": at + 2*hour}},
		{"only counted", hour, []string{"200/calendar-day"}, moments{"calendar-day": at, "24h": at, "left 24h": at + 2*hour}},
		{"dropped while only counted", hour, []string{"1/1h"}, moments{"1h": at, "calendar-day": at, "left count calendar-day": at + 4*hour, "24h": at, "left 24h": at + 2*hour}},
		{"kept by name from now on", hour, []string{"2/calendar-day"}, moments{"calendar-day": at, "times calendar-day": at + 5*hour, "24h": at, "left 24h": at + 2*hour, "1h": at, "left 1h": at + 5*hour}},
		{"after a day", 24 * hour, []string{"2/calendar-day", "1/25h"}, moments{"calendar-day": at, "times calendar-day": at + 5*hour, "25h": at + 14*hour - 1}},
	} {
		next := &schemas.Policy{Limits: []schemas.Limit{perRecipient(t, "a", step.allow...)}}
		now += step.after
		since = NextSince(last, since, next, now)
		last = next
		if !maps.Equal(since["a"], step.want) {
			t.Errorf("%s: %v, want %v", step.name, since["a"], step.want)
		}
	}
}

// TestChangesWithinADay changes the windows of a limit at random for a day and
// compares every decision with a count of all that was ever sent: never over,
// never wrongly refused.
func TestChangesWithinADay(t *testing.T) {
	const to = "+8613800000000"
	units := []string{"7d", "24h", "1h", "10m", "calendar-day", "calendar-hour", "calendar-month"}
	changed, refused := 0, 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		now := schemas.MillisOf(time.Date(2026, 11, 20+rng.IntN(10), rng.IntN(24), rng.IntN(60), 0, 0, time.UTC))
		end := now + Retain - 1
		table := NewTable()
		defer table.Close()
		var policy *schemas.Policy
		var rules *Rules
		since := map[string]map[string]schemas.Millis(nil)
		var sent []schemas.Charge
		var steps []string
		revise := func(some []string) {
			var allow []string
			for _, u := range some {
				allow = append(allow, fmt.Sprintf("%d/%s", pick(rng, 2, 3, 5, 8, 150), u))
			}
			next := &schemas.Policy{Limits: []schemas.Limit{perRecipient(t, "a", allow...)}}
			next.Limits[0].Timezone = "Asia/Shanghai"
			since = NextSince(policy, since, next, now)
			var err error
			if rules, err = Compile(next, since); err != nil {
				t.Fatal(err)
			}
			policy = next
			steps = append(steps, fmt.Sprintf("%s: %v since %v", now, allow, since))
			now++
		}
		revise(units)
		for now < end {
			now += schemas.Millis(rng.Int64N(40 * 60_000))
			switch k := rng.IntN(10); {
			case k == 0:
				some := slices.Clone(units)
				rng.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
				revise(some[:1+rng.IntN(3)])
				changed++
			case k == 1 && len(sent) > 0:
				i := rng.IntN(len(sent))
				if returned, missing := table.GiveBack(rules, sent[i:i+1], now); len(returned) != 1 {
					t.Fatalf("seed %d: %v stood, and %v is missing\n%q", seed, sent[i], missing, steps)
				}
				sent = slices.Delete(sent, i, i+1)
			default:
				zone := time.FixedZone("CST", 8*3600)
				full := false
				for _, w := range policy.Limits[0].Allow {
					n := int64(0)
					for _, c := range sent {
						local, then := now.Time().In(zone), c.T.Time().In(zone)
						switch {
						case w.Kind == schemas.WindowRolling && now.Sub(c.T) < w.Length,
							w.Unit == "hour" && local.Format("2006-01-02 15") == then.Format("2006-01-02 15"),
							w.Unit == "day" && local.Format("2006-01-02") == then.Format("2006-01-02"),
							w.Unit == "month" && local.Format("2006-01") == then.Format("2006-01"):
							n++
						}
					}
					full = full || n >= w.N
				}
				res := table.Decide(rules, &Subject{Recipient: to}, nil, now)
				if res.OK == full {
					t.Fatalf("seed %d: at %s it passed: %v, but a window is full: %v, of %v\n%+v\n%q", seed, now, res.OK, full, sent, res, steps)
				}
				if sent = append(sent, res.Charges...); !res.OK {
					refused++
				}
			}
			table.Sweep(rules, now, 1000)
			table.Commit()
		}
	}
	if changed < 100 || refused < 100 {
		t.Errorf("%d changes and %d refusals: the test shows nothing", changed, refused)
	}
}
