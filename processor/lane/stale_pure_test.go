package lane

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

// world is a lane with its queues, admission and a provider in simulated time.
// The lane's own queues, turns, windows and pace are in it; of a transaction only
// that it takes a step.
type world struct {
	staleAfter  time.Duration
	others      time.Duration // the same of what arrives; 0: no other
	commit      time.Duration // from a permit to its call
	pace        []schemas.Window
	concurrency func(at time.Duration) int           // calls at a time that the provider takes; 0: none end
	latency     func(at time.Duration) time.Duration // of a call that begins then
	admission   func(at time.Duration) time.Duration // from what goes back to its return
	onWay       time.Duration                        // the part of it that is after the decision
	lost        int                                  // of ten, that never return
	restarts    []time.Duration
	down        time.Duration // after a restart
	retries     int           // of a hundred calls, that are to be made again
	arrive      func(at time.Duration, put func(prio int))
	stuck       int // stale messages of each priority that wait on again from the start

	now, began schemas.Millis
	chance     *rand.Rand
	l          *lanePart
	upAt       schemas.Millis
	topics     [queues][]*msg
	low        [queues]int // all before it is finished
	read       [queues]int
	transit    []trip
	retrying   []trip
	flying     []flyer
	ranOut     []*item // permits whose call is to begin after the time of their decision

	calls, moves, gone, made int
	called                   [priorities]int
	could                    float64 // calls that could have been made while the lane was up
	warm                     float64 // the same, and calls, once a tenth was gone
	warmCalls                int
	most                     int // times that one was decided again
	holds                    int // steps for which a permit was held
	late, wasted             int // calls after the time of their decision, and permits that ran out
	deepest, waits           int // records on again that are not finished
	permits                  int
	urgentAhead              int // permits to others while an urgent message in memory could be called
	worstAhead               int
	idle, longestIdle        time.Duration // calls could be made, and none was
}

type msg struct {
	id       string
	prio     int
	decided  schemas.Millis
	appended schemas.Millis
	within   time.Duration // of its decision it is to be called
	stales   int
	again    int
	attempts int
	done     bool // this record is
}

type trip struct {
	at schemas.Millis
	to int
	m  *msg
}

type flyer struct {
	end schemas.Millis
	m   *msg
}

const worldStep = schemas.Millis(10)

func newWorld(w world, backlog [priorities]int) *world {
	w.now = 1_780_000_000_000
	w.began = w.now
	w.chance = rand.New(rand.NewPCG(1, 2))
	for p, n := range backlog {
		for range n {
			w.put(p, w.now.Add(-time.Hour))
		}
	}
	for n := range w.stuck * priorities {
		w.made++
		w.append(again, &msg{id: fmt.Sprint(w.made), prio: n % priorities, decided: w.now.Add(-time.Hour), within: w.staleAfter})
	}
	w.restart()
	w.upAt = w.now
	return &w
}

func (w *world) put(prio int, decided schemas.Millis) {
	w.made++
	m := &msg{id: fmt.Sprint(w.made), prio: prio, decided: decided, within: w.staleAfter}
	if decided == w.now && w.others > 0 {
		m.within = w.others
	}
	w.append([priorities]int{urgent, normal, bulk}[prio], m)
}

func (w *world) append(topic int, m *msg) {
	m.appended = w.now
	w.topics[topic] = append(w.topics[topic], m)
	if topic == again {
		w.waits++
	}
}

// restart throws all away that a lane has in memory.
func (w *world) restart() {
	was := w.l
	w.l, w.ranOut = &lanePart{since: w.now.Time()}, nil
	if was != nil {
		w.l.recall.resume(was.recall.sizes())
	}
	for i, name := range queueNames {
		w.l.queues[i] = newQueue(string(name))
		for w.low[i] < len(w.topics[i]) && w.topics[i][w.low[i]].done {
			w.low[i]++
		}
		w.read[i] = w.low[i]
	}
	w.upAt = w.now.Add(w.down)
}

// fetch reads what the queues may hold, as much as a poll brings.
func (w *world) fetch() {
	for i, q := range w.l.queues {
		switch {
		case !q.paused && (q.waits() >= pauseItems || q.ahead() >= pauseAhead):
			q.paused = true
		case q.paused && q.waits() < resumeItems && q.ahead() < resumeAhead:
			q.paused = false
		}
		for n := 0; !q.paused && n < 1000 && w.read[i] < len(w.topics[i]); n++ {
			m := w.topics[i][w.read[i]]
			offset := int64(w.read[i])
			w.read[i]++
			if m.done {
				continue
			}
			it := &item{key: callKey{offset: offset}, journal: -1, env: schemas.Envelope{ID: m.id, DecidedAt: m.decided, Priority: schemas.Priorities[m.prio]}, staleAt: m.decided.Add(m.within), stales: m.stales}
			it.prio, it.half = lineOf(i, it.env.Priority)
			q.push(it)
			known := it.half == returned && w.l.recall.arrive(it.env.ID, it.prio, w.now)
			it.inherited = !known && m.appended.Time().Before(w.l.since)
			it.overdue = it.staleAt < w.now && !it.inherited
		}
	}
}

// take ends a record where it is, and returns its message.
func (w *world) take(it *item) *msg {
	for i, q := range w.l.queues {
		if q.find(it.key.offset) != it {
			continue
		}
		m := w.topics[i][it.key.offset]
		copied := *m
		copied.stales = it.goesStale()
		m.done = true
		w.topics[i][it.key.offset] = &msg{done: true}
		q.finish(it)
		if i == again {
			w.waits--
		}
		return &copied
	}
	panic("not in a queue")
}

func (w *world) step() {
	at := w.now.Sub(w.began)
	for len(w.restarts) > 0 && w.restarts[0] <= at {
		w.restarts = w.restarts[1:]
		w.restart()
	}
	if w.arrive != nil {
		w.arrive(at, func(prio int) { w.put(prio, w.now) })
	}
	for len(w.transit) > 0 && w.transit[0].at <= w.now {
		tr := w.transit[0]
		w.transit = w.transit[1:]
		tr.m.decided = tr.at.Add(-w.onWay)
		w.append(tr.to, tr.m)
	}
	for len(w.retrying) > 0 && w.retrying[0].at <= w.now {
		tr := w.retrying[0]
		w.retrying = w.retrying[1:]
		tr.m.decided, tr.m.again, tr.m.stales = tr.at, 0, 0
		w.append(tr.to, tr.m)
	}
	concurrency := w.concurrency(at)
	if concurrency > 0 {
		n := 0
		for _, f := range w.flying {
			if f.end > w.now {
				w.flying[n] = f
				n++
			}
		}
		w.flying = w.flying[:n]
	}
	if w.now >= w.upAt {
		w.turn(at, max(concurrency, 1))
	}
	for i := range w.topics {
		for w.low[i] < len(w.topics[i]) && w.topics[i][w.low[i]].done {
			w.low[i]++
		}
	}
	for _, q := range w.l.queues {
		q.trim()
	}
	w.deepest = max(w.deepest, w.waits)
	w.now += worldStep
}

func (w *world) turn(at time.Duration, concurrency int) {
	w.fetch()
	t, l := w.now, w.l
	latency := w.latency(at)
	can := float64(concurrency) / latency.Seconds() * float64(worldStep) / 1000
	for _, x := range w.pace {
		can = min(can, float64(x.N)/x.Length.Seconds()*float64(worldStep)/1000)
	}
	if w.concurrency(at) == 0 {
		can = 0
	}
	if w.warm == 0 && w.calls+w.gone >= w.made/10 {
		w.warm, w.warmCalls = w.could, w.permits
	}
	l.pace.trim(longest(w.pace), t)
	for len(w.ranOut) > 0 && w.ranOut[0].key.permit.Add(w.commit) <= t {
		it := w.ranOut[0]
		w.ranOut, it.overdue = w.ranOut[1:], true
		for _, q := range l.queues {
			if q.find(it.key.offset) == it {
				q.requeue(it)
			}
		}
	}
	v := l.situation(t, func(*item) {})
	before := w.permits
	for budget := maxPerTx; budget > 0; budget-- {
		heads := l.heads(&v, t, func(*item) {}, func(*item) bool { return false }, &budget)
		moment := l.pace.next(w.pace, t)
		v.free = concurrency - len(w.flying) - len(w.ranOut)
		v.able, v.soon = v.free > 0 && moment <= t, moment <= t.Add(max(l.recall.took, lookEvery))
		v.slot = l.slot
		v.pace = l.allowed(&heads, w.pace, t)
		if p, half, ok := l.recall.next(&v); ok {
			it := heads.stale[p][half]
			to := l.carrier(it.prio)
			l.recall.sent(&v, it, t)
			m := w.take(it)
			w.moves++
			m.again++
			w.most = max(w.most, m.again)
			if w.chance.IntN(10) < w.lost {
				w.gone++
				continue
			}
			due := t.Add(w.admission(at))
			if n := len(w.transit); n > 0 {
				due = max(due, w.transit[n-1].at)
			}
			w.transit = append(w.transit, trip{due, to, m})
			continue
		}
		if _, ok := l.recall.hold(&v, t); ok {
			w.holds++
			break
		}
		p, half, ok := choose(l.slot, v.ready)
		if !ok || !v.able {
			break
		}
		if v.ready[urgently] != [halves]bool{} && p != urgently {
			w.urgentAhead++
			w.worstAhead = max(w.worstAhead, w.urgentAhead)
		} else {
			w.urgentAhead = 0
		}
		it := heads.fresh[p][half]
		if half == returned {
			v.fresh[it.prio]--
		}
		l.recall.permitted(it, t)
		l.pace.add(t)
		l.slot++
		w.permits++
		if at := t.Add(w.commit); at > it.staleAt && !it.overdueAgain() {
			it.state, it.key.permit = calling, t
			w.ranOut = append(w.ranOut, it)
			w.wasted++
			continue
		}
		if t > it.staleAt {
			w.late++
		}
		m := w.take(it)
		w.flying = append(w.flying, flyer{t.Add(latency), m})
		if m.attempts == 0 && w.chance.IntN(100) < w.retries {
			m.attempts++
			w.retrying = append(w.retrying, trip{t.Add(5 * time.Second), map[bool]int{true: urgent, false: again}[m.prio == urgently], m})
			continue
		}
		w.calls++
		w.called[m.prio]++
	}
	l.recall.look(&v, t)
	if len(w.pace) == 0 { // what was called, and what could have been beside that
		can = float64(w.permits - before)
		if w.concurrency(at) > 0 {
			can += float64(concurrency-len(w.flying)) / latency.Seconds() * float64(worldStep) / 1000
		}
	}
	w.could += can
	if w.permits == before && can > 0 {
		w.idle += time.Duration(worldStep) * time.Millisecond
		w.longestIdle = max(w.longestIdle, w.idle)
	} else {
		w.idle = 0
	}
}

func always[T any](v T) func(time.Duration) T { return func(time.Duration) T { return v } }

// TestStaleMillion drains a stale backlog in simulated time: of a million with
// WEIR_CHAOS, and else of a tenth of that.
func TestStaleMillion(t *testing.T) {
	perSecond := func(n int64) []schemas.Window {
		return []schemas.Window{{Kind: schemas.WindowRolling, N: n, Length: time.Second}}
	}
	every := func(d, until time.Duration) (out []time.Duration) {
		for at := d; at < until; at += d {
			out = append(out, at)
		}
		return out
	}
	ms := time.Millisecond
	for _, c := range []struct {
		name    string
		backlog [priorities]int
		world   world
		least   float64 // share of the calls that could be made, after the first tenth
		tenth   float64 // the same with a backlog of a tenth, in which a window has less time to grow
		most    int     // times that one may be decided again
		mean    float64
		again   int // records on again at most
	}{
		{"100 a second", [priorities]int{normally: 1_000_000}, world{pace: perSecond(100), concurrency: always(64), latency: always(100 * ms), admission: always(200 * ms), staleAfter: time.Minute}, 0.99, 0.99, 1, 1, 300},
		{"100 a second, admission is slow", [priorities]int{normally: 1_000_000}, world{pace: perSecond(100), concurrency: always(64), latency: always(100 * ms), admission: always(5 * time.Second), staleAfter: 10 * time.Second}, 0.98, 0.98, 1, 1, 600},
		{"no pace", [priorities]int{normally: 1_000_000}, world{concurrency: always(256), latency: always(100 * ms), admission: always(200 * ms), staleAfter: 10 * time.Second}, 0.98, 0.98, 1, 1, 2500},
		{"no pace, admission is slow", [priorities]int{normally: 1_000_000}, world{concurrency: always(256), latency: always(100 * ms), admission: always(4 * time.Second), staleAfter: 10 * time.Second}, 0.95, 0.6, 1, 1, 25000},
		{"no pace, admission takes half a minute", [priorities]int{normally: 1_000_000}, world{concurrency: always(256), latency: always(100 * ms), admission: always(30 * time.Second), staleAfter: time.Minute}, 0.8, 0.15, 2, 1.1, 100000},
		{"no pace, half go elsewhere", [priorities]int{normally: 1_000_000}, world{concurrency: always(256), latency: always(100 * ms), admission: always(500 * ms), lost: 5, staleAfter: 10 * time.Second}, 0.97, 0.95, 1, 1, 5000},
		{"no pace, nine of ten go elsewhere", [priorities]int{normally: 1_000_000}, world{concurrency: always(256), latency: always(100 * ms), admission: always(500 * ms), lost: 9, staleAfter: 10 * time.Second}, 0.5, 0.25, 1, 1, 5000},
		{"concurrency below the pace", [priorities]int{normally: 1_000_000}, world{pace: perSecond(5000), concurrency: always(64), latency: always(100 * ms), admission: always(200 * ms), staleAfter: 10 * time.Second}, 0.98, 0.98, 1, 1, 1000},
		{"killed every ten seconds", [priorities]int{normally: 1_000_000}, world{concurrency: always(256), latency: always(100 * ms), admission: always(200 * ms), staleAfter: time.Minute, restarts: every(10*time.Second, time.Hour), down: 2 * time.Second}, 0.95, 0.95, 2, 1.01, 3000},
		{"killed every ten seconds, admission is slow", [priorities]int{normally: 1_000_000}, world{concurrency: always(256), latency: always(100 * ms), admission: always(5 * time.Second), staleAfter: time.Minute, restarts: every(10*time.Second, 5*time.Hour), down: 2 * time.Second}, 0.6, 0.4, 2, 1.05, 30000},
		{"fast, slow, stopped, fast", [priorities]int{normally: 1_000_000}, world{concurrency: func(at time.Duration) int {
			if m := at % (2 * time.Minute); m > time.Minute && m < 90*time.Second {
				return 0
			}
			return 256
		}, latency: func(at time.Duration) time.Duration {
			if m := at % (2 * time.Minute); m > 20*time.Second && m < time.Minute {
				return 5 * time.Second
			}
			return 100 * ms
		}, admission: func(at time.Duration) time.Duration {
			return []time.Duration{50 * ms, 200 * ms, 1000 * ms}[int(at/(7*time.Second))%3]
		}, staleAfter: 10 * time.Second}, 0.8, 0.8, 3, 1.1, 5000},
		{"324,000 are stuck on again", [priorities]int{normally: 300_000, urgently: 10_000}, world{stuck: 108_000, concurrency: always(256), latency: always(100 * ms), admission: always(500 * ms), staleAfter: time.Minute, restarts: every(10*time.Second, time.Hour), down: 2 * time.Second}, 0.75, 0.6, 2, 1.02, 330000},
		{"three priorities", [priorities]int{urgently: 200_000, normally: 500_000, inBulk: 300_000}, world{concurrency: always(256), latency: always(100 * ms), admission: always(500 * ms), staleAfter: 10 * time.Second}, 0.95, 0.94, 1, 1, 5000},
		{"three priorities, killed", [priorities]int{urgently: 200_000, normally: 500_000, inBulk: 300_000}, world{concurrency: always(256), latency: always(100 * ms), admission: always(500 * ms), staleAfter: time.Minute, restarts: every(10*time.Second, time.Hour), down: 2 * time.Second}, 0.93, 0.85, 2, 1.01, 5000},
		{"three priorities, 20 a second", [priorities]int{urgently: 20_000, normally: 20_000, inBulk: 20_000}, world{pace: perSecond(20), concurrency: always(64), latency: always(100 * ms), admission: always(500 * ms), staleAfter: time.Minute, restarts: every(10*time.Second, time.Hour), down: 2 * time.Second}, 0.98, 0.98, 2, 1.01, 800},
		{"one a minute", [priorities]int{normally: 100, inBulk: 100}, world{pace: []schemas.Window{{Kind: schemas.WindowRolling, N: 1, Length: time.Minute}}, concurrency: always(64), latency: always(100 * ms), admission: always(500 * ms), staleAfter: time.Minute}, 0.98, 0.98, 1, 1, 10},
		{"600 a minute, stale after ten seconds", [priorities]int{normally: 20_000}, world{pace: []schemas.Window{{Kind: schemas.WindowRolling, N: 600, Length: time.Minute}}, concurrency: always(64), latency: always(100 * ms), admission: always(500 * ms), staleAfter: 10 * time.Second}, 0.95, 0.95, 2, 1.05, 1000},
		{"stale after a second", [priorities]int{normally: 1_000_000}, world{concurrency: always(256), latency: always(100 * ms), admission: always(200 * ms), staleAfter: time.Second}, 0.9, 0.9, 3, 1.2, 5000},
		{"stale after a second, 20 a second", [priorities]int{normally: 20_000}, world{pace: perSecond(20), concurrency: always(64), latency: always(100 * ms), admission: always(200 * ms), staleAfter: time.Second}, 0.9, 0.9, 3, 1.2, 1000},
		{"stale after a second, two a second", [priorities]int{normally: 2_000}, world{pace: perSecond(2), concurrency: always(64), latency: always(100 * ms), admission: always(200 * ms), staleAfter: time.Second}, 0.9, 0.9, 3, 1.2, 1000},
		{"stale after a second, one a second", [priorities]int{normally: 1_000}, world{pace: perSecond(1), concurrency: always(64), latency: always(100 * ms), admission: always(200 * ms), staleAfter: time.Second}, 0.9, 0.9, 3, 1.2, 1000},
		{"stale after a second, one a minute", [priorities]int{normally: 100}, world{pace: []schemas.Window{{Kind: schemas.WindowRolling, N: 1, Length: time.Minute}}, concurrency: always(64), latency: always(100 * ms), admission: always(200 * ms), staleAfter: time.Second}, 0.9, 0.9, 3, 1.2, 1000},
		{"stale after a second, 300 ms old on return", [priorities]int{normally: 20_000}, world{pace: perSecond(20), concurrency: always(64), latency: always(100 * ms), admission: always(500 * ms), onWay: 300 * ms, staleAfter: time.Second}, 0.9, 0.9, 3, 1.2, 1000},
		{"stale after a second, 900 ms old on return", [priorities]int{normally: 20_000}, world{pace: perSecond(20), concurrency: always(64), latency: always(100 * ms), admission: always(1100 * ms), onWay: 900 * ms, staleAfter: time.Second}, 0.9, 0.9, 3, 1.2, 1000},
		{"stale after a second, 1.1 s old on return", [priorities]int{normally: 20_000}, world{pace: perSecond(20), concurrency: always(64), latency: always(100 * ms), admission: always(1300 * ms), onWay: 1100 * ms, staleAfter: time.Second}, 0.1, 0.1, 2, 2, 1000},
		{"stale after a second, permits take 1.1 s", [priorities]int{normally: 20_000}, world{pace: perSecond(20), concurrency: always(64), latency: always(100 * ms), admission: always(200 * ms), commit: 1100 * ms, staleAfter: time.Second}, 0.1, 0.1, 3, 3, 1000},
		{"stale after six seconds", [priorities]int{normally: 1_000_000}, world{concurrency: always(256), latency: always(100 * ms), admission: always(500 * ms), staleAfter: 6 * time.Second}, 0.9, 0.9, 3, 1.2, 5000},
		{"stale after six seconds, two a second", [priorities]int{normally: 2_000}, world{pace: perSecond(2), concurrency: always(64), latency: always(100 * ms), admission: always(500 * ms), staleAfter: 6 * time.Second}, 0.9, 0.9, 3, 1.2, 1000},
		{"a third is called twice", [priorities]int{urgently: 100_000, normally: 500_000, inBulk: 100_000}, world{concurrency: always(256), latency: always(100 * ms), admission: always(500 * ms), staleAfter: 10 * time.Second, retries: 33}, 0.9, 0.8, 2, 1.05, 5000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if os.Getenv("WEIR_CHAOS") == "" {
				for p := range c.backlog {
					c.backlog[p] = (c.backlog[p] + 9) / 10
				}
				c.world.stuck /= 10
				c.least = c.tenth
			}
			w := newWorld(c.world, c.backlog)
			n := 0
			for _, x := range c.backlog {
				n += x
			}
			n += c.world.stuck * priorities
			for w.calls+w.gone < n && w.now.Sub(w.began) < 12*time.Hour {
				w.step()
			}
			share := float64(w.permits-w.warmCalls) / (w.could - w.warm)
			t.Logf("STALE %s: a backlog of %d is gone after %.0f s: %d calls, after the first tenth %.1f %% of what could be; %v by priority, %d late, %d permits ran out, %d steps held; each went back %.3f times, the most %d; at most %d on again; longest without a call %s; %d permits before an urgent one",
				c.name, n, w.now.Sub(w.began).Seconds(), w.calls, 100*share, w.called, w.late, w.wasted, w.holds, float64(w.moves)/float64(n), w.most, w.deepest, w.longestIdle, w.worstAhead)
			if w.calls+w.gone != n || share < c.least || w.most > c.most || float64(w.moves) > c.mean*float64(n) || w.deepest > c.again || w.worstAhead > 1 {
				t.Errorf("%d calls, %d gone elsewhere, windows %+v, away %v", w.calls, w.gone, w.l.recall.windows, w.l.recall.away)
			}
		})
	}
}

func TestReturns(t *testing.T) {
	var r returns
	t0 := schemas.Millis(1_780_000_000_000)
	lost := 0
	expect := func(want, overtaken int, at time.Duration) {
		t.Helper()
		r.giveUp(t0.Add(at), func(int) { lost++ })
		if r.away[normally] != want || lost != overtaken {
			t.Errorf("at %v %d are expected and %d were lost, want %d and %d", at, r.away[normally], lost, want, overtaken)
		}
	}
	r.add("a", normally, t0)
	r.add("b", normally, t0)
	r.add("aborted", normally, t0)
	r.undo("aborted")
	r.undo("aborted")
	expect(2, 0, 4*time.Second)
	r.arrive("stranger", t0)
	r.arrive("a", t0.Add(1500*time.Millisecond))
	r.arrive("a", t0.Add(1500*time.Millisecond))
	expect(1, 0, 1600*time.Millisecond)
	expect(1, 0, 2900*time.Millisecond) // twice what a took
	r.add("c", normally, t0.Add(2*time.Second))
	r.arrive("c", t0.Add(2200*time.Millisecond))
	expect(0, 1, 2900*time.Millisecond)   // c was sent later than b by more than a took
	r.arrive("b", t0.Add(10*time.Second)) // late: no longer expected, but it says how long
	r.add("d", normally, t0.Add(10*time.Second))
	expect(1, 1, 29*time.Second)
	r.add("d", normally, t0.Add(29*time.Second)) // it returned another way, and is stale again
	expect(1, 1, 31*time.Second)
	expect(0, 1, 2*time.Minute)
	if len(r.at)+len(r.out) > 0 {
		t.Errorf("%d and %d are kept of nothing", len(r.at), len(r.out))
	}
}

func TestAllows(t *testing.T) {
	t0 := schemas.Millis(1_780_000_000_000)
	one := []schemas.Window{{N: 1, Length: time.Minute}}
	ten := []schemas.Window{{N: 10, Length: time.Second}, {N: 100, Length: time.Minute}}
	for _, c := range []struct {
		name    string
		windows []schemas.Window
		given   []schemas.Millis
		d       time.Duration
		want    int
	}{
		{"no pace", nil, nil, time.Second, math.MaxInt},
		{"nothing given", one, nil, 30 * time.Second, 1},
		{"given just now", one, []schemas.Millis{t0}, 30 * time.Second, 0},
		{"free again by then", one, []schemas.Millis{t0.Add(-31 * time.Second)}, 30 * time.Second, 1},
		{"two windows", ten, []schemas.Millis{t0}, 5 * time.Second, 59},
		{"the longer one is full by then", ten, slices.Repeat([]schemas.Millis{t0}, 95), 5 * time.Second, 5},
	} {
		p := pace{times: c.given}
		if got := p.allows(c.windows, t0, c.d); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// TestCarrier: what is sent back returns on again, unless that is deep.
func TestCarrier(t *testing.T) {
	for _, c := range []struct {
		paused []int
		prio   int
		want   int
	}{
		{nil, normally, again},
		{[]int{normal, bulk}, normally, again},
		{[]int{again}, normally, urgent},
		{[]int{again}, urgently, bulk},
		{[]int{again, urgent}, normally, bulk},
		{[]int{again, bulk}, urgently, normal},
		{[]int{again, urgent, normal}, inBulk, again},
	} {
		l := &lanePart{}
		for i, name := range queueNames {
			l.queues[i] = newQueue(string(name))
			l.queues[i].paused = slices.Contains(c.paused, i)
		}
		if got := l.carrier(c.prio); got != c.want {
			t.Errorf("priority %d, %v deep: %s, want %s", c.prio, c.paused, queueNames[got], queueNames[c.want])
		}
	}
}

// TestNothingGoesRound: while no call can be made, what has returned and grown stale
// stays, and so do first attempts behind it; once one can be made, it goes back.
func TestNothingGoesRound(t *testing.T) {
	v := situation{stale: lines{normally: {returned: true, first: true}}, old: [priorities]int{normally: 10}, soon: true, pace: 1000}
	r := recall{windows: [priorities]window{normally: {size: 1}}}
	r.windows[normally].size = 5
	if p, half, ok := r.next(&v); ok {
		t.Errorf("%d, %d goes back while nothing can be called", p, half)
	}
	r.windows[normally].size = 50
	if _, half, ok := r.next(&v); !ok || half != first {
		t.Errorf("half %d, %v goes back, want a first attempt: the window has room", half, ok)
	}
	v.able, v.free = true, 1
	if p, _, ok := r.next(&v); !ok || p != normally {
		t.Errorf("nothing goes back (%d, %v) although a call can be made", p, ok)
	}
}

// TestEachPriorityGetsOn: however slow a lane is, and however many urgent messages keep
// coming whose decisions last, one whose decision does not last until the next permit of
// its priority is called.
func TestEachPriorityGetsOn(t *testing.T) {
	ms := time.Millisecond
	each := func(d time.Duration) []schemas.Window {
		return []schemas.Window{{Kind: schemas.WindowRolling, N: 1, Length: d}}
	}
	for _, c := range []struct {
		name  string
		world world
		least int // of 200 normal messages, in an hour
	}{
		{"two a second", world{pace: each(500 * ms), admission: always(200 * ms)}, 200},
		{"two a second, admission takes a second", world{pace: each(500 * ms), admission: always(time.Second)}, 150},
		{"one in five seconds", world{pace: each(5 * time.Second), admission: always(200 * ms)}, 60},
		{"one in five seconds, admission takes six", world{pace: each(5 * time.Second), admission: always(6 * time.Second)}, 20},
		{"one in five seconds, and decisions are too old", world{pace: each(5 * time.Second), admission: always(2 * time.Second), onWay: 1500 * ms}, 20},
		{"one in five seconds, and permits are committed late", world{pace: each(5 * time.Second), admission: always(200 * ms), commit: 1500 * ms}, 20},
		{"one a minute", world{pace: each(time.Minute), admission: always(200 * ms)}, 5},
		{"one after another, of five seconds", world{concurrency: always(1), latency: always(5 * time.Second), admission: always(200 * ms)}, 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := c.world
			w.staleAfter, w.others = time.Second, 24*time.Hour
			if w.concurrency == nil {
				w.concurrency, w.latency = always(64), always(100*ms)
			}
			w.arrive = func(at time.Duration, put func(int)) {
				if at%(300*ms) == 0 {
					put(urgently)
				}
			}
			x := newWorld(w, [priorities]int{normally: 200})
			for x.called[normally] < 200 && x.now.Sub(x.began) < time.Hour {
				x.step()
			}
			took := x.now.Sub(x.began)
			t.Logf("STALE %s: %d normal and %d urgent calls in %v, %d late, %d permits ran out, held for %v; decided again %d times, one at most %d", c.name,
				x.called[normally], x.called[urgently], took, x.late, x.wasted, time.Duration(x.holds)*10*ms, x.moves, x.most)
			if x.called[normally] < c.least || x.called[urgently] < 2*x.called[normally] || time.Duration(x.holds)*10*ms > took/8 {
				t.Errorf("windows %+v, away %v", x.l.recall.windows, x.l.recall.away)
			}
			if (x.late > 0) != (c.world.onWay > 0 || c.world.commit > 0) {
				t.Errorf("%d are late", x.late)
			}
		})
	}
}
