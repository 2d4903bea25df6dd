package audit

import (
	"math"
	"math/big"
	"slices"

	"github.com/weirhq/weir/schemas"
)

// tank is what the last place left in one scope's token bucket. A token is
// counted in as many parts as the bucket needs milliseconds for a refill, so
// that every millisecond brings whole parts and nothing is rounded. Never drawn
// from is full.
type tank struct {
	t     schemas.Millis // of that place
	full  schemas.Millis // when it is full again, by the numbers of then
	left  int64          // parts
	every int64          // parts of a token, of then; 0: never drawn from
}

// level is what is in the bucket of a window at t, in parts. since is when the
// bucket began, changed when the limit's numbers last changed: what was full by
// then is full by the new numbers; what was not keeps its level.
func (k tank) level(w *schemas.Window, since, changed, t schemas.Millis) int64 {
	brim := w.N * w.RefillEvery
	if k.every == 0 || k.t <= since || k.full <= changed {
		return brim
	}
	left := k.left
	if k.every != w.RefillEvery {
		var parts big.Int
		parts.Mul(big.NewInt(left), big.NewInt(w.RefillEvery)).Quo(&parts, big.NewInt(k.every))
		if !parts.IsInt64() || parts.Int64() > brim {
			return brim
		}
		left = parts.Int64()
	}
	if elapsed := int64(t - k.t); elapsed < refilling(w, brim-left) {
		return left + elapsed*w.RefillTokens
	}
	return brim
}

// refilling is how many milliseconds bring so many parts.
func refilling(w *schemas.Window, parts int64) int64 {
	if parts <= 0 {
		return 0
	}
	return (parts + w.RefillTokens - 1) / w.RefillTokens
}

// drawn is the bucket after a place at t. One that was taken elsewhere, before
// the last, counts as of the last; what is not there is not drawn.
func (k tank) drawn(w *schemas.Window, since, changed, t schemas.Millis, cost int64) tank {
	if k.every != 0 && k.t > since {
		t = max(t, k.t)
	}
	left := k.level(w, since, changed, t)
	left -= min(min(cost, w.N)*w.RefillEvery, left)
	return tank{t: t, full: t + schemas.Millis(refilling(w, w.N*w.RefillEvery-left)), left: left, every: w.RefillEvery}
}

// tanks are a partition's buckets. Where the log was cut, what was drawn before
// it is not known: then there are two of each, one as if nothing had been, one
// as if all had been; where they agree, the level is known.
type tanks struct {
	most  map[sum]tank
	least map[sum]tank
	cut   bool
	begin schemas.Millis
}

func newTanks() *tanks { return &tanks{most: make(map[sum]tank), least: make(map[sum]tank)} }

func (b *tanks) emptiest(scope sum, w *schemas.Window) tank {
	if !b.cut {
		return b.most[scope]
	}
	if k, there := b.least[scope]; there {
		return k
	}
	return tank{t: b.begin, full: math.MaxInt64, every: w.RefillEvery}
}

// level returns what is in a bucket, and whether that is known.
func (b *tanks) level(scope sum, l *limit, w *schemas.Window, t schemas.Millis) (int64, bool) {
	since := l.since[w.UnitKey()]
	level := b.most[scope].level(w, since, l.changed, t)
	return level, !b.cut || b.emptiest(scope, w).level(w, since, l.changed, t) == level
}

// draw takes a place's cost out of a scope's bucket, if the recipient has one;
// a place that is taken without one leaves it full. The place is as of t, which a
// message sent elsewhere may have before now: of a bucket that is full now, it
// does not matter what was drawn last.
func (b *tanks) draw(scope sum, l *limit, windows []schemas.Window, t, now schemas.Millis, cost int64) {
	if !l.bucket {
		return
	}
	for i := range windows {
		if w := &windows[i]; w.Kind == schemas.WindowBucket {
			since := l.since[w.UnitKey()]
			brim := w.N * w.RefillEvery
			if b.cut {
				k := b.emptiest(scope, w)
				if k.level(w, since, l.changed, now) == brim {
					k = tank{}
				}
				b.least[scope] = k.drawn(w, since, l.changed, t, cost)
			}
			k := b.most[scope]
			if k.level(w, since, l.changed, now) == brim {
				k = tank{}
			}
			b.most[scope] = k.drawn(w, since, l.changed, t, cost)
			return
		}
	}
	delete(b.most, scope)
	if b.cut {
		b.least[scope] = tank{}
	}
}

// refills reports whether a bucket of the limit is not full at t, by anybody's numbers.
func (l *limit) refills(k tank, t schemas.Millis) bool {
	return slices.ContainsFunc(everyWindow(l.Limit), func(w schemas.Window) bool {
		return w.Kind == schemas.WindowBucket && k.level(&w, l.since[w.UnitKey()], l.changed, t) < w.N*w.RefillEvery
	})
}

// sweep forgets what is full again, by the numbers of now: they may be slower than those of
// then.
func (b *tanks) sweep(t schemas.Millis, limits map[uint32]*limit) {
	for scope, k := range b.most {
		if l := limits[uint32(scope[1])]; !b.cut && (l == nil || !l.refills(k, t)) {
			delete(b.most, scope)
		}
	}
}
