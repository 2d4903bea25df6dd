//go:build !amd64

package limit

import "unsafe"

const hasSHA = false

func sumPair(*[2][2]uint64, *[2][64]byte) { panic("limit: no such instructions") }

// Nothing is asked for ahead where no keys are made together.
func prefetch(unsafe.Pointer) {}

func prefetchSlots(unsafe.Pointer) {}
