package sink

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/sink/warehouse"
)

// TestMinutes: what is found once may be a block on its way, what is found twice is
// a difference until it is mended; what changes for an hour is forgotten.
func TestMinutes(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	const a, b = int64(1_799_999_940), int64(1_799_999_880)
	gone := func(at, rows int64, has string) warehouse.Unlike {
		return warehouse.Unlike{Table: "status_by_minute", Minute: at, Has: has, Want: "9", Rows: rows}
	}
	m := newMinutes()
	m.loaded([]int64{b, a}, now)
	if got := m.due(now.Add(time.Second), 10*time.Second); got != nil {
		t.Errorf("%v are compared while rows of them arrive", got)
	}
	for i, step := range []struct {
		name  string
		after time.Duration
		found []warehouse.Unlike
		rows  int64
		left  []int64
	}{
		{"of one something is found", 10 * time.Second, []warehouse.Unlike{gone(a, 3, "6")}, 0, []int64{a}},
		{"less of it is: a block arrives", 11 * time.Second, []warehouse.Unlike{gone(a, 2, "7")}, 0, []int64{a}},
		{"the same again", 12 * time.Second, []warehouse.Unlike{gone(a, 2, "7")}, 2, []int64{a}},
		{"and another", 13 * time.Second, []warehouse.Unlike{gone(a, 2, "7"), gone(a, 1, "8")}, 2, []int64{a}},
		{"both", 14 * time.Second, []warehouse.Unlike{gone(a, 2, "7"), gone(a, 1, "8")}, 3, []int64{a}},
		{"an hour later still", time.Hour, []warehouse.Unlike{gone(a, 2, "7")}, 2, []int64{a}},
		{"and as long as it is so", 9 * time.Hour, []warehouse.Unlike{gone(a, 2, "7")}, 2, []int64{a}},
		{"it changes", 9*time.Hour + time.Second, []warehouse.Unlike{gone(a, 1, "8")}, 0, nil},
	} {
		at := now.Add(step.after)
		of := m.due(at, 10*time.Second)
		if i == 0 && !slices.Equal(of, []int64{a, b}) {
			t.Errorf("%v are due, want the latest first", of)
		}
		m.compared(of, step.found, at)
		rows, tables := m.difference()
		if rows != step.rows || (rows > 0) != slices.Equal(tables, []string{"status_by_minute"}) {
			t.Errorf("%s: %d in %v, want %d", step.name, rows, tables, step.rows)
		}
		if left := m.due(at, 10*time.Second); !slices.Equal(left, step.left) {
			t.Errorf("%s: %v are left, want %v", step.name, left, step.left)
		}
	}
}

// TestMinutesAreBounded: a look reads a day at most, and a backlog does not grow
// without end.
func TestMinutesAreBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	m := newMinutes()
	var year []int64
	for i := range int64(365 * 24 * 60) {
		year = append(year, 1_800_000_000-60*i)
	}
	slices.Reverse(year)
	m.loaded(year[:len(year)-90*24*60-1], now)
	if len(m.at) != 0 {
		t.Errorf("%d minutes of more than 90 days ago are to be compared: a table does not have them any more", len(m.at))
	}
	m.loaded(year, now)
	if len(m.at) != minutesKept {
		t.Errorf("%d minutes are kept", len(m.at))
	}
	if of := m.due(now, 0); len(of) != minutesAtOnce || of[0] != year[len(year)-1] {
		t.Errorf("%d minutes at once", len(of))
	}
	m = newMinutes()
	year = year[len(year)-3*24*60:]
	m.loaded([]int64{year[0], year[1], year[2*24*60]}, now)
	for _, want := range []string{fmt.Sprint([]int64{year[2*24*60]}), fmt.Sprint([]int64{year[1], year[0]}), "[]"} {
		of := m.due(now, 0)
		if fmt.Sprint(of) != want {
			t.Errorf("%v are compared at once, want %s", of, want)
		}
		m.compared(of, nil, now)
	}
}
