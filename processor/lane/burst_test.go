package lane

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

// bursty plays a lane whose every look at its queue is late by what late says,
// and whose transactions take what commit says. It returns the permits' times in
// the order they were given, and when each was. A punctual lane is as this
// package has it; another gives each permit when it looks, and names that time.
func bursty(punctual bool, windows []schemas.Window, concurrency int, late, commit func() time.Duration, span time.Duration) (times, given []schemas.Millis) {
	var p pace
	var took slowest
	spare := unplanned(windows, concurrency)
	t := schemas.Millis(1_000_000)
	due, end := schemas.Millis(0), t.Add(span)
	for t < end {
		from, n := overdue(due, t), 0
		p.trim(longest(windows), t)
		due = 0
		lead := took.ahead()
		if !punctual {
			from, lead = t, 0
		}
		var wake schemas.Millis
		for {
			if n == concurrency { // calls end, and it looks again
				wake = t
				break
			}
			at := p.next(windows, from)
			if wake = p.ask(windows, at, t, lead, spare, concurrency-n); wake != 0 {
				due = at
				break
			}
			p.add(at)
			times, given = append(times, at), append(given, t)
			n++
		}
		c := time.Duration(0)
		if n > 0 {
			c = commit()
			took.add(c)
		}
		t = max(t.Add(c), wake).Add(late())
	}
	return times, given
}

// TestBurstsUseThePace: though a lane wakes late and its transactions take
// longer than the pace leaves between two, it uses at least 98 % of the pace, no
// window ever holds more than its n, and a permit is named at most so much
// before it is given.
func TestBurstsUseThePace(t *testing.T) {
	const span = 100 * time.Second
	w := func(n int64, d time.Duration) schemas.Window { return schemas.Window{N: n, Length: d} }
	for _, tt := range []struct {
		name         string
		concurrency  int
		windows      []schemas.Window
		late, commit int  // ms, at most
		without      bool // it would be less than 98 % without what this tests
	}{
		{"20 a second", 5000, []schemas.Window{w(20, time.Second)}, 100, 60, true},
		{"20 a second, a quiet machine", 5000, []schemas.Window{w(20, time.Second)}, 3, 10, false},
		{"three windows", 5000, []schemas.Window{w(20, time.Second), w(300, 20*time.Second), w(800, time.Minute)}, 60, 60, false},
		{"one each 10 ms", 5000, []schemas.Window{w(1, 10*time.Millisecond)}, 10, 30, true},
		{"1000 a second", 5000, []schemas.Window{w(1000, time.Second)}, 100, 60, true},
		{"one each second", 5000, []schemas.Window{w(1, time.Second)}, 100, 60, true},
		{"500 a second, 64 calls at once", 64, []schemas.Window{w(500, time.Second)}, 60, 15, true},
		{"a slow cluster", 5000, []schemas.Window{w(50, time.Second)}, 100, 110, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 4))
			upTo := func(ms int) func() time.Duration {
				return func() time.Duration { return time.Duration(rng.IntN(ms+1)) * time.Millisecond }
			}
			used := func(times []schemas.Millis) float64 {
				could := 0
				var ideal pace
				for at := times[0]; at <= times[len(times)-1]; could++ {
					ideal.add(at)
					at = ideal.next(tt.windows, at)
				}
				return 100 * float64(len(times)) / float64(could)
			}
			times, _ := bursty(false, tt.windows, tt.concurrency, upTo(tt.late), upTo(tt.commit), span)
			before := used(times)
			if tt.without != (before < 98) {
				t.Errorf("%.1f %% of the pace is used by a lane that asks when the moment has come", before)
			}
			times, given := bursty(true, tt.windows, tt.concurrency, upTo(tt.late), upTo(tt.commit), span)
			for i, at := range times {
				if i > 0 && at < times[i-1] {
					t.Fatalf("%d after %d", at, times[i-1])
				}
				if given[i].Add(-overdueMost) > at || at > given[i].Add(aheadMost) {
					t.Fatalf("a permit of %d was given at %d", at, given[i])
				}
			}
			for _, w := range tt.windows {
				for i := int(w.N); i < len(times); i++ {
					if times[i].Sub(times[i-int(w.N)]) < w.Length {
						t.Fatalf("more than %d in %v", w.N, w.Length)
					}
				}
			}
			if got := used(times); got < 98 || got > 100 {
				t.Errorf("%.1f %% of the pace used", got)
			} else {
				t.Logf("%.1f %% of the pace used, %.1f %% by a lane that asks when the moment has come", got, before)
			}
		})
	}
}

// TestBurstsLeaveRoom: until the moment of a burst has come, a tenth of it is
// not given away: an urgent message that comes meanwhile is in it.
func TestBurstsLeaveRoom(t *testing.T) {
	for _, n := range []int64{1, 2, 7, 20, 64, 1000} {
		windows := []schemas.Window{{N: n, Length: time.Second}}
		spare := unplanned(windows, 5000)
		times, given := bursty(true, windows, 5000, func() time.Duration { return 5 * time.Millisecond }, func() time.Duration { return 20 * time.Millisecond }, 20*time.Second)
		planned, all := map[schemas.Millis]int{}, map[schemas.Millis]int{}
		for i, at := range times {
			all[at]++
			if given[i] < at {
				planned[at]++
			}
		}
		if want := max(1, int(n)/10); spare != want {
			t.Errorf("%d of a burst of %d are not planned, want %d", spare, n, want)
		}
		for at, p := range planned {
			if all[at] == int(n) && p > int(n)-spare {
				t.Errorf("%d of a burst of %d were given before its moment", p, n)
			}
		}
		if n > 1 && len(planned) < 15 {
			t.Errorf("bursts of %d: only %d were planned", n, len(planned))
		}
	}
	windows := []schemas.Window{{N: 20, Length: time.Second}}
	var p pace
	if got := unplanned(windows, 5); got != 1 {
		t.Errorf("with 5 calls at once %d wait for the moment", got)
	}
	if p.ask(windows, 100, 60, aheadLeast, 1, 1) != 100 || p.ask(windows, 100, 60, aheadLeast, 1, 2) != 0 {
		t.Error("the last free call was given away before the moment")
	}
}

// TestOverdue: only a lane that had to wait is late, and no later than a little.
func TestOverdue(t *testing.T) {
	for _, tt := range []struct{ due, t, want schemas.Millis }{
		{0, 1000, 1000}, {1000, 1000, 1000}, {1200, 1000, 1000}, {990, 1000, 990}, {950, 1000, 950}, {100, 1000, 950},
	} {
		if got := overdue(tt.due, tt.t); got != tt.want {
			t.Errorf("due at %d, asked at %d: from %d, want %d", tt.due, tt.t, got, tt.want)
		}
	}
}
