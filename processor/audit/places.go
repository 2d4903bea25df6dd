package audit

import (
	"hash/maphash"
	"slices"

	"github.com/weirhq/weir/schemas"
)

// sum is a 128-bit hash: at a thousand million items, two of them are alike
// with a chance of 10^-21.
type sum [2]uint64

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func sumOf(parts ...string) sum {
	var room [256]byte
	b := room[:0]
	for _, p := range parts {
		b = append(append(b, p...), 0)
	}
	return sum{maphash.Bytes(seeds[0], b), maphash.Bytes(seeds[1], b)}
}

// place is one standing place, in a list of its scope from the newest on.
type place struct {
	t       schemas.Millis
	message uint64
	cost    int64
	next    int32 // 0 is the end
}

// places are the standing places of a partition: plain lists, no ring, and
// nothing in them that the garbage collector must follow. A scope of very many
// is kept by itself.
type places struct {
	heads map[sum]int32 // a scope's newest place; below zero, the number of a tall scope
	arena []place       // the first is unused
	free  int32
	talls []*tall // by number; -1 is the first
	spare []int32 // numbers that are free
}

func newPlaces() *places { return &places{heads: make(map[sum]int32), arena: make([]place, 1)} }

// add stands a place up, and forgets what lies before seen in its list.
func (p *places) add(scope sum, t schemas.Millis, cost int64, message uint64, seen schemas.Millis) {
	head := p.heads[scope]
	if head < 0 {
		p.talls[-head-1].add(standing{t, message, cost}, seen)
		return
	}
	i := p.free
	if i != 0 {
		p.free = p.arena[i].next
	} else {
		i = int32(len(p.arena))
		p.arena = append(p.arena, place{})
	}
	before, next := int32(0), head
	for next != 0 && p.arena[next].t > t { // only a message sent elsewhere comes late
		before, next = next, p.arena[next].next
	}
	p.arena[i] = place{t, message, cost, next}
	if before == 0 {
		p.heads[scope] = i
	} else {
		p.arena[before].next = i
	}
	length := 1
	for last := p.heads[scope]; ; length++ {
		next := p.arena[last].next
		if next == 0 {
			break
		}
		if p.arena[next].t < seen {
			p.arena[last].next = 0
			p.release(next)
			break
		}
		last = next
	}
	if length >= tallFrom {
		p.grow(scope)
	}
}

// grow makes a list a tall scope.
func (p *places) grow(scope sum) {
	s := new(tall)
	for i := p.heads[scope]; i != 0; i = p.arena[i].next {
		s.at = append(s.at, standing{p.arena[i].t, p.arena[i].message, p.arena[i].cost})
	}
	slices.Reverse(s.at)
	s.rebuild()
	p.release(p.heads[scope])
	if n := len(p.spare); n > 0 {
		p.heads[scope] = p.spare[n-1]
		p.spare = p.spare[:n-1]
		p.talls[-p.heads[scope]-1] = s
		return
	}
	p.talls = append(p.talls, s)
	p.heads[scope] = -int32(len(p.talls))
}

// of returns a scope's places if they are very many.
func (p *places) of(scope sum) *tall {
	if i := p.heads[scope]; i < 0 {
		return p.talls[-i-1]
	}
	return nil
}

func (p *places) release(i int32) {
	for i != 0 {
		next := p.arena[i].next
		p.arena[i] = place{next: p.free}
		p.free = i
		i = next
	}
}

// remove takes a place down; false when it does not stand for that message.
func (p *places) remove(scope sum, t schemas.Millis, cost int64, message uint64) bool {
	if s := p.of(scope); s != nil {
		i := s.find(t, cost, message)
		if i >= 0 {
			s.change(i, -cost)
		}
		return i >= 0 && cost > 0
	}
	prev := int32(0)
	for i := p.heads[scope]; i != 0; prev, i = i, p.arena[i].next {
		pl := &p.arena[i]
		if pl.t < t {
			return false
		}
		if pl.t != t || pl.cost != cost || pl.message != message {
			continue
		}
		switch {
		case prev != 0:
			p.arena[prev].next = pl.next
		case pl.next == 0:
			delete(p.heads, scope)
		default:
			p.heads[scope] = pl.next
		}
		pl.next = 0
		p.release(i)
		return true
	}
	return false
}

// take takes a place down, whoever's it is; false when there is none.
func (p *places) take(scope sum, t schemas.Millis, cost int64) bool {
	if s := p.of(scope); s != nil {
		for i := s.before(t); i < len(s.at) && s.at[i].t == t; i++ {
			if s.at[i].cost == cost && p.remove(scope, t, cost, s.at[i].message) {
				return true
			}
		}
		return false
	}
	for i := p.heads[scope]; i != 0 && p.arena[i].t >= t; i = p.arena[i].next {
		if pl := &p.arena[i]; pl.t == t && pl.cost == cost {
			return p.remove(scope, t, cost, pl.message)
		}
	}
	return false
}

// stands reports whether a place stands for a message.
func (p *places) stands(scope sum, t schemas.Millis, cost int64, message uint64) bool {
	if s := p.of(scope); s != nil {
		return cost > 0 && s.find(t, cost, message) >= 0
	}
	for i := p.heads[scope]; i != 0 && p.arena[i].t >= t; i = p.arena[i].next {
		if pl := &p.arena[i]; pl.t == t && pl.cost == cost && pl.message == message {
			return true
		}
	}
	return false
}

// count adds up the places in [from, t], without those of one message, and says
// when the oldest of them was taken.
func (p *places) count(scope sum, from, t schemas.Millis, without []schemas.Charge, message uint64) (n int64, oldest schemas.Millis) {
	head := p.heads[scope]
	if head < 0 {
		s := p.talls[-head-1]
		s.without(without, message, func() { n, oldest = s.count(from, t) })
		return n, oldest
	}
	for i := head; i != 0; i = p.arena[i].next {
		pl := &p.arena[i]
		if pl.t < from {
			break
		}
		if pl.t > t || isAway(without, pl, message) {
			continue
		}
		n += pl.cost
		oldest = pl.t
	}
	return n, oldest
}

// leaving returns when the place stands, of those in [from, t], with which n or
// more of them leave, the oldest first; total is what they cost together.
func (p *places) leaving(scope sum, from, t schemas.Millis, without []schemas.Charge, message uint64, total, n int64) (at schemas.Millis) {
	if s := p.of(scope); s != nil {
		s.without(without, message, func() {
			if i := s.reaching(s.sum(s.before(from)) + n); i < len(s.at) && n > 0 {
				at = s.at[i].t
			}
		})
		return at
	}
	left := total
	for i := p.heads[scope]; i != 0; i = p.arena[i].next {
		pl := &p.arena[i]
		if pl.t < from {
			break
		}
		if pl.t > t || isAway(without, pl, message) {
			continue
		}
		// This place and all older ones cost left.
		if left -= pl.cost; left < n {
			return pl.t
		}
	}
	return 0
}

func isAway(without []schemas.Charge, pl *place, message uint64) bool {
	if pl.message != message {
		return false
	}
	for i := range without {
		if without[i].T == pl.t && without[i].Cost == pl.cost {
			return true
		}
	}
	return false
}

// later returns the times of the places after t.
func (p *places) later(scope sum, t schemas.Millis) (all []schemas.Millis) {
	if s := p.of(scope); s != nil {
		for i := s.before(t + 1); i < len(s.at); i++ {
			all = append(all, s.at[i].t)
		}
		return all
	}
	for i := p.heads[scope]; i != 0 && p.arena[i].t > t; i = p.arena[i].next {
		all = append(all, p.arena[i].t)
	}
	return all
}

// size is what they take, in bytes.
func (p *places) size() int64 {
	n := int64(cap(p.arena))*32 + inMap(len(p.heads), 20)
	for _, s := range p.talls {
		if s != nil {
			n += int64(cap(s.at))*24 + int64(cap(s.tree))*8
		}
	}
	return n
}

// sweep forgets every list whose newest place lies before a moment.
func (p *places) sweep(before schemas.Millis) {
	for scope, i := range p.heads {
		if i < 0 {
			if s := p.talls[-i-1]; s.at[len(s.at)-1].t < before {
				delete(p.heads, scope)
				p.talls[-i-1] = nil
				p.spare = append(p.spare, i)
			}
			continue
		}
		if p.arena[i].t < before {
			delete(p.heads, scope)
			p.release(i)
		}
	}
}
