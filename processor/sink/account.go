package sink

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What was confirmed is kept where a loss of ClickHouse's does not take it along: beside
// the plan, in the metadata of the group's offsets. There are marks, the later the closer:
//
//	from ──────── to₁ ──── to₂ ── to₃ ─ to₄     a mark: how many rows, and the sum of their hashes
//
// Two marks that are next to each other may become one, since both figures add up.
const (
	// marksMost bounds them: with as many the metadata is well below maxMetadata.
	marksMost = 24
	// accountFor is for how long a mark is kept: no shorter than weir.status is by default,
	// so that what is missing is known while it can be loaded again.
	accountFor = 9 * 24 * time.Hour
	// remember is how far back what was loaded is compared each time. All of it is
	// compared after an assignment and each accountEvery.
	remember     = time.Hour
	accountEvery = time.Hour
	// minutesEvery is how often the tables that views fill are compared for all of the account.
	minutesEvery = 6 * time.Hour
)

// mark is a run of offsets that were confirmed. Times are in Unix seconds.
type mark struct {
	to           int64 // the offset after the last
	records      int64
	hash         uint64 // the sum of rowHash of its rows
	at           int64  // when the first of it was loaded
	since, until int64  // at of its rows, in whole minutes; until is not among them
}

// rowHash is of what a row is known by: its offset, and its time, since a topic that is made
// again has its offsets again. rowHashSQL is the same in ClickHouse.
func rowHash(offset, at int64) uint64 { return intHash64(intHash64(uint64(offset)) + uint64(at)) }

const rowHashSQL = "intHash64(intHash64(toUInt64(status_offset)) + toUInt64(toUnixTimestamp64Milli(at)))"

// intHash64 is ClickHouse's function of that name.
func intHash64(x uint64) uint64 {
	x ^= 0x4CF2D2BAAE6DA887
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

func (m mark) and(next mark) mark {
	return mark{to: next.to, records: m.records + next.records, hash: m.hash + next.hash, at: m.at, since: min(m.since, next.since), until: max(m.until, next.until)}
}

// thin makes two marks one until there are not too many. It takes the two that are the
// shortest for their age.
func thin(marks []mark, now time.Time) []mark {
	for len(marks) > marksMost {
		best, shortest := 0, 0.0
		for i := range len(marks) - 1 {
			end := now.Unix()
			if i+2 < len(marks) {
				end = marks[i+2].at
			}
			short := float64(end-marks[i].at) / float64(max(1, now.Unix()-marks[i].at))
			if i == 0 || short < shortest {
				best, shortest = i, short
			}
		}
		marks = slices.Replace(marks, best, best+2, marks[best].and(marks[best+1]))
	}
	return marks
}

// String is e as a part of an offset's metadata. Each value is a number and each name
// is one that ParseMetadata leaves out, so that a sink of a former version reads its plan.
func (e *entries) String() string {
	if e == nil || len(e.marks) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, " l=%d", e.from)
	last := e.from
	for _, m := range e.marks {
		fmt.Fprintf(&b, " n=%d h=%d a=%d s=%d u=%d t=%d", m.records, int64(m.hash), m.at, m.since/60, (m.until-m.since)/60, m.to-last)
		last = m.to
	}
	return b.String()
}

// parseEntries reads what String wrote beside a plan that is confirmed up to from. What
// does not fit together is none.
func parseEntries(from int64, metadata string) *entries {
	e := &entries{}
	var m mark
	for f := range strings.SplitSeq(metadata, " ") {
		name, value, ok := strings.Cut(f, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if !ok || err != nil {
			continue // the topic, and what begins it
		}
		switch name {
		case "l":
			e.from, m.to = n, n
		case "n":
			m.records = n
		case "h":
			m.hash = uint64(n)
		case "a":
			m.at = n
		case "s":
			m.since = n * 60
		case "u":
			m.until = m.since + n*60
		case "t":
			m.to += n
			if n <= 0 || m.records <= 0 || m.until <= m.since {
				return &entries{}
			}
			e.marks = append(e.marks, m)
		}
	}
	if len(e.marks) > 0 && e.marks[len(e.marks)-1].to > from {
		return &entries{}
	}
	return e
}

// apart is by how much two counts of rows, with the sums of their hashes, differ: 1 where
// only these do.
func apart(has, want int64, hash, wanted uint64) int64 {
	switch {
	case has != want:
		return max(has-want, want-has)
	case hash != wanted:
		return 1
	}
	return 0
}
