package sink

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// TestDays: a table remembers parts, and an insert makes one for each day of its rows. So a range has
// records of a day, and after one whose rows are of many days the next waits, also when it is
// full and when memory is short.
func TestDays(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := newPartition("t", Plan{}, limits{rows: 4, bytes: 1 << 20, day: time.Second, life: time.Minute})
	add := func(offset int64, hours int) {
		p.add(&kgo.Record{Offset: offset, Timestamp: now.Add(time.Duration(hours) * time.Hour)}, now)
	}
	add(0, 0)
	add(1, 23)
	add(2, 24)
	add(3, 25)
	p.makePlan(now, false)
	if p.plan.To != 2 {
		t.Errorf("the range ends at %d, want that of a day", p.plan.To)
	}
	p.committed()
	p.running = true
	if p.overdue(now.Add(time.Minute-time.Millisecond)) || !p.overdue(now.Add(time.Minute)) {
		t.Error("an insert ends with its plan")
	}
	p.running = false
	p.inserted()
	p.days = daysOf([]int64{0, 60, 86_400, 86_400 * 7, 86_400*7 + 60})
	add(4, 25)
	add(5, 25)
	for after, want := range map[time.Duration]bool{0: false, 3*time.Second - 1: false} {
		if p.makePlan(now.Add(after), true); p.plan.planned() != want {
			t.Errorf("after %v a range follows one of three days", after)
		}
	}
	if at, ok := p.due(); !ok || !at.Equal(now.Add(3*time.Second)) {
		t.Errorf("the next is due at %v", at)
	}
	if p.makePlan(now.Add(3*time.Second), false); p.plan.To != 6 {
		t.Errorf("the next range ends at %d", p.plan.To)
	}
	if got := schemas.Millis(p.plan.Expires - p.plan.Made); got != 60_000 {
		t.Errorf("its plan is good for %d ms", got)
	}
}
