package limit

import (
	"math/bits"

	"github.com/weirhq/weir/schemas"
)

// A token bucket's level is counted in parts of a token so small that a
// millisecond refills a whole number of them: with "refill 0.5/s", 1 token
// every 2000 ms, a token is 2000 parts and each millisecond brings one. So
// nothing is ever rounded, however often one looks.
//
// What is kept is the level that the last place left, and when. A bucket of
// which nothing is kept is full. When n or the refill changes, the level and
// the time since are read with the new numbers, but for a bucket that had
// filled up before the change: it is full after it too. That makes a bucket
// whose state was swept and one whose state was not the same bucket.

// tokens is the state of one bucket.
type tokens struct {
	t     schemas.Millis // of the last place; 0 is no state: full
	fill  int64          // ms from t until it is full, with the numbers of then
	level int64          // what that place left, in parts of a token
	parts int64          // of a token
}

const (
	bucketWords = 5
	maxParts    = 1 << 43 // so that level and parts fit three words
	maxLevel    = 1 << 53
	maxFill     = 1<<32 - 1
)

// bucketOf returns the bucket among a recipient's windows, or nil: Compile
// allows one.
func bucketOf(windows []window) *window {
	for i := range windows {
		if windows[i].bucket() {
			return &windows[i]
		}
	}
	return nil
}

func (w *window) bucket() bool { return w.parts > 0 }

// level returns what is in bucket w at the time now, in parts of a token.
// changed is when the numbers of the limit's buckets last changed.
func (w *window) level(b tokens, changed, now schemas.Millis) int64 {
	full := w.n * w.parts
	elapsed := int64(now - b.t)
	if b.t <= w.since || b.t+schemas.Millis(b.fill) <= changed || elapsed >= int64(w.length) {
		return full
	}
	level := b.level
	if b.parts != w.parts {
		hi, lo := bits.Mul64(uint64(b.level), uint64(w.parts))
		if hi >= uint64(b.parts) {
			return full
		}
		q, _ := bits.Div64(hi, lo, uint64(b.parts))
		if q > uint64(full) {
			return full
		}
		level = int64(q)
	}
	return min(level+elapsed*w.refill, full)
}

// wait returns how long it takes to gain so many parts.
func (w *window) wait(parts int64) schemas.Millis {
	return schemas.Millis((parts + w.refill - 1) / w.refill)
}

// spend returns the bucket's state after a place at the given time. One that
// was recorded as of before the last place counts as of that one, and what is
// not there cannot be spent.
func (w *window) spend(b tokens, changed, at schemas.Millis, cost int64) tokens {
	if b.t > w.since {
		at = max(at, b.t)
	}
	level := w.level(b, changed, at)
	level -= min(min(cost, w.n)*w.parts, level)
	return tokens{t: at, fill: int64(w.wait(w.n*w.parts - level)), level: level, parts: w.parts}
}

// refills reports whether some bucket of the limit is not full yet, now, at
// whichever numbers a recipient has.
func (c *rule) refills(b tokens, now schemas.Millis) bool {
	if b.parts == 0 {
		return false
	}
	for i := range c.buckets {
		w := &c.buckets[i]
		if b.t > w.since && b.t+schemas.Millis(b.fill) > max(c.changed, 0) &&
			(now < b.t+schemas.Millis(b.fill) || w.level(b, c.changed, now) < w.n*w.parts) {
			return true
		}
	}
	return false
}

// kept returns the slot's words of its bucket, or nil.
func (t *Table) kept(s *slot) []uint32 {
	if s.flags&flagBucket == 0 {
		return nil
	}
	if s.size >= spilled {
		return t.blocks.at(s.class(), s.w[0])[1:][:bucketWords]
	}
	return s.w[2*bits.OnesCount8(s.flags&flagUnits):][:bucketWords]
}

// tokens reads the slot's bucket.
func (t *Table) tokens(s *slot) tokens {
	w := t.kept(s)
	if w == nil {
		return tokens{}
	}
	return tokens{
		t:     s.origin() + schemas.Millis(w[0]),
		fill:  int64(w[1]),
		level: int64(w[2]) | int64(w[4]&(1<<21-1))<<32,
		parts: int64(w[3]) | int64(w[4]>>21)<<32,
	}
}

// keep writes the slot's bucket into the words that it has.
func (t *Table) keep(s *slot, b tokens) {
	w := t.kept(s)
	w[0], w[1] = uint32(b.t-s.origin()), uint32(b.fill)
	w[2], w[3] = uint32(b.level), uint32(b.parts)
	w[4] = uint32(b.level>>32) | uint32(b.parts>>32)<<21
}
