package limit

import (
	"time"

	"github.com/weirhq/weir/schemas"
)

// Units of calendar windows, in the order in which a slot keeps their counters.
const (
	unitMinute = iota
	unitHour
	unitDay
	unitMonth
	unitCount
)

var unitNames = [unitCount]string{"minute", "hour", "day", "month"}

// period returns the calendar period [start, end) that holds t.
//
// A day or month starts at the first instant at which the local date is that
// day, or later: 01:00 where midnight is missing, the first midnight where it
// comes twice, and a date that a zone skips has no period. An hour or minute
// starts where the local clock shows a full one, so an hour that the clock
// repeats is two periods of an hour each; a transition starts a period of its
// own only where it moves the clock by a part of the unit (Lord Howe, half an
// hour).
func period(unit uint8, zone *time.Location, t schemas.Millis) (start, end schemas.Millis) {
	switch unit {
	case unitMinute:
		return clockPeriod(int64(time.Minute/time.Millisecond), zone, int64(t))
	case unitHour:
		return clockPeriod(int64(time.Hour/time.Millisecond), zone, int64(t))
	}
	y, m, d := time.UnixMilli(int64(t)).In(zone).Date()
	next := func() {
		if unit == unitMonth {
			m++ // time.Date normalises month 13 and day 32
		} else {
			d++
		}
	}
	if unit == unitMonth {
		d = 1
	}
	start = firstInstant(y, m, d, zone)
	for {
		next()
		end = firstInstant(y, m, d, zone)
		if end > t {
			return start, end
		}
		start = end
	}
}

// firstInstant returns when the local clock first shows the date y-m-d or a
// later one. It walks the zone's transitions, since time.Date resolves a
// midnight that does not exist to 23:00 of the day before.
func firstInstant(y int, m time.Month, d int, zone *time.Location) schemas.Millis {
	midnight := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	// No offset ever exceeded 16 h, so here the local date is still an earlier one.
	at := midnight.Add(-30 * time.Hour).In(zone)
	for {
		_, offset := at.Zone()
		_, end := at.ZoneBounds()
		shows := midnight.Add(-time.Duration(offset) * time.Second)
		switch {
		case shows.Before(at): // the transition jumped over midnight
			return ceilMillis(at)
		case end.IsZero() || shows.Before(end):
			return ceilMillis(shows)
		}
		at = end
	}
}

// ceilMillis is exact for every zone: offsets and transitions are whole seconds.
func ceilMillis(t time.Time) schemas.Millis { return schemas.Millis(t.UnixMilli()) }

func clockPeriod(length int64, zone *time.Location, t int64) (start, end schemas.Millis) {
	at := time.UnixMilli(t).In(zone)
	phase := func(at time.Time) int64 {
		_, offset := at.Zone()
		return floorMod(int64(offset)*1000, length)
	}
	mine := phase(at)
	first := t - floorMod(t+mine, length)
	last := first + length
	from, to := at.ZoneBounds()
	if !from.IsZero() && from.UnixMilli() > first && phase(from.Add(-time.Millisecond)) != mine {
		first = from.UnixMilli()
	}
	if !to.IsZero() && to.UnixMilli() < last && phase(to) != mine {
		last = to.UnixMilli()
	}
	return schemas.Millis(first), schemas.Millis(last)
}

func floorMod(a, n int64) int64 { return ((a % n) + n) % n }
