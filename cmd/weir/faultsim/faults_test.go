package faultsim

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/processor/audit"
)

// A quarter of a cycle's time would go into collecting what little is in memory.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	os.Exit(m.Run())
}

var oneSeed = flag.Uint64("seed", 0, "run this seed only")

// seeds returns the first seed and how many.
func seeds(t *testing.T) (first, n uint64) {
	t.Helper()
	number := func(name string, dflt uint64) uint64 {
		v := os.Getenv(name)
		if v == "" {
			return dflt
		}
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n
	}
	n = 250 // make chaos runs these, too
	switch {
	case *oneSeed > 0:
		return *oneSeed, 1
	case os.Getenv("WEIR_CHAOS") != "":
		n = 2000 // half an hour of one core
	case testing.Short():
		n = 50
	}
	return number("WEIR_SIM_FIRST", 1), number("WEIR_SIM_SEEDS", n)
}

// tooLong is far more than any cycle takes, on a machine that does other things.
const tooLong = 5 * time.Minute

// TestFaults runs a cycle for each seed. A seed's plan is always the same; what
// it does to the stages may differ from run to run (see the package comment).
func TestFaults(t *testing.T) {
	first, n := seeds(t)
	began := time.Now()
	total := cycles(t, first, n, NewPlan, nil)
	t.Logf("FAULTS %s\nin %s", total, time.Since(began).Round(time.Millisecond))
	if n >= 200 && uint64(total.Stuck)*100 > n {
		t.Errorf("the referee restarted %d groups of kfake in %d cycles: more than one in a hundred hides what it should not", total.Stuck, n)
	}
	if never := total.Never(); n >= 250 && uint64(total.Transcripts) == n && len(never) > 0 {
		t.Errorf("over %d cycles these faults never happened: %q", n, never)
	}
}

// TestAuditAlone is TestFaults with the audit as the only judge: what a broken build does
// must not be proven. It fails with the kinds of violation that the audit found. The
// mutations run 60 seeds of it; of the code as it is TestFaults does.
func TestAuditAlone(t *testing.T) {
	first, n := seeds(t)
	if os.Getenv("WEIR_SIM_SEEDS") == "" {
		n = min(n, 5)
	}
	found, luck := make(map[audit.Kind]audit.Violation), 0
	cycles(t, first, n, oneVersion, func(r *Result) {
		if r.Audit == nil {
			return
		}
		for _, v := range r.Audit.Violations {
			found[v.Kind] = v
		}
		for _, u := range r.Audit.Untold {
			found["could_not_tell"] = audit.Violation{Text: u.What}
		}
		if r.Audit.Outcome == audit.Proven && !r.Oracle.OK() {
			luck++
			t.Logf("PROVEN, and the oracle found %v (seed %d)", r.Oracle.Faults, r.Plan.Seed)
		}
	})
	for _, kind := range slices.Sorted(maps.Keys(found)) {
		t.Run(string(kind), func(t *testing.T) { t.Error(found[kind]) })
	}
	if luck > 0 {
		t.Errorf("%d cycles were proven, and the oracle found faults in them", luck)
	}
}

// oneVersion is a seed's plan in which all workers have the same time zones and numbering
// plans: of others the audit proves nothing.
func oneVersion(seed uint64) *Plan {
	p := NewPlan(seed)
	p.Mixed = false
	return p
}

// cycles runs the plans of n seeds, and adds up what they showed. judge looks at each
// result, one at a time; nil fails for each that has a fault.
func cycles(t *testing.T, first, n uint64, planOf func(seed uint64) *Plan, judge func(*Result)) *Tally {
	total := newTally()
	var mu sync.Mutex
	test := t.Name()
	t.Run("cycles", func(t *testing.T) {
		for seed := first; seed < first+n; seed++ {
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				t.Parallel()
				plan, trace := planOf(seed), new(Trace)
				var r *Result
				defer func() {
					// A goroutine that stays behind: synctest panics for it.
					if p := recover(); p != nil {
						t.Errorf("%v\n%s\nPLAN %s", p, r, plan)
					}
				}()
				// Simulated time stands still while anything is busy: what never
				// rests would never end.
				stuck := time.AfterFunc(tooLong, func() {
					panic(fmt.Sprintf("seed %d is busy for %s, and its time stands still\nPLAN %s\nTRACE, its last\n%s", seed, tooLong, plan, trace.last(100)))
				})
				defer stuck.Stop()
				synctest.Test(t, func(*testing.T) { r = Run(plan, trace) })
				mu.Lock()
				defer mu.Unlock()
				total.Add(r.Tally)
				if judge != nil {
					judge(r)
				} else if len(r.Faults) > 0 {
					t.Errorf("%s\nagain: go test ./cmd/weir/faultsim -run %s -seed %d -count 20 -failfast", r, test, seed)
				} else if *oneSeed > 0 && testing.Verbose() {
					t.Log(r)
				}
			})
		}
	})
	return total
}
