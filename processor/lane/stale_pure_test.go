package lane

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

// TestStaleMillion drains a stale backlog of a million in simulated time, with
// the lane's own pace, bounds and memory of what it gave back: at the pace, or
// at what concurrency allows once the lane has shown it, and each goes back about once.
func TestStaleMillion(t *testing.T) {
	perSecond := func(n int64) []schemas.Window {
		return []schemas.Window{{Kind: schemas.WindowRolling, N: n, Length: time.Second}}
	}
	for _, c := range []struct {
		name        string
		n           int
		pace        []schemas.Window
		concurrency int
		latency     time.Duration
		admission   time.Duration // from the give-back to the record on again
		lost        int           // of ten, that never come back here
		staleAfter  time.Duration
		rate        float64 // calls a second that could be made
		least       float64 // share of it that is
	}{
		{"100 a second", 1_000_000, perSecond(100), 64, 100 * time.Millisecond, 200 * time.Millisecond, 0, time.Minute, 100, 0.98},
		{"100 a second, admission is slow", 1_000_000, perSecond(100), 64, 100 * time.Millisecond, 5 * time.Second, 0, 10 * time.Second, 100, 0.98},
		{"no pace", 1_000_000, nil, 256, 100 * time.Millisecond, 200 * time.Millisecond, 0, 10 * time.Second, 2560, 0.98},
		{"no pace, admission is slow", 1_000_000, nil, 256, 100 * time.Millisecond, 4 * time.Second, 0, 10 * time.Second, 2560, 0.97},
		{"no pace, half go elsewhere", 1_000_000, nil, 256, 100 * time.Millisecond, 500 * time.Millisecond, 5, 10 * time.Second, 2560, 0.98},
		{"concurrency below the pace", 1_000_000, perSecond(5000), 64, 100 * time.Millisecond, 200 * time.Millisecond, 0, 10 * time.Second, 640, 0.98},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const step = schemas.Millis(10) // a transaction
			var (
				p, back  pace
				able     ability
				away     returns
				transit  []schemas.Millis // due on again
				ids      []string
				queued   []schemas.Millis // decided at, on again
				flying   []schemas.Millis // end
				calls    int
				moves    int
				gone     int
				backlog  = c.n
				now      = schemas.Millis(1_780_000_000_000)
				began    = now
				finished schemas.Millis
				warm     schemas.Millis // a tenth is gone: the lane has shown what it can
				warmed   int
			)
			giveBack := func() bool {
				if back.next(c.pace, now) > now {
					return false
				}
				back.add(now)
				moves++
				id := fmt.Sprint(moves)
				away.add(id, now)
				if moves%10 < c.lost {
					gone++
					return true
				}
				transit, ids = append(transit, now.Add(c.admission)), append(ids, id)
				return true
			}
			for ; calls+gone < c.n && now.Sub(began) < 5*time.Hour; now += step {
				for len(flying) > 0 && flying[0] <= now {
					flying = flying[1:]
				}
				for len(transit) > 0 && transit[0] <= now {
					away.arrive(ids[0], now)
					queued = append(queued, transit[0])
					transit, ids = transit[1:], ids[1:]
				}
				if warm == 0 && calls+gone >= c.n/10 {
					warm, warmed = now, calls
				}
				p.trim(time.Second, now)
				back.trim(time.Second, now)
				for budget := maxPerTx; budget > 0; budget-- {
					if len(queued) > 0 && now.Sub(queued[0]) > c.staleAfter {
						if giveBack() {
							queued = queued[1:]
							continue
						}
						break
					}
					if backlog > 0 && !enoughBack(len(queued), away.expected(now), c.concurrency, able.look(now), c.staleAfter, away.took) && giveBack() {
						backlog--
						continue
					}
					if len(queued) == 0 || len(flying) >= c.concurrency || p.next(c.pace, now) > now {
						break
					}
					p.add(now)
					able.add(now, 1)
					calls++
					finished = now
					queued, flying = queued[1:], append(flying, now.Add(c.latency))
				}
			}
			took := finished.Sub(began).Seconds()
			rate := float64(calls-warmed) / finished.Sub(warm).Seconds()
			t.Logf("STALE %s: a backlog of %d is gone after %.0f s: %d calls, %.0f a second after the first tenth (%.0f s), %.1f %% of what could be; each went back %.3f times",
				c.name, c.n, took, calls, rate, warm.Sub(began).Seconds(), 100*rate/c.rate, float64(moves)/float64(c.n))
			if calls+gone != c.n || rate < c.least*c.rate || float64(moves) > 1.02*float64(c.n) {
				t.Errorf("%d calls, %d gone elsewhere, %.1f calls a second, %d moves", calls, gone, rate, moves)
			}
		})
	}
}

func TestReturns(t *testing.T) {
	var r returns
	t0 := schemas.Millis(1_780_000_000_000)
	expect := func(want int, at time.Duration) {
		t.Helper()
		if got := r.expected(t0.Add(at)); got != want {
			t.Errorf("%d expected at %v, want %d", got, at, want)
		}
	}
	r.add("a", t0)
	r.add("b", t0)
	r.add("aborted", t0)
	r.undo("aborted")
	r.undo("aborted")
	expect(2, time.Second)
	r.arrive("stranger", t0)
	r.arrive("a", t0.Add(1500*time.Millisecond))
	r.arrive("a", t0.Add(1500*time.Millisecond))
	expect(1, 1600*time.Millisecond)
	expect(1, 2900*time.Millisecond) // twice what a took
	expect(0, 3*time.Second)
	r.arrive("b", t0.Add(10*time.Second)) // late: no longer expected, but it says how long
	expect(0, 10*time.Second)
	r.add("c", t0.Add(10*time.Second))
	expect(1, 29*time.Second)
	r.add("c", t0.Add(29*time.Second)) // it came back another way, and is stale again
	expect(1, 31*time.Second)
	expect(0, 2*time.Minute)
	if len(r.at)+len(r.sent) > 0 {
		t.Errorf("%d and %d are kept of nothing", len(r.at), len(r.sent))
	}
}

func TestAbility(t *testing.T) {
	var a ability
	t0 := schemas.Millis(1_780_000_000_000)
	for s := range schemas.Millis(10) {
		a.add(t0+1000*s, 100)
	}
	if got := a.look(t0 + 10_000); got != 100 {
		t.Errorf("%v a second, want 100", got)
	}
	if got := a.look(t0 + 10_000 + 25_000); got < 45 || got > 60 {
		t.Errorf("%v a second after 25 s of nothing, want about half", got)
	}
	if got := a.look(t0 + 1_000_000); got != 0 {
		t.Errorf("%v a second after a long silence", got)
	}
}

func TestEnoughBack(t *testing.T) {
	for _, c := range []struct {
		name              string
		waiting, expected int
		concurrency       int
		rate              float64
		stale, took       time.Duration
		want              bool
	}{
		{"nothing known", 0, 63, 8, 0, time.Minute, 0, false},
		{"nothing known, a few on their way", 0, 64, 8, 0, time.Minute, 0, true},
		{"concurrency is more", 100, 155, 256, 0, time.Minute, 0, false},
		{"concurrency on their way", 100, 156, 256, 0, time.Minute, 0, true},
		{"half of stale_after at 100/s", 499, 0, 8, 100, 10 * time.Second, 0, false},
		{"as much waits", 500, 0, 8, 100, 10 * time.Second, 2 * time.Second, true},
		{"more may be on their way to a slow admission", 400, 399, 8, 100, 10 * time.Second, 2 * time.Second, false},
		{"but not without end", 400, 400, 8, 100, 10 * time.Second, 2 * time.Second, true},
	} {
		if got := enoughBack(c.waiting, c.expected, c.concurrency, c.rate, c.stale, c.took); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
