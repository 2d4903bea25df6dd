package lane

import (
	"time"

	"github.com/weirhq/weir/schemas"
)

// Bounds of what is given back because it went stale.
const (
	againAtLeast = 64              // as many as this may always be on their way back, or as many as concurrency
	backAtLeast  = 2 * time.Second // how long one is expected back at least
	backAtMost   = time.Minute     // and at most
)

// returns knows the messages that a lane gave back because they went stale, and
// that have not come back on again. Some never do: admission ends them, parks
// them, or sends them another way. So each is expected back only for twice as
// long as it has taken lately.
type returns struct {
	at    map[string]int64 // by id: its number in sent
	sent  []sentBack
	first int64 // the number of sent[0]
	late  int64 // numbers below it are no longer expected
	away  int   // those expected
	took  time.Duration
}

type sentBack struct {
	id   string
	t    schemas.Millis
	done bool // it came back, or was never sent
}

// add notes that a message goes back at t.
func (r *returns) add(id string, t schemas.Millis) {
	if r.at == nil {
		r.at = make(map[string]int64)
	}
	r.undo(id) // it came back another way
	r.at[id] = r.first + int64(len(r.sent))
	r.sent = append(r.sent, sentBack{id: id, t: t})
	r.away++
}

// arrive takes note of a message that has come on again at t.
func (r *returns) arrive(id string, t schemas.Millis) {
	if n, ok := r.at[id]; ok {
		r.took = max(t.Sub(r.sent[n-r.first].t), r.took-r.took/64)
		r.undo(id)
	}
}

// undo takes a return back: its transaction was aborted.
func (r *returns) undo(id string) {
	n, ok := r.at[id]
	if !ok {
		return
	}
	delete(r.at, id)
	r.sent[n-r.first].done = true
	if n >= r.late {
		r.away--
	}
}

// expected returns how many are still expected back at t.
func (r *returns) expected(t schemas.Millis) int {
	patience := min(max(2*r.took, backAtLeast), backAtMost)
	for ; r.late < r.first+int64(len(r.sent)); r.late++ {
		e := r.sent[r.late-r.first]
		if !e.done && t.Sub(e.t) < patience {
			break
		}
		if !e.done {
			r.away--
		}
	}
	// One that comes back late still says how long it took.
	n := 0
	for n < len(r.sent) && r.first+int64(n) < r.late && (r.sent[n].done || t.Sub(r.sent[n].t) >= backAtMost) {
		if e := r.sent[n]; !e.done {
			delete(r.at, e.id)
		}
		n++
	}
	r.sent, r.first = r.sent[n:], r.first+int64(n)
	return r.away
}

// ability is how many permits a lane has given in a time, by seconds of the
// lane's clock. What it could do lately counts for a while after it stopped:
// a lane whose queues are stale calls nobody until something comes back.
type ability struct {
	seconds [32]int32 // permits by second
	second  int64     // the newest of them
	shown   float64   // permits a second, forgotten by half in 22 s
}

const abilityOver = 4 // seconds: more than most calls take, and their bursts with them

// add notes n permits at t.
func (a *ability) add(t schemas.Millis, n int) {
	a.look(t)
	a.seconds[a.second%int64(len(a.seconds))] += int32(n)
}

// look moves on to t and returns the permits a second that the lane has shown.
func (a *ability) look(t schemas.Millis) float64 {
	now := int64(t) / 1000
	if now-a.second > int64(len(a.seconds)) {
		*a = ability{second: now}
	}
	for a.second < now {
		sum := 0
		for i := max(a.second-abilityOver+1, 0); i <= a.second; i++ {
			sum += int(a.seconds[i%int64(len(a.seconds))])
		}
		a.shown = max(float64(sum)/abilityOver, a.shown-a.shown/32)
		a.second++
		a.seconds[a.second%int64(len(a.seconds))] = 0
	}
	return a.shown
}

// enoughBack reports whether no more of what is stale may go back: waiting are
// those that wait on again, expected those on their way there, which took as
// long lately. As many may wait as the lane can call in half the time after
// which they are stale once more, and more would only go round; as many beside
// may be on their way that the lane has work when admission is slow.
func enoughBack(waiting, expected, concurrency int, perSecond float64, staleAfter, took time.Duration) bool {
	most := func(d time.Duration) int { return max(againAtLeast, concurrency, int(perSecond*d.Seconds())) }
	return waiting >= most(staleAfter/2) || waiting+expected >= most(staleAfter/2+3*took/2)
}
