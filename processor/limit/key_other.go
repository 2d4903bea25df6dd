//go:build !amd64

package limit

const hasSHA = false

func sumPair(*[2][2]uint64, *[2][64]byte) { panic("limit: no such instructions") }

// prefetch looks at s; the processor goes on while that is under way.
func prefetch(s *slot) { _ = s.flags }
