package throttle

import (
	"math/bits"

	"github.com/weirhq/weir/schemas"
)

// share is the part of a rate that one of several processes lets through: the ceiling of
// n divided by their number, so together they let through less than one call more each.
func share(w schemas.Window, instances int64) schemas.Window {
	w.N = (w.N + instances - 1) / instances
	w.RefillEvery *= instances
	return w
}

// rescale is a caller's state where only the number of processes has changed: of a bucket
// the same part is missing, and of a window the latest calls stay in it.
func (s state) rescale(from, to *Rate) state {
	if to.part > 0 {
		hi, lo := bits.Mul64(uint64(s.debt), uint64(to.room+to.part))
		debt, _ := bits.Div64(hi, lo, uint64(from.room+from.part)) // debt is not beyond room and part of from
		return state{at: s.at, debt: int64(debt)}
	}
	keep := min(s.count, int32(to.limit))
	out := state{at: s.at, ring: make([]int64, keep), count: keep}
	for i := range keep {
		out.ring[i] = s.ring[int(s.first+s.count-keep+i)%len(s.ring)]
	}
	return out
}
