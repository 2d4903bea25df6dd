package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir/bench/rig"
)

// table sums up the runs of each system.
func table(all []outcome, what, command string) (string, error) {
	if len(all) == 0 {
		return "", fmt.Errorf("no outcomes")
	}
	by := make(map[string][]outcome)
	for _, o := range all {
		by[o.System] = append(by[o.System], o)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Weir beside a counter in Redis, under the same faults\n\n%s\n\n    %s\n\n%s\n\n", rig.Machine(), command, what)
	b.WriteString("| system | runs | sent | refused | over | over, once a message | fullest window | wrongly refused | lost | sent again |\n|---|---|---|---|---|---|---|---|---|---|\n")
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
		fmt.Fprintf(&b, "| %s | %d | %s | %s | **%s** | %s | %.0f %% | **%s** | %s | %s |\n", title, len(runs),
			n(func(o outcome) int { return o.Sent }), n(func(o outcome) int { return o.Refused }), n(func(o outcome) int { return o.Over }),
			n(func(o outcome) int { return o.OverOnce }), 100*densest, n(func(o outcome) int { return o.Wrong }),
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
	row("weir/faults", "Weir")
	return b.String(), nil
}

// spread is the median, and the least and the most.
func spread(v []int) string {
	s := slices.Sorted(slices.Values(v))
	if s[0] == s[len(s)-1] {
		return fmt.Sprint(s[0])
	}
	return fmt.Sprintf("%d (%d to %d)", s[len(s)/2], s[0], s[len(s)-1])
}
