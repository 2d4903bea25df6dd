package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

// The sums of a list are those of its places, added up one by one, whatever came and
// went in whatever order.
func TestSumsOfPlaces(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		s, plain := new(list), []place(nil)
		for range 120 {
			if len(plain) > 0 && rnd.IntN(3) == 0 {
				at := rnd.IntN(len(plain))
				s.remove(at)
				plain = slices.Delete(plain, at, at+1)
			} else {
				s.add(place{t: schemas.Millis(rnd.IntN(50)), cost: 1 + rnd.Int64N(3), message: fmt.Sprint(rnd.IntN(9))})
				plain = slices.Clone(s.all())
			}
			if !slices.Equal(s.all(), plain) || !slices.IsSortedFunc(plain, func(a, b place) int { return int(a.t - b.t) }) {
				t.Fatalf("%v, want %v", s.all(), plain)
			}
			from, until, without := schemas.Millis(rnd.IntN(60)), schemas.Millis(rnd.IntN(60)), []string{"", "0", "none"}[rnd.IntN(3)]
			var want int64
			for _, p := range plain {
				if from <= p.t && p.t <= until && (without == "" || p.message != without) {
					want += p.cost
				}
			}
			if got := s.sum(from, until, without); got != want {
				t.Fatalf("from %d until %d without %q: %d, want %d in %v", from, until, without, got, want, plain)
			}
		}
	}
}

// An hour that a clock shows twice is two, and so are their minutes; its day is one.
func TestDatesOfARepeatedHour(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	first := schemas.MillisOf(time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC)) // 02:30 of summer, and an hour later of winter
	for unit, same := range map[string]bool{"minute": false, "hour": false, "day": true, "month": true} {
		if got := date(first, zone, unit) == date(first.Add(time.Hour), zone, unit); got != same {
			t.Errorf("the same %s: %v", unit, got)
		}
	}
}
