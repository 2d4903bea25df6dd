package main

import (
	"fmt"
	"testing"
	"time"
)

// sends makes sendings of one tenant, at times in milliseconds.
func sends(tenant string, at ...int64) (all []sending) {
	for i, t := range at {
		all = append(all, sending{fmt.Sprintf("%s-%d", tenant, i), tenant, [2]int64{1000 * t, 1000 * t}})
	}
	return all
}

// every returns n times, step apart, from the first.
func every(first, step int64, n int) (all []int64) {
	for i := range n {
		all = append(all, first+int64(i)*step)
	}
	return all
}

func TestJudge(t *testing.T) {
	small := limits
	defer func() { limits = small }()
	limits = []limit{
		{"tenant", true, []window{{2, time.Second}, {4, 10 * time.Second}}},
		{"everyone", false, []window{{5, time.Second}}},
	}
	type want struct{ over, once, wrong, own, refused, lost, again int }
	for name, c := range map[string]struct {
		sent    []sending
		refused []refusal
		more    []string // requests beside those sent and refused
		grace   time.Duration
		want    want
	}{
		"n in each window":                   {sent: sends("a", 0, 1, 1000, 1001), want: want{}},
		"one too many":                       {sent: sends("a", 0, 1, 999), want: want{over: 1, once: 1}},
		"a place as old as the window left":  {sent: sends("a", 0, 500, 1000), want: want{}},
		"the longer window":                  {sent: sends("a", 0, 1000, 2000, 3000, 9999), want: want{over: 1, once: 1}},
		"in any order":                       {sent: sends("a", 999, 0, 1), want: want{over: 1, once: 1}},
		"tenants apart":                      {sent: append(sends("a", 0, 1), sends("b", 0, 1)...), want: want{}},
		"all together":                       {sent: append(append(sends("a", 0, 1), sends("b", 0, 1)...), sends("c", 2, 3)...), want: want{over: 1, once: 1}},
		"over in both counts once":           {sent: append(append(sends("a", 0, 1), sends("b", 0)...), sends("c", 5, 6, 7)...), want: want{over: 1, once: 1}},
		"within the grace":                   {sent: sends("a", 0, 1, 995), grace: 10 * time.Millisecond, want: want{}},
		"outside the grace":                  {sent: sends("a", 0, 1, 985), grace: 10 * time.Millisecond, want: want{over: 1, once: 1}},
		"a message twice":                    {sent: []sending{sends("a", 0)[0], sends("a", 1)[0], sends("a", 2)[0]}, want: want{over: 1, again: 2}},
		"refused by a full window":           {sent: sends("a", 0, 1), refused: []refusal{{"r", "a", 999_000, -1}}, want: want{refused: 1}},
		"refused, though there was room":     {sent: sends("a", 0, 1), refused: []refusal{{"r", "a", 1_000_000, -1}}, want: want{refused: 1, wrong: 1, own: 1}},
		"refused before the places":          {sent: sends("a", 0, 100), refused: []refusal{{"r", "a", 99_999, -1}}, want: want{refused: 1, wrong: 1, own: 1}},
		"refused a moment too late":          {sent: sends("a", 0, 1), refused: []refusal{{"r", "a", 1_005_000, -1}}, grace: 10 * time.Millisecond, want: want{refused: 1}},
		"another tenant's places":            {sent: sends("b", 0, 1), refused: []refusal{{"r", "a", 2000, -1}}, want: want{refused: 1, wrong: 1, own: 1}},
		"refused by everyone's":              {sent: append(append(sends("a", 0, 1), sends("b", 0, 1)...), sends("c", 1)...), refused: []refusal{{"r", "d", 2000, -1}}, want: want{refused: 1}},
		"the wrong limit is named":           {sent: append(append(sends("a", 0, 1), sends("b", 0, 1)...), sends("c", 1)...), refused: []refusal{{"r", "d", 2000, 0}}, want: want{refused: 1, own: 1}},
		"refused at first, and sent":         {sent: sends("a", 500), refused: []refusal{{"a-0", "a", 1000, -1}}, want: want{}},
		"refused twice is one refusal":       {refused: []refusal{{"r", "a", 0, -1}, {"r", "a", 1, -1}}, want: want{refused: 1, wrong: 1, own: 1}},
		"lost":                               {sent: sends("a", 0), more: []string{"x", "y"}, want: want{lost: 2}},
		"many, as dense as may be":           {sent: sends("a", every(0, 2500, 100)...), want: want{}},
		"many, one millisecond denser":       {sent: sends("a", every(0, 2499, 5)...), want: want{over: 1, once: 1}},
		"many, one millisecond denser, long": {sent: sends("a", every(0, 2499, 100)...), want: want{over: 96, once: 96}},
	} {
		t.Run(name, func(t *testing.T) {
			made := make(map[string]string)
			for _, s := range c.sent {
				made[s.id] = s.tenant
			}
			for _, r := range c.refused {
				made[r.id] = r.tenant
			}
			for _, id := range c.more {
				made[id] = "a"
			}
			o := judge(made, c.sent, c.refused, c.grace)
			if (o.Room > 0) != (o.Wrong > 0) {
				t.Errorf("%d places free, and %d wrongly refused", o.Room, o.Wrong)
			}
			if got := (want{o.Over, o.OverOnce, o.Wrong, o.WrongOwn, o.Refused, o.Lost, o.Again}); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestSchedule holds that a schedule is a seed's, and has every fault in it.
func TestSchedule(t *testing.T) {
	length := 63 * time.Second
	for seed := range uint64(100) {
		count := make(map[string]int)
		var last time.Duration
		for _, f := range schedule(seed, length) {
			if f.after < last {
				t.Fatalf("seed %d: not in order", seed)
			}
			last = f.after
			count[f.what]++
		}
		want := map[string]int{"kill": kills, "stop": 1, "cont": 1, "storeKill": storeKills, "storeStart": storeKills}
		if fmt.Sprint(count) != fmt.Sprint(want) {
			t.Fatalf("seed %d: %v, want %v", seed, count, want)
		}
	}
	if fmt.Sprint(schedule(1, length)) == fmt.Sprint(schedule(2, length)) {
		t.Error("two seeds have one schedule")
	}
}
