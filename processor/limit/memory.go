package limit

import "unsafe"

// memory is where the slots of a table are: in pages, which are numbers and not
// pointers, of chunks that are mapped as they are needed and never move. A page
// that was given back is used again before a new one. So growing a shard copies
// that shard alone, and the garbage collector neither looks at slots nor counts
// them; the price is that somebody must close a memory.
type memory struct {
	chunks []*chunk
	raw    []mapping // the same, to return them
	next   uint32    // pages handed out so far
	free   []uint32  // pages given back, all zero
}

// mapping is a chunk and what is needed to return it.
type mapping struct {
	*chunk
	raw []byte // nil if the chunk is on Go's heap
}

const (
	pageSlots  = 128     // 8.5 KiB
	chunkPages = 1 << 11 // 17 MiB
	chunkSize  = int(unsafe.Sizeof(chunk{}))
)

type (
	// page has slots and, beside each, the check of its record in the ledger: a slot
	// fills a cache line, and has no room for it.
	page struct {
		slots  [pageSlots]slot
		checks [pageSlots]Check
	}
	chunk [chunkPages]page
)

func (m *memory) page(n uint32) *page { return &m.chunks[n/chunkPages][n%chunkPages] }

// slot returns the slot with this number, as Table.number makes them.
func (m *memory) slot(at uint32) *slot { return &m.page(at / pageSlots).slots[at%pageSlots] }

// check returns the check of the slot with this number.
func (m *memory) check(at uint32) *Check { return &m.page(at / pageSlots).checks[at%pageSlots] }

// take returns a page of empty slots.
func (m *memory) take() uint32 {
	if n := len(m.free); n > 0 {
		p := m.free[n-1]
		m.free = m.free[:n-1]
		return p
	}
	if m.next%chunkPages == 0 {
		c := mapChunk(len(m.chunks) > 0)
		m.chunks, m.raw = append(m.chunks, c.chunk), append(m.raw, c)
	}
	m.next++
	return m.next - 1
}

// release takes pages back. They are cleared while they are still in the cache.
func (m *memory) release(pages []uint32) {
	for _, p := range pages {
		*m.page(p) = page{}
	}
	m.free = append(m.free, pages...)
}

// close returns everything to the system. It may be called twice; any page is
// gone after it.
func (m *memory) close() {
	for _, c := range m.raw {
		c.unmap()
	}
	*m = memory{}
}
