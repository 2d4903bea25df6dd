package audit

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// What a partition says it takes is not less than what it does take, and not
// far more.
func TestSizeIsHonest(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, n := range []int{20_000, 150_000} {
		before := heap()
		p := newPartition(0, &bounds{}, nil, nil)
		l := &limit{}
		for i := range n {
			key := sumOf("l", fmt.Sprint(i))
			p.places.add(key, schemas.Millis(i), 1, uint64(i), 0)
			p.places.add(key, schemas.Millis(i), 1, uint64(i), 0)
			p.places.add(sumOf("hot"), schemas.Millis(i), 1, uint64(i), 0)
			p.tanks.most[key] = tank{}
			p.messages[key] = message{held: p.calls.hold(0, l, key, 1)}
			p.causes.cancels[key] = 1
		}
		took, said := heap()-before, p.size()
		if said < took || said > 3*took {
			t.Errorf("%d messages: it says %d KiB, and takes %d KiB", n, said>>10, took>>10)
		}
		runtime.KeepAlive(p)
	}
}

func TestBudget(t *testing.T) {
	b := &budget{most: 100}
	one, two := &share{of: b}, &share{of: b}
	at := func() string { return "weir.status/3" }
	if err := one.take(at, 60); err != nil {
		t.Fatal(err)
	}
	if err := two.take(at, 40); err != nil {
		t.Fatal(err)
	}
	if err := two.take(at, 41); err == nil {
		t.Fatal("101 fit into 100")
	}
	one.close()
	if err := two.take(at, 100); err != nil {
		t.Fatalf("what was given back is not free: %v", err)
	}
}
