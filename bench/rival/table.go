package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir/bench/rig"
)

// table sums up the runs of each system.
func table(all []outcome, b *bench, what, redis, command string) (string, error) {
	if len(all) == 0 {
		return "", fmt.Errorf("no outcomes")
	}
	by := make(map[string][]outcome)
	for _, o := range all {
		by[o.System] = append(by[o.System], o)
	}
	var t strings.Builder
	fmt.Fprintf(&t, "# Weir beside a counter in Redis, under the same faults\n\n%s\n\n    %s\n\n%s. Redis %s, a real server on the same machine.\n\n", rig.Machine(), command, what, redis)
	fmt.Fprintf(&t, method, b.requests, b.perSecond, tenants, recipients, limits[0].allow(), limits[1].allow(), workers, kills, pauseFor, session, storeKills)
	t.WriteString("| system | runs | sent | refused | over | over, once a message | fullest window | wrongly refused | places free then | lost | sent again |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	row := func(system, title string) {
		runs := by[system]
		if len(runs) == 0 {
			return
		}
		n := func(f func(o outcome) int) string {
			var v []int
			for _, o := range runs {
				v = append(v, f(o))
			}
			return spread(v)
		}
		densest := rig.Of(rig.Stats[2], runs, func(o outcome) float64 { return o.Densest })
		most := rig.Of(rig.Stats[2], runs, func(o outcome) float64 { return float64(o.Room) })
		fmt.Fprintf(&t, "| %s | %d | %s | %s | **%s** | %s | %.0f %% | **%s** | %.0f | %s | %s |\n", title, len(runs),
			n(func(o outcome) int { return o.Sent }), n(func(o outcome) int { return o.Refused }), n(func(o outcome) int { return o.Over }),
			n(func(o outcome) int { return o.OverOnce }), 100*densest, n(func(o outcome) int { return o.Wrong }), most,
			n(func(o outcome) int { return o.Lost }), n(func(o outcome) int { return o.Again }))
	}
	for _, v := range variants {
		for _, w := range ways {
			row(w.name+"/"+v.name, w.title+"; "+v.title)
		}
		if v.calm {
			row("weir/calm", "Weir; "+v.title)
		}
	}
	row("weir/faults", "Weir; workers killed and stopped")
	first := true
	for _, o := range all {
		if o.Audit == "" {
			continue
		}
		if first {
			t.WriteString("\n| run of Weir | weir audit | wrongly refused, by the limit that refused alone | refused without its window full in its owner's log | places given back | they had stood for: median | p99 |\n|---|---|---|---|---|---|---|\n")
			first = false
		}
		fmt.Fprintf(&t, "| %s, seed %d | %s | %d | %d | %d | %d ms | %d ms |\n", o.System, o.Seed, o.Audit, o.WrongOwn, o.Groundless, o.GivenBack, o.HeldMedian, o.HeldP99)
	}
	return t.String(), nil
}

const method = `A run is %d requests at %d a second, half of them in bursts around each fifth second, from %d tenants (a few large, most small) to
%d recipients. Two limits that no single recipient owns: each tenant %s, and all together %s, all in rolling windows.
%d workers. Faults, drawn from the run's seed, the same for all systems: kill -9 of a worker %d times (it starts again at once), one worker stopped
(SIGSTOP) for %v with a session of %v, and kill -9 of Redis %d times, back after 0.3 to 2 s on the data that it has kept. Weir has no Redis to kill.
A provider answers in 20 to 80 ms. "Calm" is the same traffic without any fault.

The rivals: a consumer group (franz-go), batches of at most 500, 64 messages at once, commit when all are sent; for each message a question to Redis, which is
asked until it answers (nobody is let through because Redis is away); a sending is a record in a topic, as Weir's is a call to an HTTP server. All four ways
run in the same processes. Weir: three weir run, the limits in that order, reject.

One counter judges all of them, by the times that each limiter stamped its own decisions with. *Over*: sendings with which some window held more than n
sendings; *once a message*: the same if only the first sending of a message counts, as a provider sees it that heeds idempotency keys. *Wrongly refused*: messages that
were refused while no window of any limit was full of sendings; *places free then*: how many were free in the scarcest window at worst, so 30 with 1,000 refused is
30 places burnt, not 1,000. *Sent again*: sendings of a message that had been sent. Rivals have 10 ms of grace in both directions, Weir none.
Medians, least and most of the runs; the fullest window and the places free are the worst of all runs.

`

//

// spread is the median, and the least and the most.
func spread(v []int) string {
	s := slices.Sorted(slices.Values(v))
	if s[0] == s[len(s)-1] {
		return fmt.Sprint(s[0])
	}
	return fmt.Sprintf("%d (%d to %d)", s[len(s)/2], s[0], s[len(s)-1])
}
