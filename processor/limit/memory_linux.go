package limit

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const hugePage = 2 << 20

// mapped is how many chunks are mapped now, by all tables.
var mapped atomic.Int64

// mapChunk returns zero memory outside of Go's heap that begins at a huge page
// and asks for such pages: with small ones, a look at one of ten million slots
// costs a walk through the page tables as well. The first chunk of a table asks
// for them only after its first two megabytes, so that a small table is small.
func mapChunk(large bool) mapping {
	raw, err := unix.Mmap(-1, 0, chunkSize+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return mapping{chunk: new(chunk)} // Go's heap may have some, or knows best how to say that there is none
	}
	mapped.Add(1)
	begin := -int(uintptr(unsafe.Pointer(&raw[0]))) & (hugePage - 1)
	b := raw[begin:][:chunkSize]
	advise := b
	if !large {
		advise = b[hugePage:]
	}
	// A kernel without huge pages refuses, and the table is only slower.
	_ = unix.Madvise(advise, unix.MADV_HUGEPAGE)
	return mapping{chunk: (*chunk)(unsafe.Pointer(&b[0])), raw: raw}
}

func (m mapping) unmap() {
	if m.raw == nil {
		return
	}
	if err := unix.Munmap(m.raw); err != nil {
		panic("limit: memory that was mapped cannot be unmapped: " + err.Error())
	}
	mapped.Add(-1)
}
