package backlog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

func TestRates(t *testing.T) {
	var m Meter
	at := schemas.Millis(1_795_309_200_000)
	one := func(n, done int64) Rate {
		t.Helper()
		return m.Add(at, []Waiting{{Queue: Queue{Stage: Lanes, Provider: "p", Topic: "q"}, Records: n, Done: done}})[0]
	}
	step := func(after time.Duration, n, done int64, want string) {
		t.Helper()
		at = at.Add(after)
		r := one(n, done)
		if got := fmt.Sprintf("%v %.0f/min %v", r.Known, r.PerMinute, r.Drain); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	step(0, 1000, 50, "false 0/min 0s")
	step(500*time.Millisecond, 1000, 60, "false 0/min 0s") // too short to say
	step(9500*time.Millisecond, 900, 150, "true 600/min 1m30s")
	step(20*time.Second, 900, 150, "true 200/min 4m30s")
	step(30*time.Second, 0, 1050, "true 1000/min 0s")  // since the first look, a minute ago
	step(10*time.Second, 100, 1050, "false 0/min 0s")  // it was empty: the time without messages is no time
	step(10*time.Second, 50, 1100, "true 300/min 10s") // which it was not since
	step(10*time.Minute, 100, 1050, "false 0/min 0s")  // what was seen before is no rate of now
	step(30*time.Second, 100, 1050, "true 0/min 0s")
	step(5*time.Second, 100, 50, "true 0/min 0s") // its topic was made again
}

func TestStalled(t *testing.T) {
	pol, err := schemas.ParsePolicy("p.yaml", []byte(`
providers:
  - {name: fast, type: simulated, channels: [sms], pace: [20/1s]}
  - {name: slow, type: simulated, channels: [sms], pace: [1/5m]}
`))
	if err != nil {
		t.Fatal(err)
	}
	const start = schemas.Millis(1_795_309_200_000)
	type at struct {
		after   time.Duration
		oldest  time.Duration // before the look; 0 is that nothing waits
		done    int64
		calls   int64
		said    time.Duration // before the look: the lane's word
		stalled bool
	}
	for _, c := range []struct {
		name     string
		provider string
		looks    []at
	}{
		{"nothing waits", "fast", []at{{stalled: false}, {after: time.Hour}}},
		{"makes no calls", "fast", []at{{oldest: 2 * time.Minute, stalled: true}}},
		{"messages have just come", "fast", []at{{oldest: 50 * time.Second}}},
		{"makes calls", "fast", []at{{oldest: time.Hour, calls: 3, said: 5 * time.Second}}},
		{"a lane that ended", "fast", []at{{oldest: time.Hour, calls: 3, said: 61 * time.Second, stalled: true}}},
		{"a pace of minutes", "slow", []at{{oldest: time.Hour}, {after: 9 * time.Minute, oldest: time.Hour}, {after: 2 * time.Minute, oldest: time.Hour, stalled: true},
			{after: time.Minute, oldest: time.Hour, done: 1}, {after: 9 * time.Minute, oldest: time.Hour, done: 1}, {after: time.Minute, oldest: time.Hour, done: 1, stalled: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m Meter
			now := start
			for i, l := range c.looks {
				now = now.Add(l.after)
				w := Waiting{Queue: Queue{Stage: Lanes, Provider: c.provider, Topic: "q"}, Done: l.done}
				if l.oldest > 0 {
					w.Records, w.Oldest = 7, now.Add(-l.oldest)
				}
				health := route.Health{c.provider: {Lanes: []schemas.Health{{Calls: l.calls, At: now.Add(-l.said)}}}}
				if got := m.Stalled(&pol.Policy, health, m.Add(now, []Waiting{w}), now); slices.Contains(got, c.provider) != l.stalled || len(got) > 1 {
					t.Errorf("look %d: %v", i, got)
				}
			}
		})
	}
}

// TestCalls: the calls of the last minute are shared out as lanes give permits.
func TestCalls(t *testing.T) {
	const now = schemas.Millis(1_795_309_200_000)
	for _, c := range []struct {
		name  string
		left  map[topics.Queue]int64
		calls int64
		want  string
	}{
		{"one priority has all", map[topics.Queue]int64{"normal": 840}, 60, "normal 60.0 14m0s"},
		{"what came back is worked off beside it", map[topics.Queue]int64{"normal": 800, "again": 40}, 60, "again 2.9 14m0s, normal 57.1 14m0s"},
		// 70 urgent take 100 calls, in which 20 normal and 10 bulk are called; then normal has 9 of 10.
		{"all of them", map[topics.Queue]int64{"urgent": 70, "normal": 200, "bulk": 110}, 100, "urgent 70.0 1m0s, normal 20.0 3m0s, bulk 10.0 3m48s"},
		{"no calls", map[topics.Queue]int64{"urgent": 70}, 0, "urgent 0.0 0s"},
		{"nothing waits", nil, 60, ""},
	} {
		var all []Rate
		for _, q := range topics.Queues {
			all = append(all, Rate{Waiting: Waiting{Queue: Queue{Stage: Lanes, Provider: "p", Name: string(q)}, Records: c.left[q]}})
		}
		Calls(all, route.Health{"p": {Lanes: []schemas.Health{{Calls: c.calls, At: now}}}}, now)
		var got []string
		for _, r := range all {
			if r.Records > 0 {
				got = append(got, fmt.Sprintf("%s %.1f %v", r.Name, r.PerMinute, r.Drain))
			}
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
