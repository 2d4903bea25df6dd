package limit

// sumPair sets keys to the first halves of SHA-256 of two messages of one block
// each, padded. Needs hasSHA.
//
//go:noescape
func sumPair(keys *[2][2]uint64, blocks *[2][64]byte)

// prefetch asks for the cache lines at these addresses, without waiting for them.
//
//go:noescape
func prefetch(lines []uintptr)

//go:noescape
func cpuid(leaf, sub uint32) (eax, ebx, ecx, edx uint32)

// hasSHA reports whether the processor has the instructions of sumPair: SSSE3,
// SSE4.1 and SHA.
var hasSHA = func() bool {
	if last, _, _, _ := cpuid(0, 0); last < 7 {
		return false
	}
	_, _, features, _ := cpuid(1, 0)
	_, extended, _, _ := cpuid(7, 0)
	return features&(1<<9) != 0 && features&(1<<19) != 0 && extended&(1<<29) != 0
}()
