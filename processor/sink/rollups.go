package sink

import (
	"maps"
	"slices"
	"time"

	"github.com/weirhq/weir/processor/sink/warehouse"
)

const (
	// minutesAtOnce bounds what one look compares, and minutesKept what waits for it:
	// a backlog of a week is compared as it is loaded, one of a year only in part.
	minutesAtOnce = 60
	minutesKept   = 10_080
	// agedMost is how old rows are at most: a table keeps less than the others.
	agedMost = 90 * 24 * time.Hour
)

// minutes are those of which rows were loaded and that are to be compared with
// Weir's other tables, since a block that ClickHouse lost in one of them is not
// missing in status_events. A minute is compared when it is quiet, and then until
// all tables agree. What is not certain within an hour is forgotten.
type minutes struct {
	at map[int64]*minute // by Unix seconds
}

type minute struct {
	touched time.Time // when rows of it were loaded last
	found   map[warehouse.Unlike]struct{}
	sure    int64 // rows of what was found twice
}

func newMinutes() *minutes { return &minutes{at: make(map[int64]*minute)} }

// loaded is told of which minutes rows were loaded.
func (m *minutes) loaded(of []int64, now time.Time) {
	for _, at := range of {
		if now.Unix()-at > int64(agedMost.Seconds()) {
			continue
		}
		if m.at[at] == nil {
			m.at[at] = new(minute)
		}
		m.at[at].touched = now
	}
	if over := len(m.at) - minutesKept; over > 0 {
		for _, at := range slices.Sorted(maps.Keys(m.at))[:over] {
			delete(m.at, at)
		}
	}
}

// again takes in the minutes of what others loaded, or what was compared long ago: tables may
// have lost it since.
func (m *minutes) again(ranges []Loaded, now time.Time) {
	for _, r := range ranges {
		var of []int64
		for at := max(r.Since, r.Until-minutesKept*60); at < r.Until; at += 60 {
			if m.at[at] == nil {
				of = append(of, at)
			}
		}
		m.loaded(of, now)
	}
}

// due are the minutes to compare now: of one day, the latest first, since days are
// what a look reads.
func (m *minutes) due(now time.Time, quiet time.Duration) (of []int64) {
	for _, at := range slices.Backward(slices.Sorted(maps.Keys(m.at))) {
		if len(of) == minutesAtOnce || len(of) > 0 && of[0]-at > 24*60*60 {
			break
		}
		if now.Sub(m.at[at].touched) >= quiet {
			of = append(of, at)
		}
	}
	return of
}

// compared takes in what was found of minutes. What was found as it was the time
// before is a difference; the rest may be a block on its way.
func (m *minutes) compared(of []int64, found []warehouse.Unlike, now time.Time) {
	by := make(map[int64][]warehouse.Unlike)
	for _, u := range found {
		by[u.Minute] = append(by[u.Minute], u)
	}
	for _, at := range of {
		is := m.at[at]
		if is == nil {
			continue
		}
		was := is.found
		is.found, is.sure = make(map[warehouse.Unlike]struct{}), 0
		for _, u := range by[at] {
			is.found[u] = struct{}{}
			if _, again := was[u]; again {
				is.sure += u.Rows
			}
		}
		if len(is.found) == 0 || is.sure == 0 && now.Sub(is.touched) > remember {
			delete(m.at, at)
		}
	}
}

// difference is how many rows are missing or too many in tables other than
// status_events and decisions, and in which.
func (m *minutes) difference() (rows int64, tables []string) {
	for _, is := range m.at {
		if is.sure == 0 {
			continue
		}
		rows += is.sure
		for u := range is.found {
			tables = append(tables, u.Table)
		}
	}
	slices.Sort(tables)
	return rows, slices.Compact(tables)
}

// minutesOf are the minutes of a block's rows, in Unix seconds.
func (b *Block) minutesOf() (of []int64) {
	seen := make(map[int64]struct{})
	last := int64(-1)
	for _, at := range b.at {
		if m := at / 60_000 * 60; m != last {
			last = m
			seen[m] = struct{}{}
		}
	}
	return slices.Collect(maps.Keys(seen))
}

// daysOf is how many days minutes are of.
func daysOf(minutes []int64) int {
	seen := make(map[int64]struct{})
	for _, m := range minutes {
		seen[m/(24*60*60)] = struct{}{}
	}
	return len(seen)
}
