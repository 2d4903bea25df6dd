package limit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhq/weir/schemas"
)

const (
	second = schemas.Millis(1000)
	minute = 60 * second
	hour   = 60 * minute
)

func at(t testing.TB, text string) schemas.Millis {
	t.Helper()
	m, err := schemas.ParseMillis(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func windows(t testing.TB, texts ...string) []schemas.Window {
	t.Helper()
	var out []schemas.Window
	for _, text := range texts {
		w, err := schemas.ParseWindow(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, w)
	}
	return out
}

func perRecipient(t testing.TB, name string, allow ...string) schemas.Limit {
	return schemas.Limit{Name: name, Per: []string{"recipient"}, Allow: windows(t, allow...)}
}

func rulesOf(t testing.TB, limits ...schemas.Limit) *Rules {
	t.Helper()
	r, err := Compile(&schemas.Policy{Limits: limits}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var one = &Subject{Recipient: "+8613800000000", Class: "verify"}

func passes(t *testing.T, table *Table, r *Rules, now schemas.Millis) []schemas.Charge {
	t.Helper()
	res := table.Decide(r, one, nil, now)
	if !res.OK {
		t.Fatalf("at %s: refused by %+v, must pass", now, res.Refused)
	}
	return res.Charges
}

func refuses(t *testing.T, table *Table, r *Rules, now, retry schemas.Millis, windows ...string) {
	t.Helper()
	res := table.Decide(r, one, nil, now)
	var full []string
	for _, e := range res.Refused {
		full = append(full, e.Window)
	}
	if res.OK || !slices.Equal(full, windows) || res.RetryAt != retry {
		t.Fatalf("at %s: passed %v, full %v, retry at %s; want %v, retry at %s", now, res.OK, full, res.RetryAt, windows, retry)
	}
}

// The example of the contract: verification codes 1/60s, 5/1h, 10/calendar-day.
func TestVerificationCodes(t *testing.T) {
	l := perRecipient(t, "verify", "1/60s", "5/1h", "10/calendar-day")
	l.Timezone = "Asia/Shanghai"
	r, table := rulesOf(t, l), NewTable()
	begin := at(t, "2026-11-21T20:00:00+08:00")
	passes(t, table, r, begin)
	refuses(t, table, r, begin, begin+minute, "1/60s")
	refuses(t, table, r, begin+minute-1, begin+minute, "1/60s")
	for i := range 4 {
		passes(t, table, r, begin+schemas.Millis(i+1)*minute)
	}
	refuses(t, table, r, begin+4*minute+1, begin+hour, "5/1h", "1/60s")
	refuses(t, table, r, begin+hour-1, begin+hour, "5/1h")
	for i := range 5 { // each as soon as the one an hour before leaves
		passes(t, table, r, begin+hour+schemas.Millis(i)*minute)
	}
	midnight := at(t, "2026-11-22T00:00:00+08:00")
	refuses(t, table, r, begin+hour+4*minute, midnight, "10/calendar-day", "5/1h", "1/60s")
	refuses(t, table, r, midnight-1, midnight, "10/calendar-day")
	passes(t, table, r, midnight)
	refuses(t, table, r, midnight+1, midnight+minute, "1/60s")
}

func TestWindowEdges(t *testing.T) {
	begin := at(t, "2026-11-21T12:00:00Z")
	for _, length := range []schemas.Millis{1, 2, 1000, minute, 31 * day} {
		for _, n := range []int{1, 2, 3, 10, 11, 40} {
			r := rulesOf(t, perRecipient(t, "a", fmt.Sprintf("%d/%dms", n, length)))
			table := NewTable()
			for range n { // all in one millisecond: each counts
				passes(t, table, r, begin)
			}
			refuses(t, table, r, begin, begin+length, fmt.Sprintf("%d/%s", n, windows(t, fmt.Sprintf("1/%dms", length))[0].UnitKey()))
			refuses(t, table, r, begin+length-1, begin+length, fmt.Sprintf("%d/%s", n, windows(t, fmt.Sprintf("1/%dms", length))[0].UnitKey()))
			for range n {
				passes(t, table, r, begin+length)
			}
			refuses(t, table, r, begin+length, begin+2*length, fmt.Sprintf("%d/%s", n, windows(t, fmt.Sprintf("1/%dms", length))[0].UnitKey()))
			after := NewTable() // and one millisecond later than it need be
			for range n {
				passes(t, after, r, begin)
			}
			for range n {
				passes(t, after, r, begin+length+1)
			}
			table.Commit()
			if table.Len() != 1 {
				t.Fatalf("%d slots", table.Len())
			}
		}
	}
}

func TestTimeNeverGoesBack(t *testing.T) {
	r, table := rulesOf(t, perRecipient(t, "a", "1/60s")), NewTable()
	begin := at(t, "2026-11-21T12:00:00Z")
	passes(t, table, r, begin)
	refuses(t, table, r, begin-hour, begin+minute, "1/60s")
	other := &Subject{Recipient: "+15005550006"}
	if res := table.Decide(r, other, nil, -5); res.Charges[0].T != begin {
		t.Fatalf("a place at %s, before the table's time", res.Charges[0].T)
	}
}

// A transaction may be rolled back because its time was wrong.
func TestRollbackTakesTimeBack(t *testing.T) {
	r, table := rulesOf(t, perRecipient(t, "a", "1/60s")), NewTable()
	begin := at(t, "2026-11-21T12:00:00Z")
	passes(t, table, r, begin)
	table.Commit()
	passes(t, table, r, begin+hour)
	table.Rollback()
	refuses(t, table, r, begin+minute-1, begin+minute, "1/60s")
	passes(t, table, r, begin+minute)
}

func TestCostBeyondN(t *testing.T) {
	for count, subject := range map[schemas.Count]func(n int64) *Subject{
		schemas.CountSegments: func(n int64) *Subject { return &Subject{Recipient: "+1", Segments: n, Cost: 9} },
		schemas.CountCost:     func(n int64) *Subject { return &Subject{Recipient: "+1", Segments: 9, Cost: n} },
	} {
		t.Run(string(count), func(t *testing.T) {
			l := perRecipient(t, "a", "3/60s", "5/1h")
			l.Count = count
			r, table := rulesOf(t, l), NewTable()
			begin := at(t, "2026-11-21T12:00:00Z")
			res := table.Decide(r, subject(4), nil, begin)
			if res.OK || res.RetryAt != 0 || len(res.Refused) != 1 || res.Refused[0].Window != "3/60s" {
				t.Fatalf("%+v", res)
			}
			// One window is full for a while and another for ever: for ever.
			table.Decide(r, subject(3), nil, begin)
			if res = table.Decide(r, subject(4), nil, begin); res.OK || res.RetryAt != 0 || len(res.Refused) != 2 {
				t.Fatalf("%+v", res)
			}
			if res = table.Decide(r, subject(3), nil, begin+minute); res.OK || res.RetryAt != begin+hour {
				t.Fatalf("%+v", res)
			}
			if res = table.Decide(r, subject(2), nil, begin+minute); !res.OK || res.Charges[0].Cost != 2 {
				t.Fatalf("%+v", res)
			}
		})
	}
}

// A subject that does not say its cost takes one place, as does any in a limit that does
// not count it; what a cost took is given back whole.
func TestCostIsOfOneLimitAlone(t *testing.T) {
	weight, number := perRecipient(t, "weight", "10/60s", "20/calendar-day"), perRecipient(t, "number", "10/60s")
	weight.Count = schemas.CountCost
	r, table := rulesOf(t, weight, number), NewTable()
	begin := at(t, "2026-11-21T12:00:00Z")
	left := func() []int64 {
		var all []int64
		for _, m := range table.Peek(r, &Subject{Recipient: "+1"}, begin) {
			all = append(all, m.Left)
		}
		return all
	}
	first := table.Decide(r, &Subject{Recipient: "+1", Cost: 7}, nil, begin)
	if got := left(); !first.OK || !slices.Equal(got, []int64{3, 13, 9}) {
		t.Fatalf("%v left: %+v", got, first)
	}
	table.Decide(r, &Subject{Recipient: "+1"}, nil, begin)
	if got := left(); !slices.Equal(got, []int64{2, 12, 8}) {
		t.Fatalf("%v left", got)
	}
	if returned, missing := table.GiveBack(r, first.Charges, begin); !slices.Equal(returned, first.Charges) || len(missing) > 0 {
		t.Fatalf("returned %v, missing %v", returned, missing)
	}
	if got := left(); !slices.Equal(got, []int64{9, 19, 9}) {
		t.Fatalf("%v left", got)
	}
}

// The greatest costs, of messages that were sent elsewhere: a counter stops at its end.
func TestGreatestCosts(t *testing.T) {
	l := perRecipient(t, "a", "5/60s", "1000000000/calendar-day", "bucket 1000000000 refill 1000/1ms")
	l.Count = schemas.CountCost
	r, table := rulesOf(t, l), NewTable()
	begin := at(t, "2026-11-21T12:00:00Z")
	s := &Subject{Recipient: "+1", Cost: schemas.MaxCost}
	for range 5000 {
		table.Record(r, s, begin, begin)
	}
	if res := table.Decide(r, s, nil, begin); res.OK || res.Refused[0].Count != 5000*schemas.MaxCost && res.Refused[1].Count != 5000*schemas.MaxCost {
		t.Fatalf("%+v", res)
	}
	for _, m := range table.Peek(r, s, begin) {
		if m.Left != 0 {
			t.Errorf("%s: %d left", m.Window, m.Left)
		}
	}
}

func TestAllOrNothing(t *testing.T) {
	r, table := rulesOf(t, perRecipient(t, "a", "5/1h"), perRecipient(t, "b", "1/60s")), NewTable()
	begin := at(t, "2026-11-21T12:00:00Z")
	passes(t, table, r, begin)
	for i := range schemas.Millis(100) {
		refuses(t, table, r, begin+i, begin+minute, "1/60s")
	}
	left := table.Peek(r, one, begin+100)
	if len(left) != 2 || left[0].Left != 4 || left[0].Reset != begin+hour || left[1].Left != 0 || left[1].Reset != begin+minute {
		t.Fatalf("refusals took places: %+v", left)
	}
}

func TestRetryMovesItsPlace(t *testing.T) {
	r, table := rulesOf(t, perRecipient(t, "a", "2/60s", "3/calendar-day")), NewTable()
	begin := at(t, "2026-11-21T12:00:00Z")
	first := passes(t, table, r, begin)
	passes(t, table, r, begin+10*second)
	refuses(t, table, r, begin+20*second, begin+minute, "2/60s")

	// The message itself may go again, since its own place does not count.
	moved := table.Decide(r, one, first, begin+20*second)
	if !moved.OK || !slices.Equal(moved.Returned, first) || moved.Charges[0].T != begin+20*second {
		t.Fatalf("%+v", moved)
	}
	refuses(t, table, r, begin+30*second, begin+70*second, "2/60s")

	// Its old place is gone: a second try with it finds nothing and is refused.
	again := table.Decide(r, one, first, begin+30*second)
	if again.OK || again.RetryAt != begin+70*second || len(again.Missing)+len(again.Returned) > 0 {
		t.Fatalf("%+v", again)
	}
	if again = table.Decide(r, one, first, begin+70*second); !again.OK || !slices.Equal(again.Missing, first) {
		t.Fatalf("%+v", again)
	}
	// Moved once, taken three times: the day is full.
	refuses(t, table, r, begin+hour, at(t, "2026-11-22T00:00:00Z"), "3/calendar-day")
}

func TestRefusedRetryKeepsItsPlace(t *testing.T) {
	a, b := perRecipient(t, "a", "1/60s"), perRecipient(t, "b", "1/60s")
	b.Match.Provider = []string{"p"}
	r, table := rulesOf(t, a, b), NewTable()
	begin := at(t, "2026-11-21T12:00:00Z")
	held := passes(t, table, r, begin)
	// Another limit applies now, with the provider, and is full.
	onlyB := rulesOf(t, b)
	viaP := &Subject{Recipient: one.Recipient, Provider: "p"}
	if res := table.Decide(onlyB, viaP, nil, begin+second); !res.OK {
		t.Fatal("setup")
	}
	for range 2 { // a refusal changes nothing, however often
		res := table.Decide(r, viaP, held, begin+2*second)
		if res.OK || res.RetryAt != begin+61*second || len(res.Refused) != 1 || res.Refused[0].Limit != "b" {
			t.Fatalf("%+v", res)
		}
	}
	refuses(t, table, r, begin+3*second, begin+minute, "1/60s")
	if returned, missing := table.GiveBack(r, held, begin+3*second); len(returned) != 1 || len(missing) != 0 {
		t.Fatalf("returned %v, missing %v", returned, missing)
	}
	passes(t, table, r, begin+3*second)
}

func TestGiveBack(t *testing.T) {
	begin := at(t, "2026-11-21T12:00:00Z")
	for _, n := range []int{1, 2, 5, 10, 11, 30} {
		for k := range n { // at every position
			r, table := rulesOf(t, perRecipient(t, "a", fmt.Sprintf("%d/calendar-day", n), fmt.Sprintf("%d/1h", n))), NewTable()
			var held [][]schemas.Charge
			for i := range n {
				held = append(held, passes(t, table, r, begin+schemas.Millis(i)*second))
			}
			now := begin + schemas.Millis(n)*second
			if returned, _ := table.GiveBack(r, held[k], now); !slices.Equal(returned, held[k]) {
				t.Fatalf("returned %v", returned)
			}
			if returned, missing := table.GiveBack(r, held[k], now); len(returned) > 0 || !slices.Equal(missing, held[k]) {
				t.Fatalf("given back twice: %v", returned)
			}
			wrong := held[(k+1)%n][0]
			wrong.T += 500
			dear := held[(k+1)%n][0]
			dear.Cost = 2
			if returned, _ := table.GiveBack(r, []schemas.Charge{wrong, dear, {Limit: "a", Scope: "+1", T: begin, Cost: 1}, {Limit: "b", Scope: one.Recipient, T: begin, Cost: 1}}, now); len(returned) > 0 {
				t.Fatalf("gave back what does not stand: %v", returned)
			}
			if left := table.Peek(r, one, now); left[0].Left != 1 || left[1].Left != 1 {
				t.Fatalf("n %d, k %d: %+v", n, k, left)
			}
			passes(t, table, r, now)
			refuses(t, table, r, now, max(begin+hour, at(t, "2026-11-22T00:00:00Z")), fmt.Sprintf("%d/calendar-day", n), fmt.Sprintf("%d/1h", n))
		}
	}
}

func TestGiveBackOfAFormerDay(t *testing.T) {
	r, table := rulesOf(t, perRecipient(t, "a", "1/60s", "2/calendar-day")), NewTable()
	evening, midnight := at(t, "2026-11-21T23:59:00Z"), at(t, "2026-11-22T00:00:00Z")
	old := passes(t, table, r, evening)
	young := passes(t, table, r, midnight)
	if returned, missing := table.GiveBack(r, old, midnight+2*minute); len(returned) > 0 || len(missing) != 1 {
		t.Fatalf("returned %v, missing %v", returned, missing)
	}
	passes(t, table, r, midnight+2*minute)
	refuses(t, table, r, midnight+hour, midnight+day, "2/calendar-day")
	// No rolling window sees it any more, the day's count does.
	if returned, _ := table.GiveBack(r, young, midnight+hour); len(returned) != 1 {
		t.Fatalf("returned %v", returned)
	}
	passes(t, table, r, midnight+hour)
	refuses(t, table, r, midnight+2*hour, midnight+day, "2/calendar-day")
}

// Of a calendar window of more than 100 only the count is kept.
func TestGiveBackToALargeCalendarWindow(t *testing.T) {
	r, table := rulesOf(t, perRecipient(t, "a", "5/60s", "101/calendar-day")), NewTable()
	morning := at(t, "2026-11-21T01:00:00Z")
	var held []schemas.Charge
	for i := range schemas.Millis(101) {
		held = append(held, passes(t, table, r, morning+i*minute)...)
	}
	now, midnight := morning+100*minute+second, at(t, "2026-11-22T00:00:00Z")
	refuses(t, table, r, now, midnight, "101/calendar-day")
	returned, missing := table.GiveBack(r, []schemas.Charge{held[0], held[100], held[100]}, now)
	if !slices.Equal(returned, []schemas.Charge{held[0], held[100]}) || len(missing) != 1 {
		t.Fatalf("returned %v, missing %v", returned, missing)
	}
	table.Commit()
	passes(t, table, r, now)
	passes(t, table, r, now)
	refuses(t, table, r, now, midnight, "101/calendar-day")
	if returned, _ = table.GiveBack(r, held[1:2], midnight); len(returned) > 0 {
		t.Fatalf("gave back to another day: %v", returned)
	}
}

// TestGiveBackOfWhatAShorterWindowForgot: a place left its slot before a longer
// window came, which counts from then on; its day's count still holds it.
func TestGiveBackOfWhatAShorterWindowForgot(t *testing.T) {
	before, table := rulesOf(t, perRecipient(t, "a", "5/10s", "101/calendar-day")), NewTable()
	now := at(t, "2026-11-21T01:00:00Z")
	held := passes(t, table, before, now)
	now += 20 * second
	passes(t, table, before, now)
	table.Commit()
	now += second
	policy := &schemas.Policy{Limits: []schemas.Limit{perRecipient(t, "a", "5/1h", "101/calendar-day")}}
	after, err := Compile(policy, map[string]map[string]schemas.Millis{"a": {"1h": now}})
	if err != nil {
		t.Fatal(err)
	}
	if returned, missing := table.GiveBack(after, held, now); !slices.Equal(returned, held) {
		t.Errorf("returned %v, missing %v", returned, missing)
	}
	if left := table.Peek(after, &Subject{Recipient: "+8613800000000"}, now); left[1].Left != 100 {
		t.Errorf("%d of the day are left, want 100", left[1].Left)
	}
}

func TestOverridesAndExemptions(t *testing.T) {
	l := perRecipient(t, "a", "2/60s")
	l.Overrides = []schemas.Override{{To: "+8613800000000", Allow: windows(t, "15/1h")}}
	l.Exempt = []string{"+15005550006"}
	r, table := rulesOf(t, l), NewTable()
	begin := at(t, "2026-11-21T12:00:00Z")
	for i := range schemas.Millis(15) {
		passes(t, table, r, begin+i)
	}
	refuses(t, table, r, begin+20, begin+hour, "15/1h")
	for range 50 {
		if res := table.Decide(r, &Subject{Recipient: "+15005550006"}, nil, begin); !res.OK || len(res.Charges)+len(res.Remaining) > 0 {
			t.Fatalf("%+v", res)
		}
	}
	// The override ends, and its places stand.
	r = rulesOf(t, perRecipient(t, "a", "2/60s"))
	refuses(t, table, r, begin+30, begin+13+minute, "2/60s")
	refuses(t, table, r, begin+13+minute-1, begin+13+minute, "2/60s")
	passes(t, table, r, begin+13+minute)
}

func TestLoweredNKeepsPlaces(t *testing.T) {
	begin := at(t, "2026-11-21T12:00:00Z")
	r, table := rulesOf(t, perRecipient(t, "a", "10/1h")), NewTable()
	for i := range schemas.Millis(10) {
		passes(t, table, r, begin+i*minute)
	}
	low := rulesOf(t, perRecipient(t, "a", "2/1h"))
	refuses(t, table, low, begin+10*minute, begin+hour+8*minute, "2/1h")
	passes(t, table, low, begin+hour+8*minute)
	high := rulesOf(t, perRecipient(t, "a", "3/1h"))
	passes(t, table, high, begin+hour+8*minute)
	refuses(t, table, high, begin+hour+8*minute, begin+hour+9*minute, "3/1h")
}

func TestSinceHidesWhatWasBefore(t *testing.T) {
	begin := at(t, "2026-11-21T12:00:00Z")
	policy := &schemas.Policy{Limits: []schemas.Limit{perRecipient(t, "a", "2/60s", "2/calendar-day")}}
	compile := func(since schemas.Millis) *Rules {
		r, err := Compile(policy, map[string]map[string]schemas.Millis{"a": {"60s": since, "calendar-day": since}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	table := NewTable()
	r := compile(begin)
	passes(t, table, r, begin) // in the marker's own millisecond: not counted
	passes(t, table, r, begin+1)
	passes(t, table, r, begin+2)
	refuses(t, table, r, begin+3, at(t, "2026-11-22T00:00:00Z"), "2/calendar-day", "2/60s")
	r = compile(begin + 1)
	if left := table.Peek(r, one, begin+3); left[0].Left != 1 || left[1].Left != 2 {
		t.Fatalf("%+v", left) // of a calendar window only the count of one beginning is kept
	}
}

// Milliseconds in 32 bits come round after 49.7 days.
func TestBeyondTheWrap(t *testing.T) {
	const wrap = schemas.Millis(1) << 32
	for _, begin := range []schemas.Millis{at(t, "2026-11-21T12:00:00Z"), 417*wrap - 1, 417 * wrap, 1 << 30, 1<<30 - 1, 5} {
		r := rulesOf(t, perRecipient(t, "a", "1/60s", "2/31d"))
		for _, later := range []schemas.Millis{wrap - 1, wrap, wrap + 1, wrap + 30*second, 2 * wrap, 1<<30 + 1, 3*wrap + 59*second} {
			table := NewTable()
			passes(t, table, r, begin)
			passes(t, table, r, begin+max(later, 31*day))
		}
		// A window of 31 days that is always full, for two years.
		table := NewTable()
		for i := range schemas.Millis(24) {
			now := begin + i*31*day
			passes(t, table, r, now)
			passes(t, table, r, now+20*day)
			refuses(t, table, r, now+31*day-1, now+31*day, "2/31d")
		}
	}
}

// Many places, in blocks of the arena, against a plain list.
func TestManyPlaces(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 1))
		l := perRecipient(t, "a", "300/60s", "2000/1h")
		if seed%2 == 1 {
			l.Count = schemas.CountSegments
		}
		r, table := rulesOf(t, l), NewTable()
		now := at(t, "2026-11-21T12:00:00Z")
		type place struct{ t, cost schemas.Millis }
		var places, saved []place
		var most, full int
		for step := range 30_000 {
			now += schemas.Millis(rng.Int64N(180))
			if step%997 == 0 {
				now += schemas.Millis(rng.Int64N(20 * 60_000))
			}
			if step%50 == 0 {
				if rng.IntN(3) == 0 {
					table.Rollback()
					places = slices.Clone(saved)
				} else {
					table.Commit()
					saved = slices.Clone(places)
				}
				table.Begin()
			}
			if rng.IntN(10) == 0 && len(places) > 0 {
				i := rng.IntN(len(places))
				charge := schemas.Charge{Limit: "a", Scope: one.Recipient, T: places[i].t, Cost: int64(places[i].cost)}
				if returned, _ := table.GiveBack(r, []schemas.Charge{charge}, now); len(returned) != 1 && charge.T > now-hour {
					t.Fatalf("seed %d, step %d: %v stands", seed, step, charge)
				}
				places = slices.Delete(places, i, i+1)
				continue
			}
			cost := schemas.Millis(1)
			if seed%2 == 1 {
				cost = 1 + schemas.Millis(rng.IntN(4))
			}
			var a, b schemas.Millis
			for _, p := range places {
				if p.t > now-minute {
					a += p.cost
				}
				if p.t > now-hour {
					b += p.cost
				}
			}
			want := a+cost <= 300 && b+cost <= 2000
			res := table.Decide(r, &Subject{Recipient: one.Recipient, Segments: int64(cost)}, nil, now)
			if res.OK != want {
				t.Fatalf("seed %d, step %d: passed %v with %d and %d", seed, step, res.OK, a, b)
			}
			if res.OK {
				places = append(places, place{now, cost})
			} else {
				full++
			}
			most = max(most, len(places))
			places = slices.DeleteFunc(places, func(p place) bool { return p.t <= now-hour-10*minute })
		}
		if most < 500 || full < 100 {
			t.Errorf("seed %d: at most %d places and %d refusals: the test shows too little", seed, most, full)
		}
	}
}

func TestRecordTakesPlacesThatAreNotFree(t *testing.T) {
	r, table := rulesOf(t, perRecipient(t, "a", "2/60s", "9/calendar-day")), NewTable()
	begin := at(t, "2026-11-21T12:00:00Z")
	passes(t, table, r, begin)
	passes(t, table, r, begin+10*second)
	for _, before := range []schemas.Millis{5 * second, 0, 30 * second, 3 * minute, 13 * hour} {
		if c := table.Record(r, one, begin+10*second-before, begin+10*second); len(c) != 1 || c[0].T != begin+10*second-before {
			t.Fatalf("%v", c)
		}
	}
	// At -20, 0, 5, 10, 10 s, and one more this day: the last three must leave, but one.
	refuses(t, table, r, begin+11*second, begin+70*second, "2/60s")
	if left := table.Peek(r, one, begin+11*second); left[1].Left != 3 {
		t.Fatalf("%+v", left)
	}
}

// TestSweepKeepsPace has nobody but new recipients, far more a second than a
// sweep looks at by itself.
func TestSweepKeepsPace(t *testing.T) {
	r, table := rulesOf(t, perRecipient(t, "a", "3/60s")), NewTable()
	defer table.Close()
	now := at(t, "2026-11-21T12:00:00Z")
	const each, standing = 1000, 60 * 1000
	for i := range 400 {
		for j := range each {
			table.Decide(r, &Subject{Recipient: fmt.Sprint(i*each + j)}, nil, now)
		}
		table.Sweep(r, now, 64)
		table.Commit()
		now += second
		if n := table.Len(); n > standing*3/2 {
			t.Fatalf("after %d s %d slots for %d recipients in the window", i, n, standing)
		}
	}
}

func TestSweep(t *testing.T) {
	r, table := rulesOf(t, perRecipient(t, "a", "3/60s"), perRecipient(t, "b", "300/calendar-day")), NewTable() // of b only a count is kept
	begin := at(t, "2026-11-21T12:00:00Z")
	for i := range 1000 {
		table.Decide(r, &Subject{Recipient: fmt.Sprintf("+1%05d", i)}, nil, begin)
	}
	table.Commit()
	sweep := func(r *Rules, now schemas.Millis) (dropped, tombstones int) {
		for range 200 {
			dropped += table.Sweep(r, now, 100)
		}
		table.Dirty(func(_, value []byte) {
			if value != nil {
				t.Fatal("a swept slot is no tombstone")
			}
			tombstones++
		})
		return dropped, tombstones
	}
	for _, step := range []struct {
		name string
		r    *Rules
		now  schemas.Millis
		want int
	}{
		{"all is seen", r, begin + minute - 1, 0},
		{"the rolling ones have left", r, begin + minute, 1000},
		{"the day still runs", r, at(t, "2026-11-21T23:59:59.999Z"), 0},
		{"the limit is gone", rulesOf(t), at(t, "2026-11-21T23:59:59.999Z"), 1000},
		{"nothing is left", r, at(t, "2026-11-22T00:00:00Z"), 0},
	} {
		if dropped, tombstones := sweep(step.r, step.now); dropped != step.want || tombstones != step.want {
			t.Errorf("%s: dropped %d, tombstones %d, want %d", step.name, dropped, tombstones, step.want)
		}
		if step.name == "the limit is gone" { // undone, then done
			table.Rollback()
			if table.Len() != 1000 {
				t.Fatalf("%d slots after the rollback", table.Len())
			}
			if dropped, _ := sweep(r, at(t, "2026-11-22T00:00:00Z")); dropped != 1000 {
				t.Errorf("the day is over: dropped %d", dropped)
			}
		}
		table.Commit()
	}
	if table.Len() != 0 {
		t.Errorf("%d slots remain", table.Len())
	}
}

func TestCompileErrors(t *testing.T) {
	ok := func() schemas.Limit { return perRecipient(t, "a", "1/60s") }
	for name, test := range map[string]struct {
		change func(*schemas.Limit)
		is     error
		says   string
	}{
		"ten million": {func(l *schemas.Limit) { l.Allow[0].N = 10_000_000 }, ErrTooLarge, "10000000/60s"},
		"zone":        {func(l *schemas.Limit) { l.Timezone = "Mars/Olympus" }, ErrZone, "Mars/Olympus"},
		"local zone":  {func(l *schemas.Limit) { l.Timezone = "Local" }, ErrZone, "Local"},
		"mode":        {func(l *schemas.Limit) { l.Mode = "maybe" }, nil, "maybe"},
		"two buckets": {func(l *schemas.Limit) { l.Allow = windows(t, "bucket 10 refill 1/s", "bucket 20 refill 1/m") }, ErrBuckets, "bucket 20 refill 1/m"},
		"fine bucket": {func(l *schemas.Limit) { l.Allow = windows(t, "bucket 1 refill 1/s"); l.Allow[0].RefillEvery = 1 << 43 }, nil, "finely"},
		"slow bucket": {func(l *schemas.Limit) { l.Allow = windows(t, "bucket 1 refill 1/s"); l.Allow[0].RefillEvery = 1 << 33 }, nil, "31d"},
		"wide override": {func(l *schemas.Limit) {
			l.Per, l.Overrides = nil, []schemas.Override{{To: "+1", Allow: windows(t, "1/60s")}}
		}, ErrOverride, "override"},
		"unknown per": {func(l *schemas.Limit) { l.Per = []string{"recipient", "moon"} }, nil, "moon"},
		"prefix":      {func(l *schemas.Limit) { l.Per = []string{"recipient", "prefix:0"} }, nil, "prefix"},
		"no windows":  {func(l *schemas.Limit) { l.Allow = nil }, nil, "empty"},
		"n of 0":      {func(l *schemas.Limit) { l.Allow[0].N = 0 }, nil, "at least 1"},
		"32 days":     {func(l *schemas.Limit) { l.Allow[0].Length = 32 * 24 * time.Hour }, nil, "31d"},
		"bucket override": {func(l *schemas.Limit) {
			l.Overrides = []schemas.Override{{To: "+1", Allow: windows(t, "bucket 1 refill 1/s", "bucket 2 refill 2/s")}}
		}, ErrBuckets, "bucket"},
	} {
		l := ok()
		test.change(&l)
		_, err := Compile(&schemas.Policy{Limits: []schemas.Limit{l}}, nil)
		if err == nil || test.is != nil && !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "limit a") {
			t.Errorf("%s: %v", name, err)
		}
	}
	l := ok()
	l.Mode, l.Per = schemas.ModeOff, nil
	if r, err := Compile(&schemas.Policy{Limits: []schemas.Limit{l}}, nil); err != nil || len(r.limits) != 0 {
		t.Errorf("a limit that is off: %v, %v", r, err)
	}
}

func TestDecideAllocatesNothing(t *testing.T) {
	r, table, res := benchRules(t, true), NewTable(), Result{}
	s := Subject{Recipient: "+8613800000000", Class: "verify"}
	now := at(t, "2026-11-21T12:00:00Z")
	step := func() {
		table.DecideInto(&res, r, &s, nil, now)
		table.DecideInto(&res, r, &s, res.Charges[:0], now)
		table.Commit()
		now += 20 * minute
	}
	step()
	if n := testing.AllocsPerRun(1000, step); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestDecideIntoLeavesOutOnlyWhatRemains runs the same decisions both ways.
func TestDecideIntoLeavesOutOnlyWhatRemains(t *testing.T) {
	watch := perRecipient(t, "watch", "1/90s")
	watch.Mode = schemas.ModeObserve
	r := rulesOf(t, perRecipient(t, "a", "2/60s", "5/calendar-day"), perRecipient(t, "b", "3/1h", "bucket 2 refill 1/m"), watch)
	full, brief := NewTable(), NewTable()
	defer full.Close()
	defer brief.Close()
	rng := rand.New(rand.NewPCG(5, 5))
	var got Result
	var held []schemas.Charge
	now, refused := schemas.Millis(1_790_000_000_000), 0
	for range 4000 {
		now += schemas.Millis(rng.IntN(3000))
		s := Subject{Recipient: fmt.Sprintf("+1500555%04d", rng.IntN(40))}
		var old []schemas.Charge
		if len(held) > 0 && held[0].Scope == s.Recipient {
			old = held
		}
		want := full.Decide(r, &s, old, now)
		brief.DecideInto(&got, r, &s, old, now)
		if got.Remaining != nil || len(want.Remaining) != 5 {
			t.Fatalf("remaining: %v and %v", want.Remaining, got.Remaining)
		}
		want.Remaining = nil
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s (-Decide +DecideInto):\n%s", s.Recipient, diff)
		}
		if held = want.Charges; !want.OK {
			refused++
		}
	}
	if refused == 0 || refused == 4000 {
		t.Errorf("%d refused: the test sees one side only", refused)
	}
}

// TestPlacesInAShardThatGrows decides on messages of which one limit has a slot
// and the other, in the same decision, gets one: where that makes the shard
// grow, the first is somewhere else by the time its place is written.
func TestPlacesInAShardThatGrows(t *testing.T) {
	fresh, known := perRecipient(t, "fresh", "9/1h"), perRecipient(t, "known", "9/1h")
	fresh.Match.Class = []string{"code"}
	r := rulesOf(t, fresh, known)
	table := NewTable()
	defer table.Close()
	now := schemas.Millis(1_790_000_000_000)
	const recipients = 100_000
	for _, class := range []string{"news", "code"} {
		for i := range recipients {
			s := Subject{Recipient: fmt.Sprintf("+861%010d", i), Class: class}
			if !table.Decide(r, &s, nil, now).OK {
				t.Fatalf("%s %d is refused", class, i)
			}
		}
		table.Commit()
	}
	for i := range recipients {
		s := Subject{Recipient: fmt.Sprintf("+861%010d", i), Class: "code"}
		for j, left := range table.Peek(r, &s, now) {
			if want := []int64{8, 7}[j]; left.Left != want {
				t.Fatalf("recipient %d has %d left in %s, want %d", i, left.Left, left.Limit, want)
			}
		}
	}
}
