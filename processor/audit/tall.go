package audit

import (
	"slices"
	"sort"

	"github.com/weirhq/weir/schemas"
)

// tallFrom is how many places a list holds before its scope becomes tall.
const tallFrom = 48

// standing is one place of a tall scope; one that was taken down costs nothing.
type standing struct {
	t       schemas.Millis
	message uint64
	cost    int64
}

// tall is a scope with so many places that walking over them would cost more
// than the verdict: its places by age, and above them a binary indexed tree of
// what they cost. Every question takes the logarithm of their number; what is
// forgotten is moved together now and then.
type tall struct {
	at   []standing // by time, the oldest first
	tree []int64    // tree[i-1] is what the places from i-(i&-i) up to i cost
}

// sum is what the first n places cost.
func (s *tall) sum(n int) (total int64) {
	for ; n > 0; n -= n & -n {
		total += s.tree[n-1]
	}
	return total
}

// change adds to the cost of place i.
func (s *tall) change(i int, by int64) {
	s.at[i].cost += by
	for n := i + 1; n <= len(s.tree); n += n & -n {
		s.tree[n-1] += by
	}
}

// rebuild makes the tree anew.
func (s *tall) rebuild() {
	s.tree = slices.Grow(s.tree[:0], len(s.at))[:len(s.at)]
	for i := range s.at {
		s.tree[i] = s.at[i].cost
	}
	for n := 1; n <= len(s.tree); n++ {
		if up := n + n&-n; up <= len(s.tree) {
			s.tree[up-1] += s.tree[n-1]
		}
	}
}

// before is how many places were taken before t.
func (s *tall) before(t schemas.Millis) int {
	return sort.Search(len(s.at), func(i int) bool { return s.at[i].t >= t })
}

func (s *tall) add(p standing, seen schemas.Millis) {
	if n := s.before(seen); n > tallFrom && n > len(s.at)/2 {
		s.at = append(s.at[:0], s.at[n:]...)
		s.rebuild()
	}
	n := len(s.at)
	if n > 0 && s.at[n-1].t > p.t { // only a message sent elsewhere comes late
		s.at = slices.Insert(s.at, s.before(p.t+1), p)
		s.rebuild()
		return
	}
	s.at = append(s.at, p)
	n++
	s.tree = append(s.tree, p.cost+s.sum(n-1)-s.sum(n-n&-n))
}

// find returns the place of a message, or -1.
func (s *tall) find(t schemas.Millis, cost int64, message uint64) int {
	for i := s.before(t); i < len(s.at) && s.at[i].t == t; i++ {
		if s.at[i].cost == cost && s.at[i].message == message {
			return i
		}
	}
	return -1
}

// without does something while the places of one message do not stand.
func (s *tall) without(away []schemas.Charge, message uint64, do func()) {
	for i := range away {
		if k := s.find(away[i].T, away[i].Cost, message); k >= 0 && away[i].Cost > 0 {
			s.change(k, -away[i].Cost)
			defer s.change(k, away[i].Cost)
		}
	}
	do()
}

func (s *tall) count(from, t schemas.Millis) (n int64, oldest schemas.Millis) {
	lo, hi := s.before(from), s.before(t+1)
	if n = s.sum(hi) - s.sum(lo); n > 0 {
		oldest = s.at[s.reaching(s.sum(lo)+1)].t
	}
	return n, oldest
}

// reaching returns the first place with which all up to it cost n or more.
func (s *tall) reaching(n int64) int {
	at := 0
	step := 1
	for step*2 <= len(s.tree) {
		step *= 2
	}
	for ; step > 0; step /= 2 {
		if next := at + step; next <= len(s.tree) && s.tree[next-1] < n {
			at = next
			n -= s.tree[next-1]
		}
	}
	return at
}
