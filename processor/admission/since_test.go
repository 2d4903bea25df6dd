package admission

import (
	"testing"

	"github.com/weirhq/weir/schemas"
)

// TestAWindowThatComesBack: a limit whose window is changed and changed back has
// counted all along. A day later what the other window counted is let go.
func TestAWindowThatComesBack(t *testing.T) {
	b := newBench(t)
	revision := int64(1)
	allow := func(window string) {
		revision++
		b.apply(revision, limitsPolicy("  - {name: daily, per: [recipient], allow: ["+window+"], timezone: Asia/Shanghai}"))
	}
	const passes, refused = "queued admit +1 > dispatch.one.normal", "limited refuse limited"
	day := b.now
	for i, step := range []struct {
		at     schemas.Millis // after nine in the morning UTC, minutes
		window string
		want   []string
	}{
		{0, "2/calendar-day", []string{passes, passes, refused}},
		{1, "1/24h", []string{refused}},
		{2, "2/calendar-day", []string{refused}},
		{3, "5/1h", []string{passes, passes, passes, refused}}, // two from before
		{120, "5/24h", []string{refused}},
		{121, "9/calendar-day", []string{passes, passes, passes, passes, refused}},
		{25 * 60, "9/24h", []string{passes, passes, passes, passes, passes, refused}}, // four of yesterday
	} {
		b.now = day + step.at*60_000
		allow(step.window)
		for k, want := range step.want {
			t.Logf("%d: %s, request %d", i, step.window, k)
			b.want(b.request(code), want)
		}
	}
	if b.p.base.rules.Lapses() == 0 {
		t.Fatal("nothing is retained")
	}
	b.now += 24 * 3_600_000
	b.want(b.request(code), passes)
	if at := b.p.base.rules.Lapses(); at != 0 {
		t.Errorf("it still retains what was dropped a day ago, until %s", at)
	}
}
