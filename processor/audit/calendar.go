package audit

import (
	"time"

	"github.com/weirhq/weir/schemas"
)

// span is a calendar period [start, end).
type span struct{ start, end schemas.Millis }

// spanOf returns the period that holds t. It asks the zone what its clocks
// show, minute by minute, and never for the instant of a local time: that
// question has no answer where midnight is missing.
func spanOf(unit string, zone *time.Location, t schemas.Millis) span {
	switch unit {
	case "minute":
		from := t - t%60_000
		return span{from, from + 60_000}
	case "hour":
		from := t - t%60_000
		for !hourBegins(zone, from) {
			from -= 60_000
		}
		to := from + 60_000
		for !hourBegins(zone, to) {
			to += 60_000
		}
		return span{from, to}
	}
	y, m, d := at(zone, t).Date()
	if unit == "month" {
		d = 1
	}
	s := span{start: firstOf(zone, y, m, d)}
	for {
		if unit == "month" {
			m++
		} else {
			d++
		}
		if s.end = firstOf(zone, y, m, d); s.end > t {
			return s
		}
		s.start = s.end // clocks went back over midnight: the later date has begun
	}
}

func at(zone *time.Location, t schemas.Millis) time.Time { return time.UnixMilli(int64(t)).In(zone) }

// hourBegins reports whether an hour begins at a minute: clocks show a full
// one, or were just moved by a part of one.
func hourBegins(zone *time.Location, t schemas.Millis) bool {
	now := at(zone, t)
	if now.Minute() == 0 {
		return true
	}
	_, offset := now.Zone()
	_, before := at(zone, t-60_000).Zone()
	return (offset-before)%3600 != 0
}

// firstOf returns the first minute at which clocks show the date or a later
// one. d and m may exceed what a month or a year has.
func firstOf(zone *time.Location, y int, m time.Month, d int) schemas.Millis {
	utc := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	y, m, d = utc.Date()
	want := y*10000 + int(m)*100 + d
	for t := schemas.Millis(utc.Add(-16 * time.Hour).UnixMilli()); ; t += 60_000 {
		y, m, d := at(zone, t).Date()
		if y*10000+int(m)*100+d >= want {
			return t
		}
	}
}
