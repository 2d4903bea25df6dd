//go:build !amd64

package limit

const hasSHA = false

func sumPair(*[2][2]uint64, *[2][64]byte) { panic("limit: no such instructions") }

func prefetch([]uintptr) { panic("limit: no such instruction") }
