package lane

import (
	"slices"
	"time"

	"github.com/weirhq/weir/schemas"
)

// How long before its time a permit of a pace may be given: its call waits
// until then. A lane wakes late, and the spacing of a smooth pace is shorter than
// a transaction on a fast lane, so without it pace would be spent waiting. It
// is twice what a transaction took lately, within these bounds, and with a
// smooth pace it is also how long an urgent message waits behind what is planned.
const (
	aheadLeast = 50 * time.Millisecond
	aheadMost  = 250 * time.Millisecond
)

// slowest remembers what transactions took lately: the longest, which fades.
type slowest time.Duration

func (w *slowest) add(took time.Duration) { *w = max(slowest(took), *w-*w/16) }

func (w slowest) ahead() time.Duration {
	return min(max(2*time.Duration(w), aheadLeast), aheadMost)
}

// even spaces permits evenly: per window, n in d means one every d/n. The times
// are whole milliseconds of an exact schedule, so spacing that is no whole
// number neither drifts nor bunches: 3/10ms is 0, 4, 7, 10, 14 ….
type even struct {
	windows []schemas.Window
	next    []instant // by window: when its next permit may be
}

// instant is ms + num/n milliseconds, n being the window's.
type instant struct {
	ms  schemas.Millis
	num int64
}

func (i instant) ceil() schemas.Millis {
	if i.num > 0 {
		return i.ms + 1
	}
	return i.ms
}

// after returns the instant one share of w later.
func (i instant) after(w schemas.Window) instant {
	d := w.Length.Milliseconds()
	i.ms += schemas.Millis(d / w.N)
	if i.num += d % w.N; i.num >= w.N {
		i.ms, i.num = i.ms+1, i.num-w.N
	}
	return i
}

// follow takes up other windows: their schedules begin at the last permit.
func (e *even) follow(windows []schemas.Window, last schemas.Millis) {
	if slices.Equal(e.windows, windows) {
		return
	}
	e.windows, e.next = windows, make([]instant, len(windows))
	for i, w := range windows {
		if last > 0 {
			e.next[i] = instant{ms: last}.after(w)
		}
	}
}

// at returns the earliest time of the next permit, not before now.
func (e *even) at(now schemas.Millis) schemas.Millis {
	for _, n := range e.next {
		now = max(now, n.ceil())
	}
	return now
}

// add records a permit at t. A window whose turn came earlier starts its
// schedule anew at t: what was not used is not made up for.
func (e *even) add(t schemas.Millis) {
	for i, w := range e.windows {
		if e.next[i].ceil() < t {
			e.next[i] = instant{ms: t}
		}
		e.next[i] = e.next[i].after(w)
	}
}

func (e *even) clone() even { return even{e.windows, slices.Clone(e.next)} }
