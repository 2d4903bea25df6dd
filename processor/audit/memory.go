package audit

import (
	"fmt"
	"sync/atomic"
)

// DefaultMemory is how much an audit may take when its Config does not say.
const DefaultMemory = 1 << 30

// LeastMemory is the bound below which an audit does not stay, however little it
// must remember: reading alone takes about half of it.
const LeastMemory = 512 << 20

// reading is what the program and what was fetched ahead take.
const reading = 256 << 20

// budget is how much the state of all partitions under way, and of the joins,
// may take together: half of what is left for it. The other half is the garbage
// collector's.
type budget struct {
	most int64
	used atomic.Int64
}

// errMemory ends an audit that does not fit.
type errMemory struct {
	at   string
	most int64
}

func (e *errMemory) Error() string {
	return fmt.Sprintf("%s: what must be remembered there takes more than %d MiB, which the memory bound leaves for it; give more", e.at, max(e.most, 0)>>20)
}

// share is one worker's part of the budget.
type share struct {
	of    *budget
	taken int64
	ticks int
}

// looks is after how many records a worker measures itself again.
const looks = 1024

// tick counts a record, and now and then takes what the state has come to.
func (s *share) tick(at func() string, size func() int64) error {
	if s.ticks++; s.of == nil || s.ticks%looks != 0 {
		return nil
	}
	return s.take(at, size())
}

func (s *share) take(at func() string, size int64) error {
	total := s.of.used.Add(size - s.taken)
	s.taken = size
	if total > s.of.most {
		return &errMemory{at(), s.of.most}
	}
	return nil
}

func (s *share) close() {
	if s.of != nil {
		s.of.used.Add(-s.taken)
		s.taken = 0
	}
}

// inMap is what n entries of some bytes take in a Go map, on average.
func inMap(n int, bytes int64) int64 { return int64(n) * (bytes + 1) * 2 }

// size is what the partition remembers, in bytes.
func (p *partition) size() int64 {
	n := p.places.size() + p.calls.made.size() + int64(cap(p.calls.held))*40
	n += inMap(len(p.tanks.most)+len(p.tanks.least), 48)
	n += inMap(len(p.messages), 64+8) + inMap(len(p.where), 16+24+16+8)
	n += inMap(len(p.moved), 24) + inMap(len(p.repeats.noted), 24) + inMap(len(p.repeats.keys), 56)
	n += inMap(len(p.causes.cancels), 24) + inMap(len(p.causes.optOuts), 136)
	n += inMap(len(p.decided), 16+48+120) + inMap(len(p.back), 16+8)
	return n + p.forgot.size()
}

// size is what a join keeps whole, in bytes.
func (j *join) size() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	pages := 0
	for _, p := range j.pages {
		if p != nil {
			pages++
		}
	}
	return int64(len(j.pages)*8+pages*onPage*48) + inMap(len(j.tail), 32+16)
}
