package throttle

import (
	"hash/maphash"
	"net/netip"
	"sync"
)

// table is the state of addresses: sets of 64, like a processor's cache. An
// address belongs to one set, by a hash that strangers cannot foresee; where
// the set is full, one that is as if it had never called makes room, else the
// one whose last call is longest ago.
type table struct {
	seed maphash.Seed
	sets []set
}

const (
	ways = 64
	// stamps bounds the times that a set keeps for windows that roll, where a
	// single window's n is not more: 64 for each address.
	stamps = ways * 64
)

// What is searched for stands apart from what is found: a search reads only a
// few lines of memory.
type set struct {
	mu     sync.Mutex
	hashes []uint64
	used   []int64 // the last call, refused or not
	full   []int64 // when it will be as if it had never called
	slots  []slot
	kept   int // lengths of the slots' rings
}

type slot struct {
	id   id
	rate *Rate
	state
}

// id is an address as 16 bytes, with the kind of call.
type id [17]byte

func idOf(a netip.Addr, kind int) id {
	var out id
	b := a.As16()
	copy(out[:], b[:])
	if a.Is6() && !a.Is4In6() {
		clear(out[8:16])
	}
	out[16] = byte(kind)
	return out
}

func newTable(addresses int) *table {
	return &table{seed: maphash.MakeSeed(), sets: make([]set, max(1, (addresses+ways-1)/ways))}
}

func (t *table) take(a netip.Addr, kind int, r *Rate, now int64) Verdict {
	who := idOf(a, kind)
	h := maphash.Bytes(t.seed, who[:])
	s := &t.sets[h%uint64(len(t.sets))]
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.find(h, who)
	if at < 0 {
		at = s.place(now)
		s.hashes[at], s.slots[at].id = h, who
		s.slots[at].forget()
		s.slots[at].rate = r
	}
	c := &s.slots[at]
	if c.rate != r { // the policy, or the number of processes, has changed
		s.kept -= len(c.ring)
		c.state = c.carry(c.rate, r, now)
		s.kept += len(c.ring)
		c.rate = r
	}
	if r.length > 0 {
		s.reserve(at, r)
	}
	before := len(c.ring)
	v := c.take(r, now)
	s.kept += len(c.ring) - before
	s.used[at], s.full[at] = now, c.state.full(r)
	return v
}

// giveBack undoes a call that was allowed. ok is false for an address that is forgotten.
func (t *table) giveBack(a netip.Addr, kind int, at, now int64) (v Verdict, ok bool) {
	who := idOf(a, kind)
	h := maphash.Bytes(t.seed, who[:])
	s := &t.sets[h%uint64(len(t.sets))]
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(h, who)
	if i < 0 {
		return Verdict{}, false
	}
	c := &s.slots[i]
	v = c.giveBack(c.rate, at, now)
	s.full[i] = c.state.full(c.rate)
	return v, true
}

func (s *set) find(h uint64, who id) int {
	for i, other := range s.hashes {
		if other == h && s.slots[i].id == who {
			return i
		}
	}
	return -1
}

// place returns a slot for an address that has none.
func (s *set) place(now int64) int {
	if len(s.slots) < ways {
		s.hashes, s.used, s.full = append(s.hashes, 0), append(s.used, 0), append(s.full, 0)
		s.slots = append(s.slots, slot{})
		return len(s.slots) - 1
	}
	oldest := 0
	for i, full := range s.full {
		if full <= now {
			return i
		}
		if s.used[i] < s.used[oldest] {
			oldest = i
		}
	}
	return oldest
}

// reserve makes room for the ring of the slot at to grow by: others forget,
// those first whose last call is longest ago.
func (s *set) reserve(at int, r *Rate) {
	c := &s.slots[at]
	if int(c.count) < len(c.ring) || int64(len(c.ring)) >= r.limit {
		return
	}
	for s.kept-len(c.ring)+c.next(r) > max(stamps, int(r.limit)) {
		oldest := -1
		for i := range s.slots {
			if i != at && len(s.slots[i].ring) > 0 && (oldest < 0 || s.used[i] < s.used[oldest]) {
				oldest = i
			}
		}
		if oldest < 0 {
			return
		}
		o := &s.slots[oldest]
		s.kept -= len(o.ring)
		o.state = state{}
		s.full[oldest] = 0
	}
}

func (t *table) len() (n int) {
	for i := range t.sets {
		s := &t.sets[i]
		s.mu.Lock()
		n += len(s.slots)
		s.mu.Unlock()
	}
	return n
}
