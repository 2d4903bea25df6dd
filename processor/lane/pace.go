package lane

import (
	"time"

	"github.com/weirhq/weir/schemas"
)

// A permit names the moment from which its call may be made, and that moment
// is what the windows count. A lane that asked only when the moment had come
// would lose of its pace what it comes late, each time. So most of what a window
// lets through is permitted a little before its moment (aheadLeast): its call
// waits until then. The last tenth of a burst is not, so that an urgent message
// which comes meanwhile finds a place in it; and those are permitted as of their
// moment, if the lane comes no later than this.
const overdueMost = 50 * time.Millisecond

// overdue returns the moment from which permits may be named at t, when a
// message has waited for the moment due (0: none has).
func overdue(due, t schemas.Millis) schemas.Millis {
	if due == 0 {
		return t
	}
	return min(t, max(due, t.Add(-overdueMost)))
}

// unplanned is how many of a burst are not permitted before their moment, by
// the smallest burst of the windows and by how many calls may be under way.
func unplanned(windows []schemas.Window, concurrency int) int {
	n := int64(concurrency)
	for _, w := range windows {
		n = min(n, w.N)
	}
	return int(max(1, n/10))
}

// pace is the times of permits, oldest first, never decreasing: at least those
// that a window of the pace can see. They are dropped by age only, so that a
// raised n finds what it must count.
type pace struct {
	times []schemas.Millis
	head  int // times[head:] are kept
}

// next returns the earliest time, not before now, at which one more permit
// leaves every rolling window [t-Length, t) of every entry with at most n
// permits. "n in d" holds if and only if the n-th most recent is at least d
// old.
func (p *pace) next(windows []schemas.Window, now schemas.Millis) schemas.Millis {
	kept := p.times[p.head:]
	at := now
	if len(kept) > 0 {
		at = max(at, kept[len(kept)-1])
	}
	for _, w := range windows {
		if n := int(w.N); n <= len(kept) {
			at = max(at, kept[len(kept)-n].Add(w.Length))
		}
	}
	return at
}

// ask says when to ask again for a permit whose moment is at; 0 when it may be
// given at t: its moment has come, or will within lead, and neither of the
// windows nor of the free calls does it take one of the spare, which wait for
// the moment itself.
func (p *pace) ask(windows []schemas.Window, at, t schemas.Millis, lead time.Duration, spare, free int) schemas.Millis {
	switch {
	case at <= t:
		return 0
	case at > t.Add(lead):
		return at.Add(-lead)
	case spare > 0 && (free <= spare || !p.room(windows, at, spare)):
		return at
	}
	return 0
}

// room reports whether n more permits could be given at at, after one there.
func (p *pace) room(windows []schemas.Window, at schemas.Millis, n int) bool {
	kept := p.times[p.head:]
	for _, w := range windows {
		i := len(kept) + n - int(w.N)
		if int64(n) >= w.N || i >= 0 && kept[i].Add(w.Length) > at {
			return false
		}
	}
	return true
}

// add records a permit at t, or at the last one's time if that is later.
func (p *pace) add(t schemas.Millis) {
	if n := len(p.times); n > p.head {
		t = max(t, p.times[n-1])
	}
	p.times = append(p.times, t)
}

// newest returns the last permit's time; 0 when none is kept.
func (p *pace) newest() schemas.Millis {
	if len(p.times) == p.head {
		return 0
	}
	return p.times[len(p.times)-1]
}

// undo takes back the last n permits: their transaction was aborted.
func (p *pace) undo(n int) { p.times = p.times[:max(p.head, len(p.times)-n)] }

// trim drops what no window of length longest can see at now, or so much before
// it as a permit may be named.
func (p *pace) trim(longest time.Duration, now schemas.Millis) {
	for p.head < len(p.times) && p.times[p.head].Add(longest+overdueMost) <= now {
		p.head++
	}
	if p.head > 1024 && p.head > len(p.times)/2 {
		p.times = append(p.times[:0], p.times[p.head:]...)
		p.head = 0
	}
}

// longest returns the longest window of a pace; 0 when there is none.
func longest(windows []schemas.Window) time.Duration {
	var d time.Duration
	for _, w := range windows {
		d = max(d, w.Length)
	}
	return d
}

// share splits a pace over lanes in whole numbers that sum to it: the first
// lanes get what is left over.
func share(windows []schemas.Window, lanes, lane int32) []schemas.Window {
	if lanes <= 1 {
		return windows
	}
	out := make([]schemas.Window, len(windows))
	for i, w := range windows {
		w.N = part(w.N, lanes, lane)
		out[i] = w
	}
	return out
}

func part(n int64, lanes, lane int32) int64 {
	p := n / int64(lanes)
	if int64(lane) < n%int64(lanes) {
		p++
	}
	return max(p, 1) // apply refuses lanes that a pace cannot fill
}
