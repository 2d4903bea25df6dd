package limit

import (
	"crypto/sha256"
	"encoding/binary"
)

// hashKey is the ledger's key of a limit and scope, as their text: the first
// half of its SHA-256.
func hashKey(text []byte) [2]uint64 {
	sum := sha256.Sum256(text)
	return [2]uint64{binary.BigEndian.Uint64(sum[0:]), binary.BigEndian.Uint64(sum[8:])}
}

// keyQueue has the keys of decisions to come, so that they are made two at a
// time: SHA-256 is a chain of rounds, and a processor does two such chains in
// the time of one. It is a hint: what is asked of it in another order, or not
// at all, is as right.
type keyQueue struct {
	asks   []ask
	blocks [][64]byte // the texts, padded to SHA-256's one block
	keys   [][2]uint64
	next   int // which is expected to be asked for
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

func (q *keyQueue) reset() { *q = keyQueue{asks: q.asks[:0], blocks: q.blocks[:0], keys: q.keys[:0]} }

// add puts the key of a subject in a limit into the queue, if its text is short
// enough: as a rule it is.
func (q *keyQueue) add(l *rule, s *Subject) {
	if !hasSHA {
		return
	}
	q.blocks = append(q.blocks, [64]byte{})
	block := &q.blocks[len(q.blocks)-1]
	b := l.text(block[:0:longestText], s)
	if len(b) > longestText {
		q.blocks = q.blocks[:len(q.blocks)-1]
		return
	}
	block[len(b)] = 0x80
	binary.BigEndian.PutUint64(block[56:], uint64(len(b))*8)
	q.asks = append(q.asks, ask{l: l, size: len(b), at: nowhere, plain: l.alone && string(b[len(l.prefix):]) == s.Recipient})
}

// sumTwo makes the keys of what was added as i and after it, if anything was.
func (q *keyQueue) sumTwo(i int) {
	if i >= len(q.asks) {
		return
	}
	if i+1 == len(q.blocks) {
		q.blocks = append(q.blocks, [64]byte{})
	}
	q.keys = append(q.keys, [2]uint64{}, [2]uint64{})
	sumPair((*[2][2]uint64)(q.keys[i:]), (*[2][64]byte)(q.blocks[i:]))
	q.keys = q.keys[:min(i+2, len(q.asks))]
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
