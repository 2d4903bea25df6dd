package limit

import (
	"encoding/binary"
	"math/bits"
)

// tags has a byte for each slot of a shard: 0 if it is empty, else 7 bits of its
// key and the highest bit. Slots are found by them: those of a whole table fit a
// processor's last cache where its slots do not, so that of the slots that lie
// before the one that is looked for only one in 128 costs a look at memory.
// Eight bytes more, of which none is a tag, let the last slots be read as any.
type tags []uint8

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080

	padding = 8
)

func newTags(slots uint) tags {
	g := make(tags, slots+padding)
	for i := range g[slots:] {
		g[slots+uint(i)] = 1
	}
	return g
}

// tagOf returns the tag of a key, from bits that neither its shard nor its home has.
func tagOf(key [2]uint64) uint8 { return uint8(key[1]) | 0x80 }

// first returns the first slot from i on, and after the last from 0 on, that has
// the tag or is empty. There is one. It looks at eight at a time.
func (g tags) first(i uint, tag uint8) uint {
	for {
		w := binary.LittleEndian.Uint64(g[i : i+8])
		if found := zeros(w^uint64(tag)*ones) | zeros(w); found != 0 {
			return i + uint(bits.TrailingZeros64(found))/8
		}
		if i += 8; i >= uint(len(g)-padding) {
			i = 0
		}
	}
}

// zeros has the highest bit of the lowest byte of x that is zero, and none if no
// byte is. Of the bytes above that one it may say anything.
func zeros(x uint64) uint64 { return (x - ones) &^ x & highs }
