// Command counting puts six ways to keep a limit over the same trace of
// attempts, and counts in how many each errs. It measures no speed.
//
// The limit is one a minute, five an hour and ten a day for a recipient, all
// three at once. An attempt is wrongly allowed if, with it, the attempts that
// this same way has allowed are more than n in a trailing window; wrongly
// refused if every window still has room. So each is judged on its own history.
//
//	go run ./bench/counting -seeds 5
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"text/tabwriter"
)

func main() {
	seeds := flag.Int("seeds", 5, "`number` of traces")
	flag.Parse()
	if *seeds < 1 {
		fmt.Fprintln(os.Stderr, "counting: -seeds must be at least 1")
		os.Exit(2)
	}
	var attempts []int
	allowed := make([][]int, len(ways))
	refused := make([][]int, len(ways))
	for seed := range *seeds {
		trace := draw(uint64(seed) + 1)
		attempts = append(attempts, len(trace))
		for i, w := range ways {
			over, cruel := judge(trace, w.open())
			allowed[i], refused[i] = append(allowed[i], over), append(refused[i], cruel)
		}
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "%d traces of %s attempts; median (min to max)\n\twrongly allowed\twrongly refused\n", *seeds, spread(attempts))
	for i, w := range ways {
		fmt.Fprintf(out, "%s\t%s\t%s\n", w.name, spread(allowed[i]), spread(refused[i]))
	}
	out.Flush()
}

func spread(v []int) string {
	s := slices.Sorted(slices.Values(v))
	if s[0] == s[len(s)-1] {
		return fmt.Sprint(s[0])
	}
	return fmt.Sprintf("%d (%d to %d)", s[len(s)/2], s[0], s[len(s)-1])
}

// attempt is one request: for whom, and when, in milliseconds.
type attempt struct {
	who int
	at  int64
}

const (
	minute = int64(60_000)
	hour   = 60 * minute
	day    = 24 * hour
)

// windows are n in length.
var windows = []struct{ length, n int64 }{{minute, 1}, {hour, 5}, {day, 10}}

// draw makes some 500,000 attempts of 2,000 people over twelve days: each comes
// in bursts, a few seconds or minutes apart within them, as someone does who
// presses "send again", with many on the very edge of a window.
func draw(seed uint64) []attempt {
	r := rand.New(rand.NewPCG(seed, 0x77656972))
	var all []attempt
	for who := range 2000 {
		at := int64(1_800_000_000_000) + r.Int64N(hour)
		for end := at + 12*day; at < end; at += r.Int64N(2 * day) {
			for range 1 + r.IntN(40) {
				all = append(all, attempt{who, at})
				switch r.IntN(4) {
				case 0:
					at += minute - 1 + r.Int64N(3)
				case 1:
					at += r.Int64N(3 * minute)
				default:
					at += r.Int64N(10_000)
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b attempt) int { return int(a.at - b.at) })
	return all
}

// judge runs a way over a trace and counts its errors by brute force: the times
// that it has allowed, one by one.
func judge(trace []attempt, may func(who int, at int64) bool) (over, cruel int) {
	passed := make(map[int][]int64)
	for _, a := range trace {
		room := true
		for _, w := range windows {
			n := int64(0)
			for _, p := range slices.Backward(passed[a.who]) {
				if p <= a.at-w.length {
					break
				}
				n++
			}
			room = room && n < w.n
		}
		ok := may(a.who, a.at)
		switch {
		case ok && !room:
			over++
		case !ok && room:
			cruel++
		}
		if ok {
			passed[a.who] = append(passed[a.who], a.at)
		}
	}
	return over, cruel
}
