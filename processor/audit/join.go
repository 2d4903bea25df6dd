package audit

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/weirhq/weir/schemas"
)

// item is what stands in two topics: a message, a moment, and a hash of all
// else that must agree.
type item struct {
	id   [2]uint64
	t    schemas.Millis
	rest uint64
}

// idOf is a message's id as it stands in an item. What is no UUID has a hash.
func idOf(id string) [2]uint64 {
	u, err := uuid.Parse(id)
	if err != nil {
		return sumOf("id", id)
	}
	return [2]uint64{binary.BigEndian.Uint64(u[:8]), binary.BigEndian.Uint64(u[8:])}
}

func (i item) message() string {
	var u uuid.UUID
	binary.BigEndian.PutUint64(u[:8], i.id[0])
	binary.BigEndian.PutUint64(u[8:], i.id[1])
	return u.String()
}

func (i item) hash() uint64 {
	x := i.id[0] ^ 0x9e3779b97f4a7c15
	for _, v := range [3]uint64{i.id[1], uint64(i.t), i.rest} {
		x = (x ^ x>>29) * 0xbf58476d1ce4e5b9
		x ^= v
	}
	x = (x ^ x>>32) * 0x94d049bb133111eb
	return x ^ x>>29
}

// Cells come in pages, which are made when the first item lies in them: an audit of a few
// hundred messages would else spend its time clearing, copying and reading empty cells.
const (
	cells  = 1 << 16
	onPage = 16
)

type cellPage [onPage]cell

// cell is the difference of what the two sides put into it: what both have
// cancels out, and what remains, if it is one item, can be read off.
type cell struct {
	count int64
	xor   item
	check uint64
}

func (c *cell) add(i item, n int64) {
	c.count += n
	c.xor.id[0] ^= i.id[0]
	c.xor.id[1] ^= i.id[1]
	c.xor.t ^= i.t
	c.xor.rest ^= i.rest
	c.check ^= i.hash() * 0x9e3779b97f4a7c15
}

// tailBorder is more than the two sides' times of one item differ: a record is
// appended after its decision, and both within a transaction's length. The tail
// takes the first side from so much earlier on, so that what it has of the further
// side finds its other half there and not in a cell, where there may be others.
const tailBorder = time.Minute

// join compares what two topics hold, in memory that does not grow with them.
// Near the end of the logs, where one side may lawfully have more than was read
// of the other, items are kept whole.
type join struct {
	mu       sync.Mutex
	pages    [cells / onPage]*cellPage
	tail     map[item]tailed
	from     schemas.Millis // items before are not compared: one side may have forgotten them, or they are not to be judged
	retained schemas.Millis // and items before this one, as one side may have forgotten them
	tailFrom schemas.Millis // items of this time or later belong to the tail
	before   int64          // how many of the first side lie before retained
	told     int64          // of them, those that a report has
	apart    bool           // the sides are cut at different moments: in the tail, either may have more
}

// tailed is how often the tail has an item, and its latest time.
type tailed struct {
	n    int
	when schemas.Millis
}

func newJoin(from, tailFrom schemas.Millis) *join {
	return &join{tail: make(map[item]tailed), from: from, retained: from, tailFrom: tailFrom}
}

// cellOf returns the cell in which an item belongs.
func (j *join) cellOf(i item) *cell { return j.cell(int(i.hash() % cells)) }

func (j *join) cell(at int) *cell {
	p := j.pages[at/onPage]
	if p == nil {
		p = new(cellPage)
		j.pages[at/onPage] = p
	}
	return &p[at%onPage]
}

// inTail reports whether an item of side n and of this time belongs to the tail.
func (j *join) inTail(n int64, when schemas.Millis) bool {
	if n > 0 && !j.apart {
		return when >= j.tailFrom.Add(-tailBorder)
	}
	return when >= j.tailFrom
}

// untold returns how many items lie before the time from which on they are compared, each
// once.
func (j *join) untold() int64 {
	n := j.before - j.told
	j.told = j.before
	return n
}

// advance moves the beginning of the tail. What is older is compared from now on.
func (j *join) advance(tailFrom schemas.Millis) {
	j.tailFrom = tailFrom
	for i, l := range j.tail {
		if n := int64(l.n); !j.inTail(n, l.when) {
			delete(j.tail, i)
			for range max(n, -n) {
				j.cellOf(i).add(i, n/max(n, -n))
			}
		}
	}
}

// put counts an item: n is 1 for the side that was read up to the cut, and -1
// for the side that was read beyond it. when decides whether it is of the tail.
func (j *join) put(i item, n int64, when schemas.Millis) { j.putOf(i, i.t, n, when) }

// putOf is put for an item that is not compared if something before it, such as
// the request that it came of, lies before from.
func (j *join) putOf(i item, began schemas.Millis, n int64, when schemas.Millis) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if began < j.from {
		if n > 0 && began < j.retained {
			j.before++
		}
		return
	}
	if j.inTail(n, when) {
		l := j.tail[i]
		if l = (tailed{l.n + int(n), max(l.when, when)}); l.n == 0 {
			delete(j.tail, i)
		} else {
			j.tail[i] = l
		}
		return
	}
	j.cellOf(i).add(i, n)
}

// difference returns the items that only one side has, and changes nothing. What the
// further side alone has in the tail is no difference. tangled are cells in which more
// than one item differs, so that none can be named.
func (j *join) difference() (only, extra []item, tangled []int) {
	copied := join{pages: j.pages} // a page that the tail changes is copied first
	for i, l := range j.tail {
		at := int(i.hash() % cells)
		if n := at / onPage; copied.pages[n] != nil && copied.pages[n] == j.pages[n] {
			own := *j.pages[n]
			copied.pages[n] = &own
		}
		c := copied.cell(at)
		switch {
		case l.n > 0 && !j.apart:
			for range l.n {
				c.add(i, 1)
			}
		case l.n < 0 && c.count > 0 && c.xor == i:
			c.add(i, -1) // its other half has an earlier time
		}
	}
	for n, p := range copied.pages {
		if p == nil {
			continue
		}
		for k := range p {
			c, at := &p[k], n*onPage+k
			if *c == (cell{}) {
				continue
			}
			hash := c.xor.hash()
			pure := hash%cells == uint64(at) && c.check == hash*0x9e3779b97f4a7c15
			switch {
			case c.count == 1 && pure:
				only = append(only, c.xor)
			case c.count == -1 && pure:
				extra = append(extra, c.xor)
			default:
				tangled = append(tangled, at)
			}
		}
	}
	return only, extra, tangled
}

// settle takes out what is no fault and would hide later differences: items that the
// further side alone has, and cells that cannot be told apart, unless the tail has a part
// of them.
func (j *join) settle(extra []item, tangled []int) (settled int64) {
	for _, i := range extra {
		j.cellOf(i).add(i, 1)
	}
	tail := make(map[int]bool)
	for i := range j.tail {
		tail[int(i.hash()%cells)] = true
	}
	for _, at := range tangled {
		if !tail[at] {
			*j.cell(at) = cell{}
			settled++
		}
	}
	return settled
}
