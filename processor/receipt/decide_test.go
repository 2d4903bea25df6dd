package receipt

import (
	"testing"
	"time"
)

// TestWaits: the first is short, none is shorter than the one before, and all together
// are three days and a little.
func TestWaits(t *testing.T) {
	sum, before := time.Duration(0), time.Duration(0)
	tries := 0
	for ; wait(tries) > 0; tries++ {
		if wait(tries) < before {
			t.Errorf("wait %d is %v, after %v", tries, wait(tries), before)
		}
		before = wait(tries)
		sum += before
	}
	if wait(0) != 5*time.Second || sum < 72*time.Hour || sum > 73*time.Hour || tries > 25 {
		t.Errorf("%d waits, %v", tries, sum)
	}
	if waitAway(0) != 5*time.Second || waitAway(100*time.Hour) != 5*time.Minute {
		t.Error(waitAway(0), waitAway(100*time.Hour))
	}
}

// TestMemory: what aborts is forgotten, and what is old.
func TestMemory(t *testing.T) {
	m := func(i int) mark { return mark{byte(i), byte(i >> 8)} }
	k := newMemory(10)
	if !k.add(m(1)) || k.add(m(1)) {
		t.Error("within a transaction")
	}
	k.ended(false)
	if !k.add(m(1)) {
		t.Error("it aborted, and is known")
	}
	k.ended(true)
	k.ended(false)
	if k.add(m(1)) {
		t.Error("it was committed, and is not known")
	}
	for i := range 9 {
		k.add(m(100 + i))
	}
	k.ended(true) // turns
	for i := range 9 {
		k.add(m(200 + i))
	}
	k.ended(true)
	if k.add(m(1)) || k.add(m(100)) || k.add(m(200)) {
		t.Error("the latest are not known")
	}
	for i := range 10 {
		k.add(m(300 + i))
	}
	k.ended(true)
	for i := range 10 {
		k.add(m(400 + i))
	}
	k.ended(true)
	if !k.add(m(1)) || len(k.now)+len(k.before) > 30 {
		t.Error("what is old is known for ever")
	}
}
