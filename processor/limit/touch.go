package limit

import (
	"encoding/binary"
	"runtime"
	"slices"
	"unsafe"
)

// Touch prepares the next decisions, about these subjects in this order: it
// makes their keys together, and asks for the memory of their places, so that
// the decisions do not wait for it one after another. It decides nothing and
// changes nothing: decisions may follow in part, with others between them, or
// not at all. A few dozen at a time are best.
func (t *Table) Touch(r *Rules, subjects []Subject) {
	if !hasSHA {
		return
	}
	defer runtime.KeepAlive(t)
	q := &t.ahead
	q.reset()
	for i := range subjects {
		for j := range r.limits {
			if l := &r.limits[j]; !l.wide && l.applies(&subjects[i]) {
				q.add(l, &subjects[i])
			}
		}
	}
	q.open()
	// Of each key two things are needed, and the first says where the second is:
	// its tags, and the slot that they name. They are asked for in groups: a
	// processor may wait for an address to be translated, but it translates several
	// at a time. The next group's keys are made while a group's tags come.
	for from := 0; from < len(q.keys)+group; from += group {
		t.askTags(from, min(from+group, len(q.keys)))
		t.askSlots(from-group, min(from, len(q.keys)))
	}
}

// group is how many keys are asked for at once.
const group = 16

// askTags makes these keys and asks for their tags.
func (t *Table) askTags(from, to int) {
	q := &t.ahead
	for i := from; i < to; i += 2 {
		q.sum(i)
	}
	for i := from; i < to; i++ {
		if sh := t.shardOf(q.keys[i]); sh.n > 0 {
			q.homes[i] = sh.home(q.keys[i])
			q.lines[i] = uintptr(unsafe.Pointer(&sh.tags[q.homes[i]]))
		}
	}
	if from < to {
		prefetch(q.lines[from:to])
	}
}

// askSlots asks for the slots that these keys' tags name.
func (t *Table) askSlots(from, to int) {
	if from < 0 {
		return
	}
	q := &t.ahead
	for i := from; i < to; i++ {
		if sh := t.shardOf(q.keys[i]); sh.n > 0 {
			at := sh.number(sh.tags.first(q.homes[i], tagOf(q.keys[i])))
			q.asks[i].at, q.lines[i] = at, uintptr(unsafe.Pointer(t.memory.slot(at)))
		}
	}
	prefetch(q.lines[from:to])
}

// keyQueue has the keys of decisions to come. It is a hint: what is asked of it
// in another order, or not at all, is as right.
type keyQueue struct {
	asks   []ask
	blocks [][64]byte // the texts, padded to SHA-256's one block
	keys   [][2]uint64
	homes  []uint    // where the keys belong in their shards
	lines  []uintptr // the memory to ask for, a line a key; or 0
	next   int       // which is expected to be asked for
}

type ask struct {
	l     *rule
	size  int    // of the text
	plain bool   // the text ends with the recipient as it is
	at    uint32 // where its slot was when it was touched
}

const (
	longestText = 64 - 9 // of a block, without what SHA-256 adds
	lookahead   = 16     // how many asks may be left out before the queue is of no use
)

func (q *keyQueue) reset() {
	q.asks, q.blocks, q.keys, q.next = q.asks[:0], q.blocks[:0], q.keys[:0], 0
}

// add puts the key of a subject in a limit into the queue, if its text is short
// enough: as a rule it is.
func (q *keyQueue) add(l *rule, s *Subject) {
	n := len(q.blocks)
	q.blocks = slices.Grow(q.blocks, 2)[:n+1] // sum may need one more
	block := &q.blocks[n]
	size := l.plainText(block, s.Recipient)
	asItIs := size > 0
	if !asItIs {
		*block = [64]byte{}
		size = len(l.text(block[:0:longestText], s))
	}
	if size > longestText {
		q.blocks = q.blocks[:n]
		return
	}
	block[size] = 0x80
	binary.BigEndian.PutUint64(block[56:], uint64(size)*8)
	q.asks = append(q.asks, ask{l: l, size: size, plain: asItIs, at: nowhere})
}

// plainText is text for a limit per recipient alone and a recipient that is
// written as it is: most are. It returns 0 where that is not so. Behind the text
// are zeros.
func (c *rule) plainText(block *[64]byte, recipient string) (size int) {
	size = len(c.prefix) + len(recipient)
	if !c.alone || size > longestText {
		return 0
	}
	*block = c.start
	copy(block[len(c.prefix):size], recipient)
	n := len(recipient)
	if n < 8 {
		for i := range n {
			if !plain[recipient[i]] {
				return 0
			}
		}
		return size
	}
	// Eight bytes at a time; the last eight may overlap those before.
	bad := escaped(eight(recipient[n-8:]))
	for i := 0; i < n-8; i += 8 {
		bad |= escaped(eight(recipient[i:]))
	}
	if bad != 0 {
		return 0
	}
	return size
}

// eight returns the first eight bytes of s as a number.
func eight(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// escaped is not 0 if one of eight bytes is not plain.
func escaped(w uint64) uint64 {
	const percent, comma, equals, space, last = '%' * ones, ',' * ones, '=' * ones, ' ' * ones, 0x7f * ones
	return (w|(w-space))&highs | zeros(w^percent) | zeros(w^comma) | zeros(w^equals) | zeros(w^last)
}

// open makes room for the keys of all that was added.
func (q *keyQueue) open() {
	n := len(q.asks)
	q.keys = slices.Grow(q.keys[:0], n+1)[:n]
	q.homes = slices.Grow(q.homes[:0], n)[:n]
	q.lines = append(q.lines[:0], make([]uintptr, n)...)
}

// sum makes the keys of what was added as i and after it: SHA-256 is a chain of
// rounds, and a processor does two such chains in the time of one.
func (q *keyQueue) sum(i int) {
	sumPair((*[2][2]uint64)(q.keys[i:i+2]), (*[2][64]byte)(q.blocks[i:i+2]))
}

// plain returns the key of a subject in a limit per recipient alone, and where
// its slot was, if that is next in the queue.
func (q *keyQueue) plain(l *rule, s *Subject) (key [2]uint64, at uint32, ok bool) {
	for i := q.next; i < min(q.next+lookahead, len(q.keys)); i++ {
		if a := &q.asks[i]; a.plain && a.l == l && string(q.blocks[i][len(l.prefix):a.size]) == s.Recipient {
			q.next = i + 1
			return q.keys[i], a.at, true
		}
	}
	return key, nowhere, false
}

// of returns the key of a text.
func (q *keyQueue) of(text []byte) [2]uint64 {
	for i := q.next; i < min(q.next+lookahead, len(q.keys)); i++ {
		if string(q.blocks[i][:q.asks[i].size]) == string(text) {
			q.next = i + 1
			return q.keys[i]
		}
	}
	return hashKey(text)
}
