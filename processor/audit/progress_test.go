package audit

import (
	"testing"
	"time"
)

// Progress is told once a second, and first after one.
func TestProgressWaitsASecond(t *testing.T) {
	told := 0
	a := &auditing{Config: Config{Progress: func(string) { told++ }}, said: time.Now()}
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
