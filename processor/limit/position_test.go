package limit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// listed is a place in a plain list, against which a table is held.
type listed struct{ t, cost schemas.Millis }

// leftIn counts a window by hand: n in an hour, or n in a day of UTC.
func leftIn(places []listed, n int64, calendar bool, now schemas.Millis) int64 {
	for _, p := range places {
		if p.t <= now && (calendar && p.t/day == now/day || !calendar && p.t > now-hour) {
			n -= int64(p.cost)
		}
	}
	return max(n, 0)
}

// Moves and give-backs at every position, whatever the places went through
// before: what is left in both windows is what the list says, now and at every
// later moment at which it changes.
func TestEveryPosition(t *testing.T) {
	noon := at(t, "2026-11-21T12:00:00Z")
	type setup struct {
		name   string
		before func(l *schemas.Limit, total int64) // the policy under which the places are taken
		times  func(i int) schemas.Millis
		record bool
		now    schemas.Millis
	}
	every := func(i int) schemas.Millis { return noon + schemas.Millis(i)*second }
	for _, s := range []setup{
		{"as they are", nil, every, false, noon + 40*second},
		{"in one millisecond", nil, func(int) schemas.Millis { return noon }, false, noon + 1},
		{"after a lowered n", func(l *schemas.Limit, total int64) { l.Allow = hourAndDay(t, 2*total) }, every, false, noon + 40*second},
		{"after a raised n of an override", func(l *schemas.Limit, total int64) {
			l.Allow = hourAndDay(t, 1)
			l.Overrides = []schemas.Override{{To: one.Recipient, Allow: hourAndDay(t, total)}}
		}, every, false, noon + 40*second},
		{"after an override that let more pass", func(l *schemas.Limit, total int64) {
			l.Overrides = []schemas.Override{{To: one.Recipient, Allow: hourAndDay(t, 3*total)}}
		}, every, false, noon + 40*second},
		{"after an import", nil, func(i int) schemas.Millis { return noon - schemas.Millis(i*37%13)*minute }, true, noon + 40*second},
		{"after a left window", nil, func(i int) schemas.Millis { return noon + schemas.Millis(i)*3*minute }, false, noon + hour + 40*minute},
		{"on a new day", nil, func(i int) schemas.Millis {
			return at(t, "2026-11-21T23:59:50Z") + schemas.Millis(i)*second
		}, false, at(t, "2026-11-22T00:00:35Z")},
	} {
		for _, parts := range []bool{false, true} {
			for _, size := range []int{1, 2, 3, 7, 10, 11, 30} {
				for _, lower := range []bool{false, true} {
					for k := range size {
						for _, move := range []bool{false, true} {
							name := fmt.Sprintf("%s, parts %v, %d places, lowered %v, number %d, move %v", s.name, parts, size, lower, k, move)
							cost := func(i int) int64 {
								if parts {
									return 1 + int64(i*7%3)
								}
								return 1
							}
							total := int64(0)
							for i := range size {
								total += cost(i)
							}
							limit := schemas.Limit{Name: "a", Per: []string{"recipient"}, Allow: hourAndDay(t, total)}
							if parts {
								limit.Count = schemas.CountSegments
							}
							before := limit
							if s.before != nil {
								s.before(&before, total)
							}
							r, table := rulesOf(t, before), NewTable()
							var places []listed
							var held [][]schemas.Charge
							for i := range size {
								subject, when := *one, s.times(i)
								subject.Segments = cost(i)
								if s.record {
									held = append(held, table.Record(r, &subject, when, noon))
								} else {
									res := table.Decide(r, &subject, nil, when)
									if !res.OK {
										t.Fatalf("%s: setup refused by %+v", name, res.Refused)
									}
									held = append(held, res.Charges)
								}
								places = append(places, listed{when, schemas.Millis(cost(i))})
							}
							n := total
							if lower {
								n = max(total/2, cost(k))
								limit.Allow = hourAndDay(t, n)
							}
							r = rulesOf(t, limit)
							table.Commit()
							seen := places[k].t > s.now-hour || places[k].t/day == s.now/day
							without := slices.Delete(slices.Clone(places), k, k+1)
							if move {
								subject := *one
								subject.Segments = cost(k)
								res := table.Decide(r, &subject, held[k], s.now)
								fits := min(leftIn(without, n, false, s.now), leftIn(without, n, true, s.now)) >= cost(k)
								if res.OK != fits {
									t.Fatalf("%s: moved %v, by the list %v: %+v", name, res.OK, fits, res)
								}
								if fits {
									if seen && !slices.Equal(res.Returned, held[k]) {
										t.Fatalf("%s: returned %v, missing %v", name, res.Returned, res.Missing)
									}
									places = append(without, listed{s.now, schemas.Millis(cost(k))})
								}
							} else {
								returned, missing := table.GiveBack(r, held[k], s.now)
								if seen && (!slices.Equal(returned, held[k]) || len(missing) > 0) {
									t.Fatalf("%s: returned %v, missing %v", name, returned, missing)
								}
								places = without
							}
							moments := []schemas.Millis{s.now, s.now + 1, (s.now/day+1)*day - 1, (s.now/day + 1) * day}
							for _, p := range places {
								moments = append(moments, p.t+hour-1, p.t+hour, p.t+hour+1)
							}
							for _, m := range moments {
								if m < s.now {
									continue
								}
								left := table.Peek(r, one, m)
								for i, calendar := range []bool{false, true} {
									if want := leftIn(places, n, calendar, m); left[i].Left != want {
										t.Fatalf("%s: at %s %d are left in %s, by the list %d", name, m, left[i].Left, left[i].Window, want)
									}
								}
							}
						}
					}
				}
			}
		}
	}
}

func hourAndDay(t testing.TB, n int64) []schemas.Window {
	return windows(t, fmt.Sprintf("%d/1h", n), fmt.Sprintf("%d/calendar-day", n))
}

// Whatever is tried, moved and given back: no trailing window of a standing
// place ever holds more than n, nor does any calendar day, over the days on
// which clocks change, in both directions, in four zones; and each refusal has
// a window that is full.
func TestTrailingWindowsNeverOver(t *testing.T) {
	for _, c := range []struct{ zone, from string }{
		{"Europe/Berlin", "2026-03-28T12:00:00Z"}, {"Europe/Berlin", "2026-10-24T12:00:00Z"},
		{"America/Sao_Paulo", "2018-11-03T12:00:00Z"}, {"America/Sao_Paulo", "2018-02-17T12:00:00Z"},
		{"America/Havana", "2026-03-07T12:00:00Z"}, {"America/Havana", "2026-10-31T12:00:00Z"},
		{"Australia/Lord_Howe", "2026-04-04T03:00:00Z"}, {"Australia/Lord_Howe", "2026-10-03T03:00:00Z"},
		{"UTC", "2026-02-27T12:00:00Z"}, {"Asia/Shanghai", "2026-12-30T12:00:00Z"},
	} {
		t.Run(c.zone+" "+c.from, func(t *testing.T) {
			l := perRecipient(t, "a", "2/60s", "5/1h", "7/calendar-hour", "40/calendar-day", "95/calendar-month")
			l.Timezone = c.zone
			r, table, rng := rulesOf(t, l), NewTable(), rand.New(rand.NewPCG(9, uint64(len(c.from)+len(c.zone))))
			looks := newOracle()
			limits := oracleLimits(&schemas.Policy{Limits: []schemas.Limit{l}}, nil)
			type place struct {
				t      schemas.Millis
				charge []schemas.Charge
			}
			var stand []place
			// in counts the places that a window sees at now.
			in := func(w schemas.Window, now schemas.Millis) (n int64) {
				for _, p := range stand {
					if looks.sees(&limits[0], w, int64(p.t), int64(now)) {
						n++
					}
				}
				return n
			}
			admitted, refused, begin := 0, 0, at(t, c.from)
			for now := begin; now < begin+3*day; now += schemas.Millis(rng.Int64N(int64(8 * minute))) {
				if len(stand) > 0 && rng.IntN(6) == 0 {
					i := len(stand) - 1 - rng.IntN(min(len(stand), 8))
					table.GiveBack(r, stand[i].charge, now)
					stand = slices.Delete(stand, i, i+1)
				}
				var old []schemas.Charge
				moved := -1
				if len(stand) > 0 && rng.IntN(4) == 0 {
					moved = len(stand) - 1 - rng.IntN(min(len(stand), 8))
					old = stand[moved].charge
				}
				for range 1 + rng.IntN(3) {
					res := table.Decide(r, one, old, now)
					kept := stand
					if moved >= 0 {
						stand = slices.Delete(slices.Clone(stand), moved, moved+1)
					}
					full := false
					for _, w := range l.Allow {
						full = full || in(w, now) >= w.N
					}
					if res.OK == full {
						t.Fatalf("at %s: passed %v, and a window is full: %v", now, res.OK, full)
					}
					if !res.OK {
						stand = kept
						refused++
						break
					}
					stand = append(stand, place{now, res.Charges})
					for _, w := range l.Allow {
						if n := in(w, now); n > w.N {
							t.Fatalf("at %s: %d in %s", now, n, w)
						}
					}
					admitted++
					old, moved = nil, -1
				}
			}
			if admitted < 100 || refused < 100 {
				t.Errorf("%d admitted, %d refused: the test shows little", admitted, refused)
			}
		})
	}
}
