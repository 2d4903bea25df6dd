package limit

import (
	"math/bits"
	"slices"

	"github.com/weirhq/weir/schemas"
)

// A slot is what stands in one limit and scope: the times of its places, oldest
// first, and a counter for each calendar unit of the limit. It is 64 bytes, a
// cache line, and holds no pointers, so that the garbage collector never looks
// at ten million of them.
//
// Times are uint32 milliseconds from base<<baseShift. Such an offset spans
// 49.7 days; base is chosen so that everything of the last keep (33 days) fits
// for at least 12.4 days to come, and moves on when the newest no longer fits.
// What is older than keep by then is beyond every window, and dropped.
//
// The words w hold the counters, two each (from, count), in the order of the
// units, then the five words of a bucket, then the places: one word each, or two (time, cost) once a place of
// the slot has cost other than 1. When that does not fit, the places move to a
// block of the arena: w[0] is the block's number and w[1] the number of places,
// the counters follow, and the block has its number of dead words, the bucket,
// the dead words, and the places.
type slot struct {
	key   [2]uint64
	limit uint32 // nameHash of the limit: whose windows may still see this
	base  uint16
	flags uint8
	size  uint8 // up to inlineWords: the number of places; else spilled + the arena's class, and perhaps segmented
	w     [inlineWords]uint32
}

const (
	inlineWords = 10
	spilled     = inlineWords + 1
	segmented   = 1 << 7

	flagUnits    = 1<<unitCount - 1
	flagUsed     = 1 << 4
	flagDirty    = 1 << 5 // its state before the open transaction is in the undo log
	flagWeighted = 1 << 6
	flagBucket   = 1 << 7

	baseShift = 30
	day       = 24 * 60 * 60 * 1000
	// keep covers the longest window, 31 days, and a calendar month with a
	// zone's date change in it.
	keep = 33 * day
	// maxTime is the last moment that base reaches, in the year 4200.
	maxTime = schemas.Millis(1<<(16+baseShift) - 1)
	// maxCount bounds n and a counter.
	maxCount = 1 << 31
)

// standing is a slot laid open: the form in which it is built anew, written to
// the ledger and read back. Only what does not change the layout is done on the
// slot itself.
type standing struct {
	limit  uint32
	units  uint8
	from   [unitCount]schemas.Millis
	count  [unitCount]uint32
	bucket tokens
	times  []schemas.Millis // oldest first
	costs  []uint32         // beside times
	long   bool             // the places are in segments, and not here
	part   bool             // a segment: nothing but places
}

func (s *slot) used() bool  { return s.flags&flagUsed != 0 }
func (s *slot) dirty() bool { return s.flags&flagDirty != 0 }

// long reports whether the slot's places are in segments.
func (s *slot) long() bool { return s.size&segmented != 0 }

// class returns that of the block of a slot that has one.
func (s *slot) class() uint8 { return s.size&^segmented - spilled }

func (s *slot) stride() int {
	if s.flags&flagWeighted != 0 {
		return 2
	}
	return 1
}

// inline returns how many words are left for places in a slot with flags.
func inline(flags uint8) int { return inlineWords - 2*bits.OnesCount8(flags&flagUnits) - held(flags) }

// held returns how many words the bucket takes.
func held(flags uint8) int {
	if flags&flagBucket != 0 {
		return bucketWords
	}
	return 0
}

func (s *slot) origin() schemas.Millis { return schemas.Millis(s.base) << baseShift }

// fits reports whether t can be written in the slot as it is.
func (s *slot) fits(t schemas.Millis) bool { return uint64(t-s.origin()) < 1<<32 }

// counter returns where the counter of unit stands in w; false without one.
func (s *slot) counter(unit int) (int, bool) {
	if s.flags&(1<<unit) == 0 {
		return 0, false
	}
	i := 2 * bits.OnesCount8(s.flags&(1<<unit-1))
	if s.size >= spilled {
		i += 2
	}
	return i, true
}

// places returns how many places stand in the slot and its block, seen by a
// window or not.
func (s *slot) places() int {
	if s.size >= spilled {
		return int(s.w[1])
	}
	return int(s.size)
}

func (s *slot) setPlaces(n int) {
	if s.size >= spilled {
		s.w[1] = uint32(n)
	} else {
		s.size = uint8(n)
	}
}

func (s *slot) empty() bool {
	if s.places() > 0 || s.long() || s.flags&flagBucket != 0 {
		return false
	}
	for u := range unitCount {
		if i, ok := s.counter(u); ok && s.w[i+1] > 0 {
			return false
		}
	}
	return true
}

// ring returns the words of the places in the slot or its block.
func (t *Table) ring(s *slot) []uint32 {
	n := s.places() * s.stride()
	if s.size >= spilled {
		b := t.blocks.at(s.class(), s.w[0])
		return b[1+held(s.flags)+int(b[0]):][:n]
	}
	return s.w[inlineWords-inline(s.flags):][:n]
}

// after returns the index of the first place later than at; of a slot with
// segments its position in them.
func (t *Table) after(s *slot, at schemas.Millis) int {
	if s.long() {
		return t.longOf(s.key).after(t, at)
	}
	off := at - s.origin()
	if off < 0 {
		return 0
	}
	if off >= 1<<32 {
		return s.places()
	}
	ring, stride, o := t.ring(s), s.stride(), uint32(off)
	n := len(ring) / stride
	if n <= 2*inlineWords {
		for n > 0 && ring[(n-1)*stride] > o {
			n--
		}
		return n
	}
	lo, hi := 0, n
	for lo < hi {
		m := int(uint(lo+hi) / 2)
		if ring[m*stride] > o {
			hi = m
		} else {
			lo = m + 1
		}
	}
	return lo
}

// sum returns the cost of the places from index i on.
func (t *Table) sum(s *slot, i int) int64 {
	if s.long() {
		return t.longOf(s.key).sum(t, i)
	}
	if s.stride() == 1 {
		return int64(s.places() - i)
	}
	var total int64
	ring := t.ring(s)
	for ; 2*i < len(ring); i++ {
		total += int64(ring[2*i+1])
	}
	return total
}

// nth returns the time of the place, from index i on, with which the cost of
// those that left reaches excess. There is one: excess is at most sum(s, i).
func (t *Table) nth(s *slot, i int, excess int64) schemas.Millis {
	if s.long() {
		return t.longOf(s.key).nth(t, i, excess)
	}
	ring := t.ring(s)
	if s.stride() == 1 {
		return s.origin() + schemas.Millis(ring[int64(i)+excess-1])
	}
	for {
		excess -= int64(ring[2*i+1])
		if excess <= 0 {
			return s.origin() + schemas.Millis(ring[2*i])
		}
		i++
	}
}

// placed returns the index of a place of this time and cost, or -1.
func (t *Table) placed(s *slot, at schemas.Millis, cost int64) int {
	if s.long() {
		return t.longOf(s.key).find(t, at, cost)
	}
	ring, stride := t.ring(s), s.stride()
	for i := t.after(s, at-1); i < s.places() && s.origin()+schemas.Millis(ring[i*stride]) == at; i++ {
		if stride == 1 && cost == 1 || stride == 2 && int64(ring[2*i+1]) == cost {
			return i
		}
	}
	return -1
}

// dropOldest removes the k oldest places; of segments only those whole that lie
// before the index k, since the places that stay are none that a window sees.
func (t *Table) dropOldest(s *slot, k int) {
	if k == 0 {
		return
	}
	if s.long() {
		i, _ := positioned(k)
		t.drop(t.longOf(s.key), 0, i)
		return
	}
	if s.size >= spilled {
		t.blocks.at(s.class(), s.w[0])[0] += uint32(k * s.stride())
	} else {
		ring := t.ring(s)
		copy(ring, ring[k*s.stride():])
	}
	s.setPlaces(s.places() - k)
}

// dropAt removes the place of index i.
func (t *Table) dropAt(s *slot, i int) {
	if s.long() {
		t.longOf(s.key).takeAt(t, i)
		return
	}
	ring, stride := t.ring(s), s.stride()
	copy(ring[i*stride:], ring[(i+1)*stride:])
	s.setPlaces(s.places() - 1)
}

// push is the usual case of place, in a slot that has only places of cost 1 and
// room for one more: those up to unseen leave, and at is the latest. False is
// any other case, and nothing happened.
func (s *slot) push(at, unseen, now schemas.Millis) bool {
	n := int(s.size)
	if n > inlineWords || s.flags&(flagUnits|flagBucket|flagWeighted) != 0 || !s.fits(now+1) || at <= unseen {
		return false
	}
	place, k := uint32(at-s.origin()), 0
	for k < n && s.origin()+schemas.Millis(s.w[k]) <= unseen {
		k++
	}
	if n-k == inlineWords || n > k && s.w[n-1] > place {
		return false
	}
	copy(s.w[:], s.w[k:n])
	s.w[n-k] = place
	s.size = uint8(n - k + 1)
	return true
}

// insert adds a place after every one that is not later. The caller has made
// sure that it fits.
func (t *Table) insert(s *slot, at schemas.Millis, cost uint32) {
	if s.long() {
		t.longOf(s.key).put(t, at, cost)
		return
	}
	i, stride := t.after(s, at), s.stride()
	s.setPlaces(s.places() + 1)
	ring := t.ring(s)
	copy(ring[(i+1)*stride:], ring[i*stride:])
	ring[i*stride] = uint32(at - s.origin())
	if stride == 2 {
		ring[2*i+1] = cost
	}
}

// room reports whether one more place of this cost fits without a new layout.
func (t *Table) room(s *slot, cost uint32) bool {
	if s.long() {
		return true
	}
	stride := s.stride()
	if cost != 1 && stride == 1 {
		return false
	}
	need := (s.places() + 1) * stride
	if s.size < spilled {
		return need <= inline(s.flags)
	}
	if s.places() >= 2*t.perSegment {
		return false // a block of another version: into segments
	}
	b := t.blocks.at(s.class(), s.w[0])
	if need <= min(inlineWords-2*unitCount, inline(s.flags)) {
		return false // it has shrunk: back into the slot
	}
	head := 1 + held(s.flags)
	if head+int(b[0])+need <= len(b) {
		return true
	}
	if head+need <= len(b) && 4*need <= 3*len(b) { // enough of it is dead: slide back
		n := s.places() * stride
		copy(b[head:], b[head+int(b[0]):][:n])
		b[0] = 0
		return true
	}
	return false
}

// open lays a slot open, without its segments, in memory that the next call
// uses again.
func (t *Table) open(s *slot) *standing {
	st := &t.laid
	*st = standing{limit: s.limit, units: s.flags & flagUnits, bucket: t.tokens(s), times: st.times[:0], costs: st.costs[:0], long: s.long()}
	for u := range unitCount {
		if i, ok := s.counter(u); ok {
			st.from[u] = s.origin() + schemas.Millis(s.w[i])
			st.count[u] = s.w[i+1]
		}
	}
	ring, stride := t.ring(s), s.stride()
	for i := 0; i < len(ring); i += stride {
		cost := uint32(1)
		if stride == 2 {
			cost = ring[i+1]
		}
		st.times = append(st.times, s.origin()+schemas.Millis(ring[i]))
		st.costs = append(st.costs, cost)
	}
	return st
}

// insert adds a place after every one that is not later.
func (st *standing) insert(at schemas.Millis, cost uint32) {
	i := len(st.times)
	for i > 0 && st.times[i-1] > at {
		i--
	}
	st.times = slices.Insert(st.times, i, at)
	st.costs = slices.Insert(st.costs, i, cost)
}

// build writes st into s anew, as of now, leaving s's key and its flags for the
// table. Any block that s had is released. In a transaction the places move to
// segments if there are many, and such as s had are dropped if st has none:
// what Load builds is as the ledger has it, where segments have records of
// their own.
func (t *Table) build(s *slot, st *standing, now schemas.Millis) {
	if s.long() && !st.long && t.inTx {
		l := t.longOf(s.key)
		t.drop(l, 0, len(l.segs))
	}
	if s.size >= spilled {
		t.blocks.release(s.class(), s.w[0])
	}
	base := max(now-keep, 0) >> baseShift
	origin := base << baseShift
	for len(st.times) > 0 && st.times[0] < origin { // beyond every window by now
		st.times, st.costs = st.times[1:], st.costs[1:]
	}
	for u := range unitCount {
		if st.from[u] < origin {
			st.count[u] = 0
			st.from[u] = origin
		}
	}
	if st.bucket.t < origin { // full since long ago
		st.bucket = tokens{}
	}
	stride := 1
	s.limit, s.base, s.w = st.limit, uint16(base), [inlineWords]uint32{}
	if t.inTx && len(st.times) > t.perSegment {
		t.cut(s, st)
	}
	s.flags = s.flags&(flagUsed|flagDirty) | st.units
	if st.bucket.parts > 0 {
		s.flags |= flagBucket
	}
	for _, c := range st.costs {
		if c != 1 {
			stride = 2
			s.flags |= flagWeighted
			break
		}
	}
	n := len(st.times)
	if !st.long && n*stride <= inline(s.flags) {
		s.size = uint8(n)
	} else {
		// A quarter stays free, so that a block is not built anew for each place.
		class := classFor(1 + held(s.flags) + (n+n/3)*stride)
		s.size = spilled + class
		s.w[0] = t.blocks.take(class)
		s.w[1] = uint32(n)
		t.blocks.at(class, s.w[0])[0] = 0
		if st.long {
			s.size |= segmented
		}
	}
	for u := range unitCount {
		if i, ok := s.counter(u); ok {
			s.w[i], s.w[i+1] = uint32(st.from[u]-origin), st.count[u]
		}
	}
	if st.bucket.parts > 0 {
		t.keep(s, st.bucket)
	}
	ring := t.ring(s)
	for i := range st.times {
		ring[i*stride] = uint32(st.times[i] - origin)
		if stride == 2 {
			ring[2*i+1] = st.costs[i]
		}
	}
}
