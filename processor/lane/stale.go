package lane

import (
	"math"
	"slices"
	"time"

	"github.com/weirhq/weir/schemas"
)

// A message whose decision is older than stale_after when its turn comes is
// decided again: it goes back to admission and returns on a queue that is short.
// It must be called there before it is stale once more. So a lane keeps few of
// them under way, only as many as keep it busy: recall says which priority may
// send back one more.
//
// What counts is counted, not estimated: what was sent back and has not returned,
// and what has returned and waits.

// Bounds of what is expected back.
const (
	lateAtLeast = time.Second     // by how much a message must be overtaken to count as lost, at least
	backAtMost  = time.Minute     // how long one is expected at most, if none overtakes it
	backFirst   = 5 * time.Second // the same before any has come back
	lookEvery   = time.Second     // how often a window may shrink at most
	freshMost   = resumeItems     // what waits to be called is enough by then, whatever the window says
)

// returns knows the messages that a lane sent back because they went stale, and
// that have not returned. Some never do: admission ends them, parks them, or
// sends them another way. One is given up once others have returned that were
// sent well after it.
type returns struct {
	at    map[string]int64 // by id: its number in out
	out   []sentBack
	begin int64           // the number of out[0]
	late  int64           // numbers below it are no longer expected
	away  [priorities]int // those expected
	took  time.Duration   // how long they take lately: the longest, forgotten by a 64th with each
	after schemas.Millis  // when the latest of those was sent that have returned
}

type sentBack struct {
	id   string
	t    schemas.Millis
	prio int
	done bool // it returned, or was never sent
}

// add notes that a message goes back at t.
func (r *returns) add(id string, prio int, t schemas.Millis) {
	if r.at == nil {
		r.at = make(map[string]int64)
	}
	r.undo(id) // it returned another way
	r.at[id] = r.begin + int64(len(r.out))
	r.out = append(r.out, sentBack{id: id, t: t, prio: prio})
	r.away[prio]++
}

// arrive takes note of a message that has returned at t, and reports whether
// this lane knew that it would.
func (r *returns) arrive(id string, t schemas.Millis) bool {
	n, ok := r.at[id]
	if ok {
		sent := r.out[n-r.begin].t
		r.took = max(t.Sub(sent), r.took-r.took/64)
		r.after = max(r.after, sent)
		r.undo(id)
	}
	return ok
}

// undo takes a return back: its transaction was aborted.
func (r *returns) undo(id string) {
	n, ok := r.at[id]
	if !ok {
		return
	}
	delete(r.at, id)
	e := &r.out[n-r.begin]
	e.done = true
	if n >= r.late {
		r.away[e.prio]--
	}
}

// giveUp stops to expect those that are overtaken, or have been away too long,
// at t; it calls lost for each that was overtaken.
func (r *returns) giveUp(t schemas.Millis, lost func(prio int)) {
	patience := min(max(2*r.took, 2*time.Second), backAtMost)
	if r.after == 0 {
		patience = backFirst
	}
	overtaken := r.after.Add(-max(r.took, lateAtLeast))
	for ; r.late < r.begin+int64(len(r.out)); r.late++ {
		e := r.out[r.late-r.begin]
		if !e.done && e.t >= overtaken && t.Sub(e.t) < patience {
			break
		}
		if !e.done {
			r.away[e.prio]--
			if e.t < overtaken {
				lost(e.prio)
			}
		}
	}
	// One that returns late still says how long it took.
	n := 0
	for n < len(r.out) && r.begin+int64(n) < r.late && (r.out[n].done || t.Sub(r.out[n].t) >= backAtMost) {
		if e := r.out[n]; !e.done {
			delete(r.at, e.id)
		}
		n++
	}
	r.out, r.begin = r.out[n:], r.begin+int64(n)
}

// window bounds how many messages of one priority are on their way back, or have
// returned and wait. It grows by one with each that returns while the lane has
// nothing of that priority to call, and so doubles in the time that admission
// takes; it shrinks while some wait all the time, and to nothing when one grows
// stale where it waits.
type window struct {
	size    int
	starved bool           // at the last look the next permit was for what returned, and nothing of it could be called
	least   int            // how many waited at least, that may be called, since
	since   schemas.Millis // the last look at that
	former  int            // its size under the former owner
	misses  bool           // one that returned was not called in time, since others had the permits meanwhile
	cut     schemas.Millis // when it last began again: what was decided before says nothing of it
}

// arrived takes note of one that returned, or was lost, of so many under way.
func (w *window) arrived(away int) {
	w.size, w.former = max(w.size, w.former), 0
	if w.starved {
		w.size = max(w.size, away) + 1
	}
}

// wasted takes note of one that has returned and is stale once more.
func (w *window) wasted(decided, t schemas.Millis) {
	if decided > w.cut {
		w.size, w.former, w.cut = 1, 0, t
	}
}

// look takes note of how many wait that may be called, after the permits at t.
func (w *window) look(fresh int, took time.Duration, t schemas.Millis) {
	w.least = min(w.least, fresh)
	if w.since == 0 || t.Sub(w.since) >= max(took, lookEvery) {
		w.size = max(1, w.size-w.least/2)
		w.least, w.since = fresh, t
	}
}

// recall is what a lane knows of what it sent back.
type recall struct {
	returns
	windows [priorities]window
	slot    uint64         // those sent back so far
	held    schemas.Millis // since when a permit is held for one that is on its way; 0: none is
	holds   schemas.Millis // when one may be held again
}

// arrive takes note of a message that has returned at t, and reports whether this lane
// knew that it would.
func (r *recall) arrive(id string, prio int, t schemas.Millis) bool {
	away := r.away[prio]
	if !r.returns.arrive(id, t) {
		return false
	}
	if r.held != 0 { // a larger window would not help
		r.windows[prio].starved = false
	}
	r.windows[prio].arrived(away)
	return true
}

// situation is what a lane looks like between two permits.
type situation struct {
	ready lines // a message may be called
	stale lines // a message must be decided again first
	// Of each priority: how many that returned may be called, and how many are
	// stale once more.
	fresh, old [priorities]int
	free       int  // calls that could be made beside those under way; 0 when none
	able       bool // a permit could be given now, if there were a message
	soon       bool // or before what is sent back now has returned, or within a second
	pace       int  // permits that the pace allows before half of stale_after is over
	slot       uint64
}

// starve notes which priorities have nothing to call that was decided again,
// although the next permit would be for that.
func (r *recall) starve(v *situation) {
	for p := range r.windows {
		w := &r.windows[p]
		w.starved = false
		if v.able && !v.ready[p][returned] && (v.stale[p] != [halves]bool{} || w.misses && r.away[p] > 0) {
			would := v.ready
			would[p][returned] = true
			prio, half, _ := choose(v.slot, would)
			w.starved = prio == p && half == returned
		}
	}
}

// sizes returns the windows, for the next owner of the lane.
func (r *recall) sizes() (out [priorities]int) {
	for p := range out {
		out[p] = max(r.windows[p].size, 1)
	}
	return out
}

// resume takes up the windows of the former owner, by half until something has
// returned that this lane sent: so what owners leave behind that end before that is
// at most two windows.
func (r *recall) resume(sizes [priorities]int) {
	for p := range sizes {
		r.windows[p].size, r.windows[p].former = max(1, sizes[p]/2), sizes[p]
	}
}

// rest notes that the lane calls nothing now.
func (r *recall) rest() {
	for p := range r.windows {
		r.windows[p].starved = false
	}
}

// look takes note of what waits after the permits at t.
func (r *recall) look(v *situation, t schemas.Millis) {
	r.giveUp(t, func(prio int) { r.windows[prio].arrived(r.away[prio]) })
	for p := range r.windows {
		r.windows[p].look(v.fresh[p], r.took, t)
	}
}

// sent takes note of a message that goes back at t.
func (r *recall) sent(v *situation, it *item, t schemas.Millis) {
	if it.half == returned {
		v.old[it.prio]--
		if !it.overdue { // else it did not wait here
			r.windows[it.prio].wasted(it.env.DecidedAt, t)
			r.windows[it.prio].misses = !it.inherited
		}
	}
	r.slot++
	r.add(it.env.ID, it.prio, t)
}

// next returns what may be sent back now; false when nothing.
func (r *recall) next(v *situation) (prio, half int, ok bool) {
	r.starve(v)
	if !v.able && !v.soon || v.stale == (lines{}) {
		return 0, 0, false
	}
	all, waits := 0, 0
	for p := range priorities {
		all += r.away[p] + v.fresh[p]
		waits += v.fresh[p]
	}
	if all >= v.pace || waits >= freshMost {
		for p := range r.windows { // but one, for which a permit is held
			if w := &r.windows[p]; w.starved && w.misses && r.away[p] == 0 && v.stale[p] != (lines{})[p] {
				return p, map[bool]int{true: returned, false: first}[v.stale[p][returned]], true
			}
		}
		return 0, 0, false
	}
	may := v.stale
	for p := range r.windows {
		w := &r.windows[p]
		size, under := max(w.size, 1), r.away[p]+v.fresh[p]
		if w.starved {
			size = max(size, v.free)
		} else {
			// What has returned and is stale waits until it can be called: while
			// nothing is, it would only go round.
			may[p][returned] = false
			under += v.old[p]
		}
		if under >= size {
			may[p] = [halves]bool{}
		}
	}
	return choose(r.slot, may)
}

// Bounds of how long a permit is held.
const (
	holdLeast = time.Second // it may be held for so long, or twice as long as returns take,
	holdPart  = 10          // and then not again for so many times as long as it was
)

// hold reports whether the next permit waits for a message that is on its way back, and
// until when at most. By its turn the permit is of a priority that has nothing to call
// yet, and whose last ones went stale once more while other priorities had the permits:
// where permits come more slowly than decisions go stale, it would never be called.
func (r *recall) hold(v *situation, t schemas.Millis) (until schemas.Millis, ok bool) {
	for p := range r.windows {
		w := &r.windows[p]
		if !w.starved || !w.misses || r.away[p] == 0 || v.ready == (lines{}) || t < r.holds {
			continue
		}
		if r.held == 0 {
			r.held = t
		}
		if until = r.held.Add(min(max(holdLeast, 2*r.took), backAtMost)); t < until {
			return until, true
		}
		break
	}
	if r.held != 0 {
		r.holds, r.held = t.Add(holdPart*t.Sub(r.held)), 0
	}
	return 0, false
}

// permitted takes note of a permit for a message: where none was held for it, none need
// be held for the next.
func (r *recall) permitted(it *item, t schemas.Millis) {
	if it.half == returned && t >= r.holds {
		r.windows[it.prio].misses = false
	}
}

// allows returns how many permits more a pace lets through until d from t.
func (p *pace) allows(windows []schemas.Window, t schemas.Millis, d time.Duration) int {
	most := math.MaxInt
	kept := p.times[p.head:]
	for _, w := range windows {
		n := int(int64(d/w.Length) * w.N)
		from := t.Add(d%w.Length - w.Length) // what is not after this has left the window by then
		i, _ := slices.BinarySearch(kept, from+1)
		most = min(most, n+max(0, int(w.N)-(len(kept)-i)))
	}
	return most
}
