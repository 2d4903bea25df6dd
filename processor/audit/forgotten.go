package audit

import "slices"

// forgotten remembers the last fifty million messages that ended long ago, in some 10 bits each: enough to
// say of a receipt that its message never was. It may take one that never was for one
// that was (1 in 100), and never the other way round.
type forgotten struct {
	pages []*page
	in    int  // of the last page
	lost  bool // a page was dropped: what it had may be taken for one that never was
}

const (
	pageBits = 1 << 23
	pageMost = pageBits / 10
	pageHits = 7 // bits an entry
	pageKept = 64
)

type page [pageBits / 64]uint64

func (f *forgotten) add(s sum) {
	if len(f.pages) == 0 || f.in == pageMost {
		f.pages, f.in = append(f.pages, new(page)), 0
		if len(f.pages) > pageKept {
			f.pages, f.lost = slices.Delete(f.pages, 0, 1), true
		}
	}
	f.in++
	p := f.pages[len(f.pages)-1]
	for at := range hits(s) {
		p[at/64] |= 1 << (at % 64)
	}
}

func (f *forgotten) has(s sum) bool {
pages:
	for i := range f.pages {
		for at := range hits(s) {
			if f.pages[i][at/64]&(1<<(at%64)) == 0 {
				continue pages
			}
		}
		return true
	}
	return false
}

func (f *forgotten) size() int64 { return int64(len(f.pages)) * pageBits / 8 }

// hits are the bits of an entry.
func hits(s sum) func(yield func(uint64) bool) {
	a, b := s[0], s[1]|1
	return func(yield func(uint64) bool) {
		for i := range uint64(pageHits) {
			if !yield((a + i*b) % pageBits) {
				return
			}
		}
	}
}
