package admission

import (
	"testing"
	"time"

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
	same := behind
	same.leader = 1
	for _, c := range []struct {
		name  string
		other reading
		now   schemas.Millis
		by    time.Duration
		ok    bool
	}{
		{"three seconds", behind, 100_000, 2985 * time.Millisecond, true},
		{"a slow append is no difference", slow, 100_000, 0, true},
		{"one leader", same, 100_000, 0, false},
		{"too long ago", behind, 160_001, 0, false},
	} {
		if _, _, by, ok := differ(map[int32]reading{0: right, 1: c.other}, c.now); ok != c.ok || by != c.by {
			t.Errorf("%s: %v %v", c.name, by, ok)
		}
	}
}
