package limit

import (
	"math"
	"slices"
	"sort"

	"github.com/weirhq/weir/schemas"
)

// segmentPlaces is how many places a segment has at most: its record is a
// kilobyte where a day has 100,000 of them, and what is searched for one among
// as many has 200 segments.
const segmentPlaces = 512

// long has the places of a slot that has many, in segments. It is beside the
// slot and not part of it: the ledger, too, has a record for each segment and
// one for the slot, and whichever of them is loaded or undone first, the other
// does not mind.
type long struct {
	key   [2]uint64
	segs  []segment // in the order of their places
	next  uint32    // a number that no segment has, nor had in the open transaction
	limit uint32    // as the slot's
	n     int       // places of all
	cost  int64     // of all
}

// segment is some places that follow one another: a block of the arena that has
// for each its time, in milliseconds from base, and its cost if weighted. It is
// never empty.
type segment struct {
	number   uint32 // its name in the ledger, together with the slot's key
	block    uint32
	n        uint32
	check    Check // of its record in the ledger
	class    uint8
	weighted bool
	dirty    bool // its state before the open transaction is in Table.saved

	base, first, last schemas.Millis
	cost              int64
}

// A position of a long is the segment's index and, in the lowest bits, that of
// the place in it.
const (
	positionBits = 20
	maxSegment   = 1 << positionBits // places, of another version's segments
)

func position(i, j int) int         { return i<<positionBits | j }
func positioned(pos int) (i, j int) { return pos >> positionBits, pos & (maxSegment - 1) }

// longOf returns the segments of a slot, which are none if they were forgotten.
func (t *Table) longOf(key [2]uint64) *long {
	if t.lately != nil && t.lately.key == key {
		return t.lately
	}
	l := t.longs[key]
	if l == nil {
		return &long{key: key}
	}
	t.lately = l
	return l
}

// longFor is longOf for what is to have segments.
func (t *Table) longFor(key [2]uint64) *long {
	if t.longs == nil {
		t.longs = map[[2]uint64]*long{}
	}
	l := t.longs[key]
	if l == nil {
		l = &long{key: key}
		t.longs[key] = l
	}
	return l
}

// letGo forgets a long that has no segment.
func (t *Table) letGo(key [2]uint64) {
	if l := t.longs[key]; l != nil && len(l.segs) == 0 {
		delete(t.longs, key)
		t.lately = nil
	}
}

func (sg *segment) stride() int {
	if sg.weighted {
		return 2
	}
	return 1
}

// wordsOf returns those of the segment's places.
func (t *Table) wordsOf(sg *segment) []uint32 {
	return t.blocks.at(sg.class, sg.block)[:int(sg.n)*sg.stride()]
}

// afterIn returns the index of the segment's first place later than at.
func (t *Table) afterIn(sg *segment, at schemas.Millis) int {
	words, stride := t.wordsOf(sg), sg.stride()
	return sort.Search(int(sg.n), func(j int) bool { return sg.base+schemas.Millis(words[j*stride]) > at })
}

// costBefore returns the cost of the segment's first j places.
func (t *Table) costBefore(sg *segment, j int) int64 {
	if !sg.weighted {
		return int64(j)
	}
	var total int64
	for words, i := t.wordsOf(sg), 0; i < j; i++ {
		total += int64(words[2*i+1])
	}
	return total
}

// after returns the position of the first place later than at.
func (l *long) after(t *Table, at schemas.Millis) int {
	i := sort.Search(len(l.segs), func(i int) bool { return l.segs[i].last > at })
	if i == len(l.segs) || l.segs[i].first > at {
		return position(i, 0)
	}
	return position(i, t.afterIn(&l.segs[i], at))
}

// sum returns the cost of the places from pos on.
func (l *long) sum(t *Table, pos int) int64 {
	i, j := positioned(pos)
	var total int64
	if i < len(l.segs)/2 {
		total = l.cost
		for k := range l.segs[:i] {
			total -= l.segs[k].cost
		}
	} else {
		for k := range l.segs[i:] {
			total += l.segs[i+k].cost
		}
	}
	if j > 0 {
		total -= t.costBefore(&l.segs[i], j)
	}
	return total
}

// nth is Table.nth.
func (l *long) nth(t *Table, pos int, excess int64) schemas.Millis {
	i, j := positioned(pos)
	excess += t.costBefore(&l.segs[i], j)
	for excess > l.segs[i].cost {
		excess -= l.segs[i].cost
		i++
	}
	sg := &l.segs[i]
	words := t.wordsOf(sg)
	if !sg.weighted {
		return sg.base + schemas.Millis(words[excess-1])
	}
	for k := 0; ; k += 2 {
		if excess -= int64(words[k+1]); excess <= 0 {
			return sg.base + schemas.Millis(words[k])
		}
	}
}

// find returns the position of a place of this time and cost, or -1.
func (l *long) find(t *Table, at schemas.Millis, cost int64) int {
	for i, j := positioned(l.after(t, at-1)); i < len(l.segs); i, j = i+1, 0 {
		sg := &l.segs[i]
		words, stride := t.wordsOf(sg), sg.stride()
		for ; j < int(sg.n); j++ {
			switch {
			case sg.base+schemas.Millis(words[j*stride]) != at:
				return -1
			case stride == 1 && cost == 1 || stride == 2 && int64(words[2*j+1]) == cost:
				return position(i, j)
			}
		}
	}
	return -1
}

// index returns where the segment with this number is, or -1.
func (l *long) index(number uint32) int {
	return slices.IndexFunc(l.segs, func(sg segment) bool { return sg.number == number })
}

// attach puts a segment where its places belong.
func (l *long) attach(sg *segment) {
	i := sort.Search(len(l.segs), func(i int) bool {
		o := &l.segs[i]
		return o.first > sg.first || o.first == sg.first && o.last > sg.last
	})
	l.insert(i, sg)
	l.next = max(l.next, sg.number+1)
}

func (l *long) insert(i int, sg *segment) {
	l.segs = slices.Insert(l.segs, i, *sg)
	l.n, l.cost = l.n+int(sg.n), l.cost+sg.cost
}

// detach takes the segments from i to before to out, and leaves their blocks.
func (l *long) detach(i, to int) {
	for k := range l.segs[i:to] {
		l.n, l.cost = l.n-int(l.segs[i+k].n), l.cost-l.segs[i+k].cost
	}
	l.segs = slices.Delete(l.segs, i, to)
}

// newSegment returns a segment of these places, which are in order, without a
// number.
func (t *Table) newSegment(times []schemas.Millis, costs []uint32) segment {
	n := len(times)
	sg := segment{n: uint32(n), base: times[0], first: times[0], last: times[n-1]}
	for _, c := range costs {
		sg.cost += int64(c)
		sg.weighted = sg.weighted || c != 1
	}
	stride := sg.stride()
	sg.class = classFor(max(n, t.perSegment) * stride)
	sg.block = t.blocks.take(sg.class)
	words := t.wordsOf(&sg)
	for j := range times {
		words[j*stride] = uint32(times[j] - sg.base)
		if stride == 2 {
			words[2*j+1] = costs[j]
		}
	}
	return sg
}

// lay adds the segment's places to st.
func (t *Table) lay(st *standing, sg *segment) {
	words, stride := t.wordsOf(sg), sg.stride()
	for j := 0; j < len(words); j += stride {
		cost := uint32(1)
		if stride == 2 {
			cost = words[j+1]
		}
		st.times, st.costs = append(st.times, sg.base+schemas.Millis(words[j])), append(st.costs, cost)
	}
}

// spans reports whether a segment can hold places from one moment to the other.
func spans(from, to schemas.Millis) bool { return to-from <= math.MaxUint32 }

// takes reports whether one more place fits in the segment.
func (t *Table) takes(sg *segment, at schemas.Millis) bool {
	return int(sg.n) < t.perSegment && spans(min(at, sg.first), max(at, sg.last))
}

// put adds a place after every one that is not later.
func (l *long) put(t *Table, at schemas.Millis, cost uint32) {
	i, j := positioned(l.after(t, at))
	if j == 0 && i > 0 && t.takes(&l.segs[i-1], at) {
		i, j = i-1, int(l.segs[i-1].n)
	}
	if i == len(l.segs) || !t.takes(&l.segs[i], at) {
		if j == 0 {
			sg := t.newSegment([]schemas.Millis{at}, []uint32{cost})
			t.added(l, i, &sg)
			return
		}
		t.split(l, i)
		l.put(t, at, cost)
		return
	}
	sg := t.change(l, i)
	if at < sg.base || !spans(sg.base, at) || cost != 1 && !sg.weighted {
		st := t.relaid()
		t.lay(st, sg)
		st.insert(at, cost)
		t.rewrite(l, sg, st)
		return
	}
	sg.n++
	words, stride := t.wordsOf(sg), sg.stride()
	copy(words[(j+1)*stride:], words[j*stride:])
	words[j*stride] = uint32(at - sg.base)
	if stride == 2 {
		words[2*j+1] = cost
	}
	sg.first, sg.last, sg.cost = min(sg.first, at), max(sg.last, at), sg.cost+int64(cost)
	l.n, l.cost = l.n+1, l.cost+int64(cost)
}

// takeAt removes the place at pos. Segments that become small are joined, so
// that places that were given back do not leave a segment for each that was not.
func (l *long) takeAt(t *Table, pos int) {
	i, j := positioned(pos)
	if l.segs[i].n == 1 {
		t.drop(l, i, i+1)
		return
	}
	sg := t.change(l, i)
	words, stride := t.wordsOf(sg), sg.stride()
	cost := int64(1)
	if stride == 2 {
		cost = int64(words[2*j+1])
	}
	copy(words[j*stride:], words[(j+1)*stride:])
	sg.n--
	sg.first, sg.last = sg.base+schemas.Millis(words[0]), sg.base+schemas.Millis(words[int(sg.n-1)*stride])
	sg.cost -= cost
	l.n, l.cost = l.n-1, l.cost-cost
	for k := max(i-1, 0); k < min(i+1, len(l.segs)-1); k++ {
		a, b := &l.segs[k], &l.segs[k+1]
		if int(a.n+b.n) <= t.perSegment/2 && spans(a.first, b.last) {
			t.join(l, k)
			return
		}
	}
}

// split makes two of a full segment.
func (t *Table) split(l *long, i int) {
	st := t.relaid()
	t.lay(st, &l.segs[i])
	half := len(st.times) / 2
	upper := t.newSegment(st.times[half:], st.costs[half:])
	st.times, st.costs = st.times[:half], st.costs[:half]
	t.rewrite(l, t.change(l, i), st)
	t.added(l, i+1, &upper)
}

// join makes one of a segment and the next.
func (t *Table) join(l *long, i int) {
	st := t.relaid()
	t.lay(st, &l.segs[i])
	t.lay(st, &l.segs[i+1])
	t.drop(l, i+1, i+2)
	t.rewrite(l, t.change(l, i), st)
}

// relaid returns an empty standing in memory that the next call uses again. It
// is not Table.laid, in which a slot may lie open.
func (t *Table) relaid() *standing {
	st := &t.segment
	st.times, st.costs = st.times[:0], st.costs[:0]
	return st
}

// rewrite gives a segment that may be changed other places.
func (t *Table) rewrite(l *long, sg *segment, st *standing) {
	l.n, l.cost = l.n-int(sg.n), l.cost-sg.cost
	t.blocks.release(sg.class, sg.block)
	number, dirty := sg.number, sg.dirty
	*sg = t.newSegment(st.times, st.costs)
	sg.number, sg.dirty = number, dirty
	l.n, l.cost = l.n+int(sg.n), l.cost+sg.cost
}

// cut moves the places of st into segments of slot s.
func (t *Table) cut(s *slot, st *standing) {
	l := t.longFor(s.key)
	l.limit = st.limit
	for from := 0; from < len(st.times); from += t.perSegment {
		to := min(from+t.perSegment, len(st.times))
		for !spans(st.times[from], st.times[to-1]) {
			to = from + (to-from)/2
		}
		sg := t.newSegment(st.times[from:to], st.costs[from:to])
		t.added(l, len(l.segs), &sg)
	}
	st.times, st.costs, st.long = st.times[:0], st.costs[:0], true
}

// shorten takes the places of a slot that has few by now back into it.
func (t *Table) shorten(s *slot, now schemas.Millis) {
	l := t.longOf(s.key)
	if l.n > t.perSegment/2 {
		return
	}
	st := t.open(s)
	st.long = false
	for i := range l.segs {
		t.lay(st, &l.segs[i])
	}
	t.build(s, st, now)
}
