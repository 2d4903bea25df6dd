package audit

import (
	"testing"
	"time"
)

// Progress is told once a second, and first after one.
func TestProgressWaitsASecond(t *testing.T) {
	told := 0
	a := &auditing{Config: Config{Progress: func(int64, int64) { told++ }}, said: time.Now()}
	for range 3 * looks {
		a.tick()
	}
	if told != 0 {
		t.Errorf("told %d times in the first moment", told)
	}
	for range 2 {
		a.said = time.Now().Add(-time.Second)
		for range 3 * looks {
			a.tick()
		}
	}
	if told != 2 {
		t.Errorf("told %d times in two seconds", told)
	}
}

// What is left to read is up to the ends that were taken, without what an earlier cut read.
func TestLeft(t *testing.T) {
	of := func(a, b int64) map[string]map[int32]int64 {
		return map[string]map[int32]int64{"a": {0: a}, "b": {0: b}}
	}
	r := &reader{start: of(10, 0), until: of(30, 5), done: of(25, 0)}
	if got := r.left(); got != 10 {
		t.Errorf("%d, want 10", got)
	}
}
