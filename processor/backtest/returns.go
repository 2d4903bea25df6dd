package backtest

import (
	"slices"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// diverge ends a message's recorded way at a refusal that was none then. What
// this round took is returned at once, and what it moved is put back: the log has
// no step for that.
func (r *replay) diverge(l *life, s *step) {
	for _, c := range l.taken {
		n, t := r.returning(c, s)
		n.giveUp(c, true, t)
	}
	for _, c := range l.moved {
		n, t := r.returning(c, s)
		n.putBack(c, t)
	}
	l.asking, l.taken, l.moved = false, l.taken[:0], l.moved[:0]
	if l.path = pathRefused; l.counted {
		l.path = pathHeld
	}
}

// stopRound returns what a round took, and puts back what it moved if the message
// goes on holding it: here at once, and at an owner when it did so then.
func (r *replay) stopRound(l *life, s *step, keeps bool) {
	if !l.asking {
		return
	}
	r.letGo(l, s, l.taken, true)
	if keeps {
		for _, c := range l.moved {
			if owner, later := r.later(c, s.reinstated); later {
				l.owed = append(l.owed, debt{charge: c, owner: owner, restore: true})
			} else {
				n, t := r.returning(c, s)
				n.putBack(c, t)
			}
		}
	}
	l.asking, l.taken = false, l.taken[:0]
}

// letGo returns places. Under unwinding they were taken for a message that did
// not go on.
func (r *replay) letGo(l *life, s *step, places []schemas.Charge, unwinding bool) {
	for _, c := range places {
		if owner, later := r.later(c, s.released); later {
			l.owed = append(l.owed, debt{charge: c, owner: owner, unwinding: unwinding})
			continue
		}
		n, t := r.returning(c, s)
		n.giveUp(c, unwinding, t)
	}
}

// returning returns where a place is returned to, and the time of that. Partitions' clocks
// differ: at another partition it is that partition's own latest time, which 0 leaves as it
// is. The time of home's step would make that partition's next decisions later than they
// were.
func (r *replay) returning(c schemas.Charge, s *step) (*counter, schemas.Millis) {
	n := r.counterOf(c.Limit, c.Scope)
	if n == &r.counter || n == r.x.guests {
		return n, s.t
	}
	return n, 0
}

// later reports whether an owner's step, which is still to come, returns a place
// or puts it back.
func (r *replay) later(c schemas.Charge, recorded []scopeRef) (owner int32, later bool) {
	if !limit.Wide(c.Scope) || !r.x.known[c.Limit] || !slices.Contains(recorded, scopeRef{c.Limit, c.Scope}) {
		return 0, false
	}
	return limit.Owner(c.Scope, int32(len(r.x.parts))), true
}

// owed replays what an owner returns because home asks it to.
func (r *replay) owed(s *step) {
	if !r.x.wide {
		return
	}
	home := r.x.parts[s.home]
	l := home.lives.find(s.key)
	if l == nil {
		return
	}
	for _, restore := range [...]bool{false, true} {
		for _, d := range l.owed {
			if d.owner != r.num || d.restore != restore {
				continue
			}
			if restore {
				r.putBack(d.charge, s.t)
			} else {
				r.giveUp(d.charge, d.unwinding, s.t)
			}
		}
	}
	l.owed = slices.DeleteFunc(l.owed, func(d debt) bool { return d.owner == r.num })
	if l.ended {
		home.forget(s.key, l)
	}
}

// giveBack replays the return of what a message holds, after it ended without
// possibly having been received, or by a release.
func (r *replay) giveBack(s *step) {
	l := r.lives.find(s.key)
	if l == nil || l.path == pathSent {
		return
	}
	r.letGo(l, s, l.places, false)
	l.places, l.ended = l.places[:0], true
	r.forget(s.key, l)
}

// end replays an end that no limit caused. A message that was attempted gives
// its places back if it did so then.
func (r *replay) end(s *step) {
	l := r.lives.find(s.key)
	if l == nil {
		return
	}
	if l.path == pathSame || l.path == pathHeld {
		moved := l.asking && len(l.moved) > 0
		l.unvisited = l.unvisited[:0]
		for _, c := range l.places {
			if !l.asking || !slices.Contains(l.moved, c) {
				l.unvisited = append(l.unvisited, c)
			}
		}
		before := l.began
		if !l.asking {
			before = s.t
		}
		r.stopRound(l, s, s.kept || s.unknown)
		returned := s.returned > 0 && s.returned < before
		if !s.kept && !s.unknown && (returned || !l.held || moved) {
			r.letGo(l, s, l.unvisited, false)
		}
	}
	l.ended = true
	r.forget(s.key, l)
}
