package audit

import (
	"cmp"
	"slices"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// What was admitted one by one, and sent all at once, is reported as it was
// sent.
func TestDensestRealSending(t *testing.T) {
	most := func(t *testing.T, s *sheet) Density {
		t.Helper()
		r := s.audit(t)
		if r.Outcome != Proven {
			t.Fatal(show(r))
		}
		for _, d := range r.Densest {
			if d.Limit == "two" {
				return d
			}
		}
		t.Fatalf("nothing is said of the limit: %+v", r.Densest)
		return Density{}
	}
	spaced := func() *sheet { // admitted eleven seconds apart: one in each window
		s := newSheet(t)
		for i := range 4 {
			s.admit(string(rune('g'+i)), carol, "verify", start+11_000*schemas.Millis(i+1))
		}
		return s
	}
	name := func(i int) string { return string(rune('g' + i)) }
	for _, c := range []struct {
		name string
		do   func(s *sheet)
		want int64
		at   schemas.Millis
	}{
		{"bunched up", func(s *sheet) {
			for i := range 4 {
				s.call(name(i), carol, "verify", schemas.StatusSent, 1, start+44_500+schemas.Millis(400*i))
			}
		}, 4, start + 45_700},
		{"bunched up, and read in another order", func(s *sheet) {
			for _, i := range []int{2, 0, 3, 1} {
				s.call(name(i), carol, "verify", schemas.StatusSent, 1, start+44_500+schemas.Millis(400*i))
			}
			slices.SortStableFunc(s.journal, func(a, b written) int { return cmp.Compare(a.journal.T, b.journal.T) }) // another provider's
		}, 4, start + 45_700},
		{"a window apart", func(s *sheet) {
			for i := range 4 {
				s.call(name(i), carol, "verify", schemas.StatusSent, 1, start+44_500+schemas.Millis(10_000*i))
			}
		}, 3, start + 3100}, // alice's, of the clean log
		{"a permit that expired unused leaves with the next one", func(s *sheet) {
			for i := range 3 {
				s.call(name(i), carol, "verify", schemas.StatusSent, 1, start+44_500+schemas.Millis(4500*i))
			}
			s.step("j", carol, "verify", schemas.StatusSending, 1, start+60_000)
			s.journal = append(s.journal, written{offset: 90, appended: start + 60_005, journal: journalled{Kind: "permit", ID: id("j"), Attempt: 1, T: start + 60_000}},
				written{offset: 91, appended: start + 60_105, journal: journalled{Kind: "outcome", ID: id("j"), Attempt: 1, T: start + 60_100, Permit: start + 60_000, Outcome: "expired_permit"}})
			s.admit("k", carol, "verify", start+61_000)
			s.call("j", carol, "verify", schemas.StatusSent, 1, start+62_000)
			s.call("k", carol, "verify", schemas.StatusSent, 1, start+63_000)
		}, 3, start + 3100},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := spaced()
			c.do(s)
			if d := most(t, s); d.Most != c.want || d.At != c.at {
				t.Errorf("%+v, want %d at %s", d, c.want, c.at)
			}
		})
	}
}
