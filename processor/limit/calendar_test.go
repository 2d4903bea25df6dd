package limit

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

func TestPeriods(t *testing.T) {
	for _, test := range []struct{ name, unit, zone, at, start, end string }{
		{"plain day", "day", "Asia/Shanghai", "2026-11-21T15:59:59.999Z", "2026-11-20T16:00:00Z", "2026-11-21T16:00:00Z"},
		{"next day", "day", "Asia/Shanghai", "2026-11-21T16:00:00Z", "2026-11-21T16:00:00Z", "2026-11-22T16:00:00Z"},
		{"plain hour in a zone of half hours", "hour", "Asia/Kolkata", "2026-11-21T12:40:00Z", "2026-11-21T12:30:00Z", "2026-11-21T13:30:00Z"},
		{"minute", "minute", "Asia/Kolkata", "2026-11-21T12:40:59.999Z", "2026-11-21T12:40:00Z", "2026-11-21T12:41:00Z"},
		{"month of 28 days", "month", "UTC", "2026-02-28T23:59:59.999Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"month of 29 days", "month", "UTC", "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"December", "month", "Asia/Shanghai", "2026-12-31T15:59:59.999Z", "2026-11-30T16:00:00Z", "2026-12-31T16:00:00Z"},
		{"a month with a change of clocks", "month", "Europe/Berlin", "2026-03-31T12:00:00Z", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z"},

		{"23 hours", "day", "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
		{"25 hours", "day", "Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},
		{"the missing hour", "hour", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"},
		{"the repeated hour, first", "hour", "Europe/Berlin", "2026-10-25T00:59:59Z", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"},
		{"the repeated hour, second", "hour", "Europe/Berlin", "2026-10-25T01:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"},

		{"midnight is missing", "day", "America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"},
		{"before the missing midnight", "day", "America/Sao_Paulo", "2018-11-04T02:59:59.999Z", "2018-11-03T03:00:00Z", "2018-11-04T03:00:00Z"},
		{"midnight comes again at 23:00", "day", "America/Sao_Paulo", "2018-02-18T02:30:00Z", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z"},
		{"midnight is missing in Santiago", "day", "America/Santiago", "2026-09-06T12:00:00Z", "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"},
		{"midnight is missing in Havana", "day", "America/Havana", "2026-03-08T12:00:00Z", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"},
		{"midnight comes twice in Havana", "day", "America/Havana", "2026-11-01T05:30:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		{"a month begins with a missing midnight", "month", "America/Asuncion", "2023-10-15T12:00:00Z", "2023-10-01T04:00:00Z", "2023-11-01T03:00:00Z"},

		{"half an hour is missing", "hour", "Australia/Lord_Howe", "2026-10-03T15:30:00Z", "2026-10-03T15:30:00Z", "2026-10-03T16:00:00Z"},
		{"half an hour comes twice: before", "hour", "Australia/Lord_Howe", "2026-04-04T14:59:00Z", "2026-04-04T14:00:00Z", "2026-04-04T15:00:00Z"},
		{"half an hour comes twice: again", "hour", "Australia/Lord_Howe", "2026-04-04T15:00:00Z", "2026-04-04T15:00:00Z", "2026-04-04T15:30:00Z"},
		{"a date that was skipped", "day", "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},
		{"before a date that was skipped", "day", "Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},
		{"a day that begins, ends and comes back", "day", "America/St_Johns", "2006-10-29T02:45:00Z", "2006-10-29T02:30:00Z", "2006-10-30T03:30:00Z"},
	} {
		t.Run(test.name, func(t *testing.T) {
			zone, err := time.LoadLocation(test.zone)
			if err != nil {
				t.Fatal(err)
			}
			unit := uint8(0)
			for unitNames[unit] != test.unit {
				unit++
			}
			start, end := period(unit, zone, at(t, test.at))
			if start != at(t, test.start) || end != at(t, test.end) {
				t.Errorf("%s is in [%s, %s), want [%s, %s)", test.at, start, end, test.start, test.end)
			}
		})
	}
}

// Periods tile time: each moment is in one, which is the same for all of it.
func TestPeriodsTile(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"UTC", "Asia/Shanghai", "Europe/Berlin", "America/Sao_Paulo", "America/Santiago", "America/Havana",
		"Australia/Lord_Howe", "Pacific/Apia", "America/St_Johns", "Asia/Kathmandu", "Africa/Casablanca", "Asia/Gaza", "Antarctica/Troll"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for range 3000 {
			now := schemas.Millis(rng.Int64N(70 * 365 * day))
			for unit := range uint8(unitCount) {
				start, end := period(unit, zone, now)
				if start > now || end <= now {
					t.Fatalf("%s: %s is not in its %s [%s, %s)", name, now, unitNames[unit], start, end)
				}
				for _, other := range []schemas.Millis{start, end - 1} {
					if s, e := period(unit, zone, other); s != start || e != end {
						t.Fatalf("%s: %s [%s, %s) but at %s [%s, %s)", name, unitNames[unit], start, end, other, s, e)
					}
				}
				if s, _ := period(unit, zone, end); s != end {
					t.Fatalf("%s: after %s [%s, %s) comes one from %s", name, unitNames[unit], start, end, s)
				}
			}
		}
	}
}
