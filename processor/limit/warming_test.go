package limit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

func TestWarming(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 41, 0, 0, time.UTC)
	limit := func(allow ...string) schemas.Limit { return perRecipient(t, "a", allow...) }
	policy := func(l ...schemas.Limit) *schemas.Policy { return &schemas.Policy{Limits: l} }
	changed := func(l schemas.Limit, change func(l *schemas.Limit)) schemas.Limit { change(&l); return l }
	for _, c := range []struct {
		name       string
		prev, next *schemas.Policy
		want       []string
	}{
		{"nothing changes", policy(limit("1/60s", "5/1h")), policy(limit("1/60s", "5/1h")), nil},
		{"another n keeps its history", policy(limit("1/60s")), policy(limit("9/60s")), nil},
		{"a shorter window inherits", policy(limit("1/24h")), policy(limit("1/24h", "1/1h")), nil},
		{"a longer window begins", policy(limit("1/60s")), policy(limit("1/60s", "5/24h")), []string{"a 5/24h 2026-11-22T09:40:00Z"}},
		{"the first policy", policy(), policy(limit("1/60s", "3/calendar-day")), []string{"a 1/60s 2026-11-21T09:42:00Z", "a 3/calendar-day 2026-11-22T00:00:00Z"}},
		{"a day in its zone", policy(limit("3/calendar-day")), policy(changed(limit("3/calendar-day"), func(l *schemas.Limit) { l.Timezone = "Asia/Shanghai" })),
			[]string{"a 3/calendar-day 2026-11-21T16:00:00Z"}},
		{"another match", policy(limit("1/60s")), policy(changed(limit("1/60s"), func(l *schemas.Limit) { l.Match.Class = []string{"x"} })), []string{"a 1/60s 2026-11-21T09:42:00Z"}},
		{"off and on", policy(changed(limit("1/60s"), func(l *schemas.Limit) { l.Mode = schemas.ModeOff })), policy(limit("1/60s")), []string{"a 1/60s 2026-11-21T09:42:00Z"}},
		{"turned off", policy(limit("1/60s")), policy(changed(limit("1/2h"), func(l *schemas.Limit) { l.Mode = schemas.ModeOff })), nil},
		{"an override of the same window is told once", policy(), policy(changed(limit("1/60s"), func(l *schemas.Limit) {
			l.Overrides = []schemas.Override{{To: "+1", Allow: windows(t, "7/60s", "7/2h")}}
		})), []string{"a 1/60s 2026-11-21T09:42:00Z", "a 7/2h 2026-11-21T11:41:00Z"}},
		{"a bucket until it is full", policy(), policy(limit("bucket 10 refill 0.5/s")), []string{"a bucket 10 refill 0.5/s 2026-11-21T09:41:20Z"}},
	} {
		var got []string
		var course Course
		course.Take(c.prev, schemas.MillisOf(now.AddDate(0, -2, 0)))
		for _, w := range course.Warming(c.next, schemas.MillisOf(now)) {
			got = append(got, fmt.Sprintf("%s %s %s", w.Limit, w.Window, w.Complete.Time().UTC().Format(time.RFC3339)))
			if w.Since != schemas.MillisOf(now) && c.name != "a longer window begins" {
				t.Errorf("%s: since %v", c.name, w.Since)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestLost(t *testing.T) {
	day := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	limit := func(allow ...string) schemas.Limit { return perRecipient(t, "a", allow...) }
	policy := func(l ...schemas.Limit) *schemas.Policy { return &schemas.Policy{Limits: l} }
	changed := func(l schemas.Limit, change func(l *schemas.Limit)) schemas.Limit { change(&l); return l }
	off := func(l *schemas.Limit) { l.Mode = schemas.ModeOff }
	match := func(l *schemas.Limit) { l.Match.Class = []string{"x"} }
	two := func(l *schemas.Limit) { l.Allow = windows(t, "2/calendar-day") }
	observe := func(l *schemas.Limit) { match(l); l.Mode = schemas.ModeObserve }
	zone := func(l *schemas.Limit) { l.Timezone = "Asia/Shanghai" }
	for _, c := range []struct {
		name string
		// Each an hour after the one before, the last at 12:00; the first has been
		// in force for a month.
		revisions []*schemas.Policy
		want      []string
	}{
		{"the first policy", []*schemas.Policy{policy(limit("5/1h"))}, nil},
		{"another n", []*schemas.Policy{policy(limit("5/1h")), policy(limit("1/1h"))}, nil},
		{"a window beside", []*schemas.Policy{policy(limit("5/1h")), policy(limit("5/1h", "9/calendar-day", "bucket 5 refill 1/m"))}, nil},
		{"a longer window", []*schemas.Policy{policy(limit("5/1h")), policy(limit("5/24h"))}, nil},
		{"a shorter window", []*schemas.Policy{policy(limit("5/24h")), policy(limit("5/1h"))}, nil},
		{"and back", []*schemas.Policy{policy(limit("5/7d")), policy(limit("5/1h")), policy(limit("5/7d"))}, nil},
		{"a day by its hours", []*schemas.Policy{policy(limit("2/calendar-day")), policy(limit("1/24h")), policy(limit("2/calendar-day"))}, nil},
		{"hours by the day", []*schemas.Policy{policy(limit("1/24h")), policy(limit("2/calendar-day"))}, []string{"a 2/calendar-day 2026-11-20T23:59:59Z 2026-11-21T12:00:00Z"}},
		{"accepted once", []*schemas.Policy{policy(limit("1/24h")), policy(limit("2/calendar-day")), policy(limit("3/calendar-day"))}, nil},
		{"only counted", []*schemas.Policy{policy(limit("200/calendar-day")), policy(limit("100/24h"))}, []string{"a 100/24h 2026-11-20T23:59:59Z 2026-11-21T12:00:00Z"}},
		{"a bucket instead", []*schemas.Policy{policy(limit("5/1h")), policy(limit("bucket 5 refill 1/10m"))}, []string{"a bucket 5 refill 0.1/m 2026-11-21T11:10:00Z 2026-11-21T12:00:00Z"}},
		{"match", []*schemas.Policy{policy(limit("5/1h")), policy(changed(limit("5/1h"), match))}, []string{"a 5/1h 2026-11-21T11:00:00Z 2026-11-21T12:00:00Z"}},
		{"match of what only observes", []*schemas.Policy{policy(limit("5/1h")), policy(changed(limit("5/1h"), observe))}, nil},
		{"zone", []*schemas.Policy{policy(limit("2/calendar-day")), policy(changed(limit("2/calendar-day"), zone))}, []string{"a 2/calendar-day 2026-11-20T23:59:59Z 2026-11-21T12:00:00Z"}},
		{"turned off", []*schemas.Policy{policy(limit("5/1h")), policy(changed(limit("5/1h"), off))}, nil},
		{"turned off and on", []*schemas.Policy{policy(limit("5/3h")), policy(changed(limit("5/3h"), off)), policy(limit("5/3h"))}, []string{"a 5/3h 2026-11-21T09:00:00Z 2026-11-21T11:00:00Z"}},
		{"removed and added after its window", []*schemas.Policy{policy(limit("5/1h")), policy(), policy(limit("5/1h"))}, nil},
		{"removed and added", []*schemas.Policy{policy(changed(limit("5/1h"), two)), policy(), policy(changed(limit("5/1h"), two))}, []string{"a 2/calendar-day 2026-11-20T23:59:59Z 2026-11-21T11:00:00Z"}},
	} {
		var course Course
		var got []string
		for i, p := range c.revisions {
			at := schemas.MillisOf(day.Add(time.Duration(13-len(c.revisions)+i) * time.Hour))
			if i == 0 && len(c.revisions) > 1 {
				at = schemas.MillisOf(day.AddDate(0, -1, 0))
			}
			if i == len(c.revisions)-1 {
				for _, l := range course.Lost(p, at) {
					got = append(got, fmt.Sprintf("%s %s %s %s", l.Limit, l.Window, l.From.Time().UTC().Format(time.RFC3339), l.Until.Time().UTC().Format(time.RFC3339)))
				}
			}
			course.Take(p, at)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
