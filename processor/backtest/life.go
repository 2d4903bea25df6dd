package backtest

import (
	"slices"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// path says how a message's way in the replay went off from the recorded one.
type path uint8

const (
	pathSame    path = iota // it has not
	pathRefused             // refused now, let through then: what came later did not happen
	pathSent                // let through now, refused then: it is taken to be sent at its first attempt
	pathHeld                // a further attempt is refused now: it waits, with its old places
)

// life is a message under way in the replay.
type life struct {
	subject limit.Subject
	places  []schemas.Charge // held since its latest attempt

	// Of the round under way.
	began     schemas.Millis
	asking    bool
	ownAsked  bool
	saidNo    bool             // an owner refused it, then and now
	taken     []schemas.Charge // by this round
	moved     []schemas.Charge // of places, given up in this round
	visited   []scopeRef       // wide limits that were asked
	unvisited []schemas.Charge // memory for what of places was not moved
	now       Said             // what limits say in this round, so far

	path    path
	counted bool // its first decision is behind it
	held    bool // it held something then

	passedThen, passedNow bool // some attempt was let through
	heldThen, heldNow     bool // and a further one was not

	ended bool
	owed  []debt // what owners are still to return or put back, as recorded
}

// debt is a place that an owner gives back, or puts back, at a step of its own.
type debt struct {
	charge    schemas.Charge
	owner     int32
	unwinding bool
	restore   bool
}

// begin opens a round: the questions of one attempt.
func (l *life) begin(t schemas.Millis) {
	l.asking, l.began, l.ownAsked, l.saidNo = true, t, false, false
	l.taken, l.moved, l.visited = l.taken[:0], l.moved[:0], l.visited[:0]
	l.now = Said{}
}

// late returns the places of this round in limits of the recipient that were taken before
// t.
func (l *life) late(t schemas.Millis) []schemas.Charge {
	return slices.DeleteFunc(slices.Clone(l.taken), func(c schemas.Charge) bool { return limit.Wide(c.Scope) || c.T == t })
}

// strike takes a place out of those that this round took; false if it is none of them.
func (l *life) strike(c schemas.Charge) bool {
	i := slices.Index(l.taken, c)
	if i >= 0 {
		l.taken = slices.Delete(l.taken, i, i+1)
	}
	return i >= 0
}

func (l *life) hasVisited(name, scope string) bool {
	return len(l.visited) > 0 && slices.Contains(l.visited, scopeRef{name, scope})
}

// owes reports whether an owner is still to return something, or to put it back.
func (l *life) owes(owner int32) bool {
	return slices.ContainsFunc(l.owed, func(d debt) bool { return d.owner == owner })
}

// stands reports whether the message holds a place that an owner, one of n, has.
func (l *life) stands(owner, n int32) bool {
	return slices.ContainsFunc(l.places, func(c schemas.Charge) bool { return limit.Wide(c.Scope) && limit.Owner(c.Scope, n) == owner })
}

// reset makes a life fit for another message. It keeps the memory.
func (l *life) reset() {
	*l = life{places: l.places[:0], taken: l.taken[:0], moved: l.moved[:0], visited: l.visited[:0], unvisited: l.unvisited[:0], owed: l.owed[:0]}
}

// lives are the messages of one home that are under way. Those of whom nothing
// was heard for a span are forgotten: no window sees their places any more.
type lives struct {
	now, before map[messageKey]*life
	turned      schemas.Millis
	span        schemas.Millis
	free        []*life
}

func newLives(span schemas.Millis) lives {
	return lives{now: make(map[messageKey]*life), before: make(map[messageKey]*life), span: span}
}

func (v *lives) find(k messageKey) *life {
	if l := v.now[k]; l != nil {
		return l
	}
	if len(v.before) == 0 {
		return nil
	}
	l := v.before[k]
	if l != nil {
		delete(v.before, k)
		v.now[k] = l
	}
	return l
}

// take returns a life that is nobody's yet.
func (v *lives) take() *life {
	if n := len(v.free); n > 0 {
		l := v.free[n-1]
		v.free = v.free[:n-1]
		return l
	}
	return new(life)
}

func (v *lives) keep(k messageKey, l *life) { v.now[k] = l }

func (v *lives) drop(k messageKey, l *life) {
	delete(v.now, k)
	delete(v.before, k)
	v.release(l)
}

func (v *lives) release(l *life) {
	if len(v.free) < 1024 {
		l.reset()
		v.free = append(v.free, l)
	}
}

// turn forgets, now and then.
func (v *lives) turn(t schemas.Millis) {
	if v.turned == 0 {
		v.turned = t
	}
	if t-v.turned >= v.span {
		v.before, v.now, v.turned = v.now, make(map[messageKey]*life), t
	}
}

func (v *lives) len() int { return len(v.now) + len(v.before) }
