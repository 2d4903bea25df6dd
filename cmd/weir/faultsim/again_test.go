package faultsim

import (
	"os"
	"slices"
	"testing"
)

// TestDecidedAgain runs cycles in which the policy stays what it is, and has a
// backtest decide each of their logs again under that policy: it must come to
// every decision that was taken.
func TestDecidedAgain(t *testing.T) {
	all := uint64(len(policies) + len(wide))
	n := 2 * all
	if os.Getenv("WEIR_CHAOS") != "" {
		n = 20 * all
	}
	first := uint64(7000)
	if *oneSeed > 0 {
		first, n = *oneSeed, 1
	}
	total := cycles(t, first, n, func(seed uint64) *Plan {
		plan := NewPlan(seed)
		plan.Mixed = false
		plan.Policies = []int{int(seed % all)}
		plan.Wide = plan.Policies[0] >= len(policies)
		plan.Events = slices.DeleteFunc(plan.Events, func(e Event) bool { return e.What == WhatPolicy })
		return plan
	}, nil)
	t.Logf("AGAIN %d of %d decisions were of limits, and came to the same", total.Again, total.Decisions)
	if total.Again*4 < total.Decisions {
		t.Errorf("only %d of %d decisions were decided again", total.Again, total.Decisions)
	}
}
