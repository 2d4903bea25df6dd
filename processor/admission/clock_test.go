package admission

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// Decisions are stamped from 100 to 101 s, produced at 101 s and acknowledged at taken.
func TestCompareClocks(t *testing.T) {
	for _, c := range []struct {
		name                string
		at, taken           schemas.Millis
		lift                time.Duration
		ahead, behind, late bool
	}{
		{"right", 101_010, 101_020, 0, false, false, false},
		{"as far ahead as may be", 99_000, 101_020, 0, false, false, false},
		{"ahead", 98_999, 101_020, 0, true, false, false},
		{"behind", 103_021, 101_020, 0, false, true, false},
		{"behind, and lifted", 103_021, 101_020, time.Second, false, false, false},
		{"as slow as may be", 105_000, 105_000, 0, false, false, false},
		{"a slow append", 105_001, 105_001, 0, false, false, true},
		{"a slow append elsewhere", 101_010, 105_001, 0, false, false, true},
	} {
		r := reading{least: c.at.Sub(c.taken), most: c.at.Sub(101_000), at: c.at, taken: c.taken}
		ahead, behind, late := r.compare(100_000, 101_000, c.lift, c.taken.Sub(100_000))
		if got := ahead > clockTolerance; got != c.ahead {
			t.Errorf("%s: ahead by %v", c.name, ahead)
		}
		if got := behind > clockTolerance; got != c.behind {
			t.Errorf("%s: behind by %v", c.name, behind)
		}
		if got := late > lateMost; got != c.late {
			t.Errorf("%s: late by %v", c.name, late)
		}
	}
}

func TestBrokersDiffer(t *testing.T) {
	right := reading{least: -10 * time.Millisecond, most: 5 * time.Millisecond, taken: 100_000, leader: 1}
	behind := reading{least: -3010 * time.Millisecond, most: -2995 * time.Millisecond, taken: 100_000, leader: 2}
	slow := reading{least: -7 * time.Second, most: 5 * time.Millisecond, taken: 100_000, leader: 2}
	near := reading{least: -30 * time.Millisecond, most: 8 * time.Millisecond, taken: 100_000, leader: 2}
	same := behind
	same.leader = 1
	for _, c := range []struct {
		name  string
		other reading
		now   schemas.Millis
		by    time.Duration
		ok    bool
		agree bool
	}{
		{"three seconds", behind, 100_000, 2985 * time.Millisecond, true, false},
		{"a slow append is no difference, and no agreement", slow, 100_000, 0, true, false},
		{"the same clock", near, 100_000, 0, true, true},
		{"one leader", same, 100_000, 0, false, false},
		{"too long ago", behind, 160_001, 0, false, true},
	} {
		if got := agree(map[int32]reading{0: right, 1: c.other}, c.now); got != c.agree {
			t.Errorf("%s: agree is %v", c.name, got)
		}
		if _, _, by, ok := differ(map[int32]reading{0: right, 1: c.other}, c.now); ok != c.ok || by != c.by {
			t.Errorf("%s: %v %v", c.name, by, ok)
		}
	}
}

// TestRecordsAtHandWaitForTheStall: reading is paused in a stall, and what was read before is
// handed out nevertheless.
func TestRecordsAtHandWaitForTheStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{stalled: time.Now().Add(stallFor)}
		s.sitOut(t.Context())
		if left := time.Until(s.stalled); left > 0 {
			t.Errorf("it goes on %v before the stall is over", left)
		}
	})
}

type unmoved struct{ stream.Fetching }

func (unmoved) Pause(...stream.Partition) {}

// TestStallKeepsReadings: the wall clock is put right by three seconds while the worker stalls.
// What it knows of the leaders' clocks is then three seconds more.
func TestStallKeepsReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off := 3 * time.Second
		read := func() time.Time { return time.Now().Add(off) }
		s := &stage{clock: newClock(read), fetch: unmoved{}, readings: map[int32]reading{
			0: {least: -3010 * time.Millisecond, most: -3 * time.Second, taken: schemas.MillisOf(read()), leader: 1},
			1: {least: -6010 * time.Millisecond, most: -6 * time.Second, taken: schemas.MillisOf(read()), leader: 2},
		}}
		off = 0
		s.stall()
		_, _, by, ok := differ(s.readings, s.clock.now())
		if r := s.readings[0]; !ok || by != 2990*time.Millisecond || r.most != s.clock.now().Sub(r.taken) {
			t.Errorf("%v by %v: %+v at %s", ok, by, s.readings, s.clock.now())
		}
	})
}
