package audit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/quiet"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

const gatesPolicy = `
classes:
  - {name: near, countries: [CN, US]}
  - {name: far, countries: [SG]}
  - {name: night, quiet_hours: {from: "22:00", to: "08:00", timezone: recipient, then: defer}}
  - {name: brief, expires_after: 1h, quiet_hours: {from: "22:00", to: "08:00", timezone: recipient}}
  - {name: curt, quiet_hours: {from: "22:00", to: "08:00", timezone: recipient, then: reject}}
  - {name: noon, quiet_hours: {from: "12:00", to: "13:30", timezone: Asia/Singapore}}
  - {name: utc, quiet_hours: {from: "22:00", to: "08:00"}}
  - {name: both, countries: [SG], quiet_hours: {from: "22:00", to: "08:00", timezone: recipient, then: reject}}
  - {name: default, countries: [CN]}
`

const (
	manhattan = "+12125550123"
	tollFree  = "+18005551234" // anywhere from Newfoundland west to Guam
	mail      = "dora@example.com"
)

// hour is so many hours after the log begins, which is at 08:00 UTC: 16:00 in
// Shanghai, 03:00 in New York.
func hour(h float64) schemas.Millis { return start + schemas.Millis(h*3_600_000) }

// free is a message that is admitted, in a class without limits.
func (s *sheet) free(name, to, class string, t schemas.Millis) *schemas.Event {
	e, in := s.request(name, to, class, t)
	e.Status, e.Provider = schemas.StatusQueued, "sim"
	s.decide(e, schemas.VerdictAdmit, t, in)
	s.dispatched(e)
	return e
}

// stopped is one that ends before its limits, for a reason.
func (s *sheet) stopped(name, to, class, reason string, t schemas.Millis) *schemas.Event {
	e := s.ends(name, to, class, schemas.StatusRejected, schemas.VerdictReject, t)
	e.Reason = reason
	return e
}

func gated(t *testing.T) *sheet {
	s := newSheet(t)
	s.policies[0].Classes = append(s.policies[0].Classes, policyOf(t, gatesPolicy).Classes...)
	return s
}

func TestCountries(t *testing.T) {
	for _, c := range []struct {
		name string
		want Kind
		do   func(s *sheet)
	}{
		{"admitted to its country", "", func(s *sheet) { s.free("g", carol, "near", hour(1)) }},
		{"ended for its country", "", func(s *sheet) { s.stopped("g", carol, "far", reasonCountry, hour(1)) }},
		{"a mail address is in no country", "", func(s *sheet) { s.free("g", mail, "far", hour(1)).Channel = "email" }},
		{"a class that nobody declared", "", func(s *sheet) {
			s.free("g", carol, "other", hour(1))
			s.stopped("h", manhattan, "other", reasonCountry, hour(1))
		}},
		{"admitted to a country that is excluded", KindCountry, func(s *sheet) { s.free("g", carol, "far", hour(1)) }},
		{"admitted in a class that nobody declared", KindCountry, func(s *sheet) { s.free("g", manhattan, "other", hour(1)) }},
		{"a limit asked first", KindCountry, func(s *sheet) { s.waits("g", carol, "far", "no_usable_provider", hour(1), hour(2)) }},
		{"quiet hours asked first", KindCountry, func(s *sheet) { s.stopped("g", carol, "both", reasonQuiet, hour(7)) }},
		{"its country asked first", "", func(s *sheet) { s.stopped("g", carol, "both", reasonCountry, hour(7)) }},
		{"waits for its time before its country is asked", "", func(s *sheet) { s.waits("g", carol, "far", reasonSendAt, hour(1), hour(2)) }},
		{"invalid before its country is asked", "", func(s *sheet) { s.stopped("g", carol, "far", "no_such_template", hour(1)) }},
		{"ended for a country to which it goes", KindCountry, func(s *sheet) { s.stopped("g", carol, "near", reasonCountry, hour(1)) }},
		{"ended for its country where every one is allowed", KindCountry, func(s *sheet) { s.stopped("g", carol, "night", reasonCountry, hour(1)) }},
		{"a mail address ended for its country", KindCountry, func(s *sheet) { s.stopped("g", mail, "far", reasonCountry, hour(1)).Channel = "email" }},
		{"a further attempt to a country that a new revision excludes", KindCountry, func(s *sheet) {
			s.admit("g", carol, "verify", start+8000)
			s.call("g", carol, "verify", schemas.StatusRetrying, 1, start+8100).Reason = "transient"
			s.revise(start+9000, func(c *schemas.Class) { c.Countries = []string{"SG"} })
			s.move("g", carol, "verify", start+10_000)
		}},
		{"an attempt before a new revision excludes it", "", func(s *sheet) {
			s.admit("g", carol, "verify", start+8000)
			s.revise(start+9000, func(c *schemas.Class) { c.Countries = []string{"SG"} })
			s.stopped("h", carol, "verify", reasonCountry, start+10_000)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := gated(t)
			c.do(s)
			s.check(t, c.want)
		})
	}
}

// revise brings a new revision into force, in which the class verify differs.
func (s *sheet) revise(t schemas.Millis, change func(c *schemas.Class)) {
	next := s.policies[len(s.policies)-1]
	next.Classes = append([]schemas.Class(nil), next.Classes...)
	change(&next.Classes[0])
	s.policies = append(s.policies, next)
	s.marker(t, sinceAll(start))
}

func TestQuietHours(t *testing.T) {
	for _, c := range []struct {
		name string
		want Kind
		do   func(s *sheet)
	}{
		{"admitted by day", "", func(s *sheet) { s.free("g", carol, "night", hour(6)-1) }},
		{"admitted at their end", "", func(s *sheet) { s.free("g", carol, "night", hour(16)) }},
		{"waits from their beginning to their end", "", func(s *sheet) { s.waits("g", carol, "night", reasonQuiet, hour(6), hour(16)) }},
		{"waits from their last moment", "", func(s *sheet) { s.waits("g", carol, "night", reasonQuiet, hour(16)-1, hour(16)) }},
		{"several wait for one end", "", func(s *sheet) {
			s.waits("g", carol, "night", reasonQuiet, hour(6), hour(16))
			s.waits("h", alice, "night", reasonQuiet, hour(9)+7, hour(16))
			s.waits("i", manhattan, "night", reasonQuiet, hour(25), hour(29))
			s.waits("j", carol, "night", reasonQuiet, hour(30), hour(40))
		}},
		{"ends in them where the class says so", "", func(s *sheet) { s.stopped("g", carol, "curt", reasonQuiet, hour(7)) }},
		{"in the class's own zone", "", func(s *sheet) { s.waits("g", manhattan, "noon", reasonQuiet, hour(20)+1, hour(21.5)) }},
		{"not in the class's own zone", "", func(s *sheet) { s.free("g", manhattan, "noon", hour(21.5)) }},
		{"in UTC where the class names no zone", "", func(s *sheet) { s.waits("g", carol, "utc", reasonQuiet, hour(14), hour(24)) }},
		{"in UTC where the recipient has no zone", "", func(s *sheet) { s.waits("g", mail, "night", reasonQuiet, hour(14), hour(24)).Channel = "email" }},
		// It is day everywhere from 08:00 in Guam, 22:00 UTC, to 22:00 in Newfoundland, 01:30 UTC.
		{"the strictest of several zones", "", func(s *sheet) { s.waits("g", tollFree, "night", reasonQuiet, hour(2), hour(14)) }},
		{"day in all of several zones", "", func(s *sheet) { s.free("g", tollFree, "night", hour(14)) }},
		{"until the expiry, where that comes first", "", func(s *sheet) { s.waits("g", carol, "brief", reasonQuiet, hour(6), hour(7)-10) }},
		{"until their end, where that comes first", "", func(s *sheet) { s.waits("g", carol, "brief", reasonQuiet, hour(15.5), hour(16)) }},
		{"a further attempt waits", "", func(s *sheet) {
			s.admit("g", carol, "pair", start+8000)
			s.call("g", carol, "pair", schemas.StatusRetrying, 1, start+8100).Reason = "transient"
			s.again("g", "night", hour(16))
		}},
		{"a further attempt waits too short", KindQuiet, func(s *sheet) {
			s.admit("g", carol, "pair", start+8000)
			s.call("g", carol, "pair", schemas.StatusRetrying, 1, start+8100).Reason = "transient"
			s.again("g", "night", hour(15))
		}},
		{"admitted at their beginning", KindQuiet, func(s *sheet) { s.free("g", carol, "night", hour(6)) }},
		{"admitted in their last moment", KindQuiet, func(s *sheet) { s.free("g", carol, "night", hour(16)-1) }},
		{"admitted where it is day in one zone and night in another", KindQuiet, func(s *sheet) { s.free("g", tollFree, "night", hour(2)) }},
		{"admitted by day in another zone", KindQuiet, func(s *sheet) { s.free("g", manhattan, "night", hour(2)) }},
		{"admitted in the quiet hours of the class's zone", KindQuiet, func(s *sheet) { s.free("g", manhattan, "noon", hour(20)) }},
		{"waits for a provider in quiet hours", KindQuiet, func(s *sheet) { s.waits("g", carol, "night", "no_usable_provider", hour(7), hour(8)) }},
		{"waits by day", KindQuiet, func(s *sheet) { s.waits("g", carol, "night", reasonQuiet, hour(6)-1, hour(16)) }},
		{"waits after their end", KindQuiet, func(s *sheet) { s.waits("g", carol, "night", reasonQuiet, hour(16), hour(40)) }},
		{"waits in a class without quiet hours", KindQuiet, func(s *sheet) { s.waits("g", carol, "near", reasonQuiet, hour(7), hour(16)) }},
		{"waits where the class rejects", KindQuiet, func(s *sheet) { s.waits("g", carol, "curt", reasonQuiet, hour(7), hour(16)) }},
		{"ends where the class waits", KindQuiet, func(s *sheet) { s.stopped("g", carol, "night", reasonQuiet, hour(7)) }},
		{"ends by day", KindQuiet, func(s *sheet) { s.stopped("g", carol, "curt", reasonQuiet, hour(5)) }},
		{"waits a minute too short", KindQuiet, func(s *sheet) { s.waits("g", carol, "night", reasonQuiet, hour(6), hour(16)-60_000) }},
		{"waits a millisecond too long", KindQuiet, func(s *sheet) { s.waits("g", carol, "night", reasonQuiet, hour(6), hour(16)+1) }},
		{"waits for the end in one of several zones", KindQuiet, func(s *sheet) { s.waits("g", tollFree, "night", reasonQuiet, hour(2), hour(11)) }},
		{"waits beyond the expiry", KindQuiet, func(s *sheet) { s.waits("g", carol, "brief", reasonQuiet, hour(6), hour(16)) }},
		{"a second waits for another end", KindQuiet, func(s *sheet) {
			s.waits("g", carol, "night", reasonQuiet, hour(6), hour(16))
			s.waits("h", alice, "night", reasonQuiet, hour(9)+7, hour(17))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := gated(t)
			c.do(s)
			s.check(t, c.want)
		})
	}
}

// again lets a message's second attempt wait for the end of quiet hours.
func (s *sheet) again(name, class string, until schemas.Millis) {
	s.policies[0].Classes = append(s.policies[0].Classes, schemas.Class{Name: "pair", QuietHours: &schemas.QuietHours{From: "22:00", To: "08:00", Timezone: "recipient"}})
	e, in := s.back(name, carol, "pair", schemas.ReadmitRetry, hour(7))
	s.readmit[len(s.readmit)-1].env.ExpiresAt = hour(72)
	e.Status, e.Reason, e.Attempt, e.RetryAt = schemas.StatusDeferred, reasonQuiet, 1, until
	s.decide(e, schemas.VerdictDefer, hour(7), in)
}

// What is quiet somewhere all day long is asked again now and then, and where a
// request is gone its expiry is not guessed.
func TestQuietHoursThatCannotBeTold(t *testing.T) {
	for _, c := range []struct {
		name  string
		until schemas.Millis
		want  Outcome
	}{
		{"comes back after hours", hour(30), Proven},
		{"comes back at once", hour(2), Violated},
		{"comes back at its expiry", hour(74) - 10, Proven},
		{"comes back after its expiry", hour(74), Violated},
	} {
		s := gated(t)
		s.policies[0].Classes = append(s.policies[0].Classes, schemas.Class{Name: "never", QuietHours: &schemas.QuietHours{From: "20:00", To: "12:00", Timezone: "recipient"}})
		s.waits("g", tollFree, "never", reasonQuiet, hour(2), c.until)
		if r := s.audit(t); r.Outcome != c.want {
			t.Errorf("%s:\n%s", c.name, show(r))
		}
	}
	s := gated(t)
	s.waits("g", carol, "brief", reasonQuiet, hour(6), hour(7)-10)
	s.requests[len(s.requests)-1].value = "?"
	if r := s.audit(t); r.Outcome != CouldNotTell {
		t.Error(show(r))
	}
}

// The end of quiet hours where clocks change: Berlin lacks 02:00 to 03:00 on
// 29 March 2026, and has it twice on 25 October.
func TestQuietHoursEnd(t *testing.T) {
	for _, c := range []struct{ from, to, zone, at, end string }{
		{"22:00", "02:30", "Europe/Berlin", "2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00"},
		{"22:00", "02:30", "Europe/Berlin", "2026-10-25T01:30:00+02:00", "2026-10-25T02:30:00+02:00"},
		{"22:00", "08:00", "Asia/Kolkata", "2026-11-21T23:30:00.999+05:30", "2026-11-22T08:00:00+05:30"},
		{"12:00", "13:30", "UTC", "2026-11-21T12:00:00Z", "2026-11-21T13:30:00Z"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		all, err := gatesOf(&schemas.Policy{Classes: []schemas.Class{{Name: "c", QuietHours: &schemas.QuietHours{From: c.from, To: c.to, Timezone: c.zone}}}})
		if err != nil {
			t.Fatal(err)
		}
		moment := func(text string) schemas.Millis {
			v, err := time.Parse(time.RFC3339Nano, text)
			if err != nil {
				t.Fatal(err)
			}
			return schemas.MillisOf(v)
		}
		q := all["c"].quiet
		if !q.holds([]*time.Location{zone}, moment(c.at)) {
			t.Errorf("%s to %s in %s: %s is not quiet", c.from, c.to, c.zone, c.at)
		}
		if end, ever := q.wakes([]*time.Location{zone}, moment(c.at)); !ever || end != moment(c.end) {
			t.Errorf("%s to %s in %s at %s: until %s, want %s", c.from, c.to, c.zone, c.at, end, c.end)
		}
	}
}

// Two ways to the end of quiet hours, which share nothing, come to the same, for
// numbers of one zone and of many, over days on which clocks change too.
func TestQuietHoursTwoWays(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	day := func(text string) schemas.Millis {
		v, err := time.Parse(time.DateOnly, text)
		if err != nil {
			t.Fatal(err)
		}
		return schemas.MillisOf(v)
	}
	days := []schemas.Millis{day("2026-03-07"), day("2026-03-28"), day("2026-10-24"), day("2026-10-31"), day("2026-07-01"), start}
	numbers := []string{carol, manhattan, tollFree, "+61412345678", "+5511987654321", "+4930123456", "+7495123456"}
	told, never := 0, 0
	for range 3000 {
		to := numbers[rng.IntN(len(numbers))]
		hours := schemas.QuietHours{From: fmt.Sprintf("%02d:%02d", rng.IntN(24), rng.IntN(60)), To: fmt.Sprintf("%02d:%02d", rng.IntN(24), rng.IntN(60)), Timezone: "recipient"}
		all, err := gatesOf(&schemas.Policy{Classes: []schemas.Class{{Name: "c", QuietHours: &hours}}})
		if err != nil {
			t.Fatal(err)
		}
		other, err := quiet.Parse(&hours)
		if err != nil {
			t.Fatal(err)
		}
		zones := recipient.Zones(to)
		if len(zones) == 0 {
			zones = []*time.Location{time.UTC}
		}
		at := days[rng.IntN(len(days))] + schemas.Millis(rng.IntN(2*24*3_600_000))
		until, is := other.Until(at.Time(), zones)
		q := all["c"].quiet
		if got := q.holds(zones, at); got != is {
			t.Fatalf("%v to %s at %s: quiet %v, and %v", hours, to, at, got, is)
		}
		if !is {
			continue
		}
		wakes, ever := q.wakes(zones, at)
		switch end := schemas.MillisOf(until); {
		case ever && wakes != end:
			t.Fatalf("%v to %s at %s: until %s, and %s", hours, to, at, wakes, end)
		case ever:
			told++
		case end <= at:
			t.Fatalf("%v to %s at %s: it asks again at %s", hours, to, at, end)
		default:
			never++
		}
	}
	if told < 500 || never < 50 {
		t.Errorf("%d were quiet, %d of them all day long: the test shows little", told, never)
	}
}
