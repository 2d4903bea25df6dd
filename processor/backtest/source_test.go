package backtest

import (
	"sync/atomic"
	"testing"
)

// TestSequence takes each decision once, and counts those that do not come.
func TestSequence(t *testing.T) {
	var missing atomic.Int64
	q := &sequence{missing: &missing}
	taken := ""
	for _, seq := range []int64{7, 8, 0, 8, 7, 9, 0, 12, 13} {
		if !q.repeats(&step{seq: seq}) {
			taken += string(rune('0'+seq)) + " "
		}
	}
	if taken != "7 8 0 9 0 < = " || missing.Load() != 2 {
		t.Errorf("it took %s and missed %d", taken, missing.Load())
	}
}
