package faultsim

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestDecidedAgain runs cycles in which the policy stays what it is, and has a
// backtest decide each of their logs again under that policy: it must come to
// every decision that was taken.
func TestDecidedAgain(t *testing.T) {
	all := uint64(len(policies) + len(wide))
	n := 6 * all
	if testing.Short() {
		n = 2 * all
	}
	first := uint64(7000)
	if *oneSeed > 0 {
		first, n = *oneSeed, 1
	}
	total := newTally()
	var mu sync.Mutex
	t.Run("cycles", func(t *testing.T) {
		for seed := first; seed < first+n; seed++ {
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				t.Parallel()
				plan, trace := NewPlan(seed), new(Trace)
				plan.Policies = []int{int(seed % all)}
				plan.Wide = plan.Policies[0] >= len(policies)
				plan.Events = slices.DeleteFunc(plan.Events, func(e Event) bool { return e.What == WhatPolicy })
				stuck := time.AfterFunc(tooLong, func() { panic(fmt.Sprintf("seed %d is busy for %s\nPLAN %s", seed, tooLong, plan)) })
				defer stuck.Stop()
				var r *Result
				synctest.Test(t, func(*testing.T) { r = Run(plan, trace) })
				mu.Lock()
				total.Add(r.Tally)
				mu.Unlock()
				if len(r.Faults) > 0 {
					t.Errorf("%s\nagain: go test ./cmd/weir/faultsim -run TestDecidedAgain -seed %d -count 20 -failfast", r, seed)
				}
			})
		}
	})
	t.Logf("AGAIN %d of %d decisions were of limits, and came to the same", total.Again, total.Decisions)
	if total.Again*4 < total.Decisions {
		t.Errorf("only %d of %d decisions were decided again", total.Again, total.Decisions)
	}
}
