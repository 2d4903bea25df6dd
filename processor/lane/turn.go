package lane

import (
	"math"

	"github.com/weirhq/weir/schemas"
)

// heads are the messages of each priority and half whose turn is next: those
// that may be called, and those that must be decided again.
type heads struct{ fresh, stale [priorities][halves]*item }

// heads notes in v what there is of either. read reads a message; end ends it if
// it need not be called, which costs one of budget.
func (l *lanePart) heads(v *situation, t schemas.Millis, read func(*item), end func(*item) bool, budget *int) (h heads) {
	v.ready, v.stale = lines{}, lines{}
	for i, q := range l.queues {
		own, _ := lineOf(i, "")
		for p := range priorities {
			if i != again && p != own && q.back == 0 {
				continue
			}
			it := q.headOf(p)
			for ; it != nil && *budget > 0 && end(it); it = q.headOf(p) {
				*budget--
			}
			if *budget <= 0 {
				return h
			}
			if it == nil {
				if i != again || p != normally || !q.paused {
					continue
				}
				// It is full of what has a small share, and hides what is behind:
				// so it is worked off in its order.
				if it = q.head(); it == nil || end(it) {
					continue
				}
			}
			half := it.half
			if it.stale(t) {
				if had := h.stale[p][half]; had == nil || it.env.DecidedAt < had.env.DecidedAt {
					h.stale[p][half] = it
				}
				if it = nil; half == returned {
					it = q.freshOf(p, t, read)
				}
			}
			if had := h.fresh[p][half]; it != nil && (had == nil || it.env.DecidedAt < had.env.DecidedAt) {
				h.fresh[p][half] = it
			}
			v.ready[p][half], v.stale[p][half] = h.fresh[p][half] != nil, h.stale[p][half] != nil
		}
	}
	return h
}

// situation counts what has returned and waits.
func (l *lanePart) situation(t schemas.Millis, read func(*item)) (v situation) {
	for _, q := range l.queues {
		if q.back == 0 {
			continue
		}
		for _, it := range q.items[q.scan:] {
			if it.state != waiting || it.half != returned {
				continue
			}
			if read(it); it.stale(t) {
				v.old[it.prio]++
			} else {
				v.fresh[it.prio]++
			}
		}
	}
	return v
}

// allowed returns how many permits the pace allows in half of the time for which a
// decision may be called on, of the message that has the least: so many that are on their
// way or wait are called in time. Where returns take longer than half of it, it is what
// they take, or the lane would wait for them.
func (l *lanePart) allowed(h *heads, windows []schemas.Window, t schemas.Millis) int {
	n := math.MaxInt
	for p := range h.stale {
		for _, it := range h.stale[p] {
			if it != nil {
				within := max(it.staleAt.Sub(it.env.DecidedAt), 0)
				n = min(n, l.pace.allows(windows, t, max(within/2, min(l.recall.took, within))))
			}
		}
	}
	return n
}

// carrier returns the queue on which what is sent back returns: again, or, when
// more waits there than is read, another that is read to its end. Behind a backlog
// it would be stale too before its turn came. It is not its own priority's, where
// it could not be told from a first attempt.
func (l *lanePart) carrier(prio int) int {
	for _, i := range [...]int{again, urgent, bulk, normal} {
		own, _ := lineOf(i, "")
		if (i == again || own != prio) && !l.queues[i].paused {
			return i
		}
	}
	return again
}
