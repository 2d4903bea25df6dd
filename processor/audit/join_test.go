package audit

import (
	"testing"

	"github.com/weirhq/weir/schemas"
)

func TestJoin(t *testing.T) {
	it := func(n int) item { return item{id: [2]uint64{uint64(n), 7}, t: schemas.Millis(n), rest: 3} }
	j := newJoin(10, 100_000)
	for n := range 50_000 {
		j.put(it(n), 1, schemas.Millis(n))
	}
	for n := 50_000 - 1; n >= 0; n-- {
		switch n {
		case 77: // lost
		case 78:
			j.put(it(n), -1, schemas.Millis(n))
			fallthrough // twice
		default:
			j.put(it(n), -1, schemas.Millis(n))
		}
	}
	j.put(it(200_000), 1, 200_000) // in the tail: there, but with an earlier time of its own
	j.put(it(200_000), -1, 99_000)
	j.put(it(200_001), 1, 200_000) // in the tail of both
	j.put(it(200_001), -1, 200_000)
	j.put(it(200_002), -1, 200_000) // beyond the cut
	j.put(it(200_003), 1, 99_000)   // the other way round
	j.put(it(200_003), -1, 200_000)
	only, extra, tangled := j.difference()
	if len(only) != 1 || only[0] != it(77) || len(extra) != 1 || extra[0] != it(78) || len(tangled) != 0 || j.before != 10 {
		t.Errorf("only %v, extra %v, %d tangled, %d before", only, extra, len(tangled), j.before)
	}
	lost := newJoin(0, 1)
	lost.put(it(9), 1, 5)
	if only, _, _ := lost.difference(); len(only) != 1 {
		t.Errorf("lost in the tail: %v", only)
	}
	many := newJoin(0, 1<<60)
	for n := range 3 * cells {
		many.put(it(n), 1, 0)
	}
	if only, _, tangled := many.difference(); len(only)+len(tangled) == 0 || len(tangled) == 0 {
		t.Errorf("%d named, %d cells tangled", len(only), len(tangled))
	}
}

func TestPlaces(t *testing.T) {
	p := newPlaces()
	k := sumOf("l", "s")
	for i := range 5 {
		p.add(k, schemas.Millis(100+i*10), int64(i+1), uint64(i), 0)
	}
	if n, oldest := p.count(k, 110, 140, nil, 9); n != 2+3+4+5 || oldest != 110 {
		t.Errorf("%d, oldest %d", n, oldest)
	}
	if n, _ := p.count(k, 110, 140, []schemas.Charge{{T: 120, Cost: 3}}, 2); n != 2+4+5 {
		t.Errorf("without its own: %d", n)
	}
	for n, want := range map[int64]schemas.Millis{1: 110, 2: 110, 3: 120, 5: 120, 6: 130, 14: 140} {
		if got := p.leaving(k, 110, 140, nil, 9, 14, n); got != want {
			t.Errorf("%d leave with the place of %d, want %d", n, got, want)
		}
	}
	if p.remove(k, 120, 3, 1) || p.remove(k, 121, 3, 2) || p.remove(k, 120, 2, 2) || !p.remove(k, 120, 3, 2) || p.remove(k, 120, 3, 2) {
		t.Error("a place is taken down once, by its message, time and cost")
	}
	p.add(k, 200, 1, 8, 135)
	if n, _ := p.count(k, 0, 300, nil, 9); n != 5+1 {
		t.Errorf("after what is unseen was forgotten: %d", n)
	}
	p.sweep(201)
	if n, _ := p.count(k, 0, 300, nil, 9); n != 0 || len(p.heads) != 0 {
		t.Errorf("after a sweep: %d", n)
	}
}

// The two sides' times of one item may lie on either side of the tail's begin; of
// many that do, several come into one cell.
func TestJoinAtTheTailsBegin(t *testing.T) {
	const tail = schemas.Millis(1_000_000)
	for _, late := range []schemas.Millis{0, 1, 10_000, -2000} { // the further side's, after the first's
		j := newJoin(0, tail)
		for i := range 20_000 {
			it := item{id: [2]uint64{1, uint64(i)}, t: 1}
			at := tail + schemas.Millis(i%20_000) - 10_000
			j.put(it, 1, at)
			j.put(it, -1, at+late)
		}
		if only, extra, tangled := j.difference(); len(only)+len(extra)+len(tangled) > 0 {
			t.Errorf("the further side %d ms later: %d only, %d extra, %d tangled", late, len(only), len(extra), len(tangled))
		}
	}
}

// What both sides have is no difference at any cut, however far the tail's begin moves on
// and whichever side is read first; and what one side lacks is named at every later cut.
func TestJoinGoesOn(t *testing.T) {
	const perCut = 1000
	for _, apart := range []bool{false, true} {
		j := newJoin(0, 0)
		j.apart = apart
		lost := item{id: [2]uint64{1, 7*perCut + 5}, t: 1}
		type side struct {
			item
			n    int64
			when schemas.Millis
		}
		var owed []side // the further side's, one cut late
		for cut := range 40 {
			now := schemas.Millis(1_000_000 + cut*10_000)
			j.advance(now - 120_000)
			for _, s := range owed {
				j.put(s.item, s.n, s.when)
			}
			owed = owed[:0]
			for i := range perCut {
				it := item{id: [2]uint64{1, uint64(cut*perCut + i)}, t: 1}
				at := now - schemas.Millis(i)
				first, second := side{it, 1, at}, side{it, -1, at + schemas.Millis(i%5000)}
				if apart {
					second.when = at
				}
				switch {
				case it == lost:
					j.put(first.item, 1, at)
				case apart && i%3 == 0: // an owner's log and home's: either may come first
					j.put(first.item, 1, at)
					owed = append(owed, second)
				case i%2 == 0:
					j.put(second.item, -1, second.when)
					owed = append(owed, first)
				default:
					j.put(first.item, 1, at)
					j.put(second.item, -1, second.when)
				}
			}
			for range 2 { // to look changes nothing
				only, extra, tangled := j.difference()
				known := cut >= 7 && (!apart || cut >= 7+12)
				if len(extra)+len(tangled) > 0 || len(only) > 0 != known || known && only[0] != lost {
					t.Fatalf("apart %v, cut %d: only %v, extra %v, %d tangled", apart, cut, only, extra, len(tangled))
				}
			}
		}
		if len(j.tail) > 20*perCut {
			t.Errorf("%d items in the tail", len(j.tail))
		}
	}
}

// What began before --since is not compared; only what began before the retained log is
// unknown, and each is told once.
func TestJoinBeforeSince(t *testing.T) {
	j := newJoin(1000, 1<<60)
	j.retained = 500
	for began, n := range map[schemas.Millis]int64{400: 1, 600: 0, 1000: 0} {
		j.putOf(item{id: [2]uint64{1, uint64(began)}, t: 2000}, began, 1, 2000)
		if got := j.untold(); got != n {
			t.Errorf("began at %d: %d unknown, want %d", began, got, n)
		}
	}
	if only, _, _ := j.difference(); len(only) != 1 {
		t.Errorf("compared: %v", only)
	}
}
