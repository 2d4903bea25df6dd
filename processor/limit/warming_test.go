package limit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

func TestNewWindows(t *testing.T) {
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
		{"a longer window begins", policy(limit("1/60s")), policy(limit("1/60s", "5/24h")), []string{"a 5/24h 2026-11-22T09:41:00Z"}},
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
		for _, w := range NewWindows(c.prev, c.next, schemas.MillisOf(now)) {
			got = append(got, fmt.Sprintf("%s %s %s", w.Limit, w.Window, w.Complete.Time().UTC().Format(time.RFC3339)))
			if w.Since != schemas.MillisOf(now) {
				t.Errorf("%s: since %v", c.name, w.Since)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
