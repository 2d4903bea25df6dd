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

// scale is a*b/c for a up to c, for a*b beyond 64 bits.
func scale(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q)
}
