package lane

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/schemas"
)

// give lets a lane that is looked at every so often, by cycle, take all the
// permits it may until end, and returns their times and when each was given.
func give(windows []schemas.Window, cycle func() time.Duration, end schemas.Millis) (times, given []schemas.Millis) {
	var p pace
	var e even
	var took slowest
	t := schemas.Millis(1_000_000)
	end += t
	for t < end {
		e.follow(windows, p.newest())
		for {
			at := e.at(p.next(windows, t))
			if at > t.Add(took.ahead()) {
				break
			}
			p.add(at)
			e.add(at)
			times, given = append(times, at), append(given, t)
		}
		p.trim(longest(windows), t)
		c := cycle()
		took.add(c)
		t = t.Add(c)
	}
	return times, given
}

// TestSmooth: permits are spaced evenly to the millisecond, no window holds more
// than its n, and at least 98 % of the pace is used although commits take
// longer than the spacing.
func TestSmooth(t *testing.T) {
	const span = 20 * time.Second
	for _, tt := range []struct {
		name    string
		windows []schemas.Window
		n       int64 // what the tightest allows in d
		d       time.Duration
		commit  int // ms, at most
	}{
		{"5 a second", []schemas.Window{{N: 5, Length: time.Second}}, 5, time.Second, 30},
		{"a third of a millisecond over", []schemas.Window{{N: 300, Length: time.Second}}, 300, time.Second, 30},
		{"7 a second", []schemas.Window{{N: 7, Length: time.Second}}, 7, time.Second, 30},
		{"999 a second", []schemas.Window{{N: 999, Length: time.Second}}, 999, time.Second, 30},
		{"faster than a millisecond", []schemas.Window{{N: 3000, Length: time.Second}}, 3000, time.Second, 30},
		{"a slow cluster", []schemas.Window{{N: 150, Length: time.Second}}, 150, time.Second, 110},
		{"two windows", []schemas.Window{{N: 50, Length: time.Second}, {N: 100, Length: 3 * time.Second}}, 100, 3 * time.Second, 30},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			times, given := give(tt.windows, func() time.Duration { return time.Duration(1+rng.IntN(tt.commit)) * time.Millisecond }, schemas.Millis(span.Milliseconds()))
			for i, at := range times {
				if at > given[i].Add(aheadMost) || at < given[i] {
					t.Fatalf("permit at %d was given at %d", at, given[i])
				}
				if i == 0 {
					continue
				}
				// Whole milliseconds of an exact schedule: less than one off.
				if gap, want := float64(at-times[i-1]), tt.d.Seconds()*1000/float64(tt.n); gap <= want-1 {
					t.Fatalf("%v ms after the last, the spacing is %v", gap, want)
				}
			}
			for _, w := range tt.windows {
				for i := int(w.N); i < len(times); i++ {
					if times[i].Sub(times[i-int(w.N)]) < w.Length {
						t.Fatalf("more than %d in %v", w.N, w.Length)
					}
				}
			}
			if used := float64(len(times)) / (float64(tt.n) * span.Seconds() / tt.d.Seconds()); used < 0.98 || used > 1.01 {
				t.Errorf("%.1f %% of the pace used", used*100)
			}
		})
	}
}

// TestSmoothMakesUpForNothing: after a lull, and under other windows, permits
// are as far apart as ever.
func TestSmoothMakesUpForNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func() []schemas.Window {
			return []schemas.Window{{N: rapid.Int64Range(1, 40).Draw(t, "n"), Length: time.Duration(rapid.IntRange(1, 1000).Draw(t, "ms")) * time.Millisecond}}
		}
		w := draw()
		var e even
		now, last := schemas.Millis(1000), schemas.Millis(0)
		for range 60 {
			now += schemas.Millis(rapid.IntRange(0, 300).Draw(t, "later"))
			if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
				w = draw()
			}
			e.follow(w, last)
			at := e.at(max(now, last))
			if spacing := w[0].Length.Milliseconds() / w[0].N; last > 0 && int64(at-last) < spacing {
				t.Fatalf("%d after %d under %v", at, last, w)
			}
			e.add(at)
			last = at
			now = max(now, at)
		}
	})
}
