package limit

import (
	"maps"
	"testing"

	"github.com/weirhq/weir/schemas"
)

func TestNextSince(t *testing.T) {
	const before, now = schemas.Millis(1000), schemas.Millis(9000)
	type moments = map[string]schemas.Millis
	for _, test := range []struct {
		name   string
		change func(l *schemas.Limit)
		want   moments
	}{
		{"nothing", func(*schemas.Limit) {}, moments{"60s": before, "1h": before + 1, "calendar-day": before + 2}},
		{"lower and higher n", func(l *schemas.Limit) { l.Allow = windows(t, "9/60s", "1/1h", "1/calendar-day") }, moments{"60s": before, "1h": before + 1, "calendar-day": before + 2}},
		{"a window goes", func(l *schemas.Limit) { l.Allow = windows(t, "1/60s") }, moments{"60s": before}},
		{"a longer window", func(l *schemas.Limit) { l.Allow = windows(t, "1/60s", "1/61m") }, moments{"60s": before, "61m": now}},
		{"a shorter window inherits", func(l *schemas.Limit) { l.Allow = windows(t, "1/30m", "1/10s") }, moments{"30m": before + 1, "10s": before}},
		{"another calendar unit", func(l *schemas.Limit) { l.Allow = windows(t, "1/calendar-hour", "1/calendar-day") }, moments{"calendar-hour": now, "calendar-day": before + 2}},
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
		}, moments{"60s": before, "1h": before + 1, "calendar-day": before + 2, "2h": now, "calendar-month": now}},
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
