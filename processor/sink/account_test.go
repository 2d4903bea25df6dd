package sink

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestAccount: whatever was loaded, and however long, the account adds up, fits into an offset's
// metadata beside a plan, comes back from there, and a former version reads the plan beside it.
func TestAccount(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	now := time.Unix(1_800_000_000, 0)
	l := newLedger()
	l.start(0, &entries{})
	var offset, records int64
	var hash uint64
	for range 20_000 {
		now = now.Add(time.Duration(r.IntN(120)) * time.Second)
		var offsets, ats []int64
		for range 1 + r.IntN(3) {
			offset += 1 + r.Int64N(1_000_000)
			offsets, ats = append(offsets, offset), append(ats, now.UnixMilli()-r.Int64N(1_000_000_000))
		}
		var minutes []int64
		for i, at := range ats {
			minutes = append(minutes, at/60_000*60)
			records++
			hash += rowHash(offsets[i], at)
		}
		offset++ // a marker
		l.loaded(0, offset, offsets, ats, minutes, now)
		if len(l.parts[0].marks) > marksMost {
			t.Fatalf("%d marks", len(l.parts[0].marks))
		}
		for _, m := range l.parts[0].marks {
			if m.until <= m.since || m.at > now.Unix() {
				t.Fatalf("mark %+v", m)
			}
		}
	}
	e := l.parts[0]
	if kept := now.Unix() - e.marks[0].at; kept < int64(accountFor.Seconds()) || kept > 2*int64(accountFor.Seconds()) {
		t.Errorf("%v are kept", time.Duration(kept)*time.Second)
	}
	plan := Plan{Topic: strings.Repeat("t", 36), From: offset, To: offset + 1<<40, Encoder: 3, Made: 1 << 42, Expires: 1 << 42, Try: 1 << 42, Doubt: 1 << 62, First: true}
	text := plan.Metadata() + e.String()
	if len(text) > maxMetadata*3/4 {
		t.Errorf("%d bytes of metadata", len(text))
	}
	if got, err := ParseMetadata(0, offset, text); err != nil || got != plan {
		t.Errorf("the plan comes back as %+v, %v", got, err)
	}
	if got := parseEntries(offset, text); !reflect.DeepEqual(got, e) {
		t.Errorf("it comes back as %+v, want %+v", got, e)
	}
	if got := parseEntries(offset-1, text); len(got.marks) != 0 {
		t.Errorf("an account of more than is confirmed counts: %+v", got)
	}
	if r := l.ranges(now.Add(-remember))[0]; r.From < e.marks[len(e.marks)-1].to-100*3_000_000 || r.Since < now.Unix()-1_100_000 {
		t.Errorf("of an hour it compares %+v", r)
	}

	// Without forgetting it all adds up.
	l.start(0, &entries{})
	var want mark
	for i := range int64(5000) {
		l.loaded(0, i+1, []int64{i}, []int64{i * 1000}, []int64{i / 60 * 60}, time.Unix(i*100, 0))
		want.records, want.hash = want.records+1, want.hash+rowHash(i, i*1000)
	}
	if got := l.ranges(time.Time{})[0]; got != (Loaded{To: 5000, Records: want.records, Hash: want.hash, Until: 5040 / 60 * 60}) {
		t.Errorf("it adds up to %+v, want %+v", got, want)
	}
}
