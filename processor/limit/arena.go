package limit

import "math/bits"

// arena holds the places of the slots that have many, in blocks whose sizes are
// powers of two. Blocks are numbers, not pointers, and come in chunks, so that
// growing copies nothing.
type arena struct {
	classes [arenaClasses]struct {
		chunks [][]uint32
		next   uint32   // blocks handed out so far
		free   []uint32 // blocks given back
	}
}

const (
	smallestBlock = 4  // log2 of its words
	arenaClasses  = 22 // up to 32 Mi words: far beyond MaxRolling places
	chunkWords    = 14 // log2; a larger block is a chunk of its own
)

// classFor returns the class whose blocks have at least so many words.
func classFor(words int) uint8 {
	return uint8(max(bits.Len(uint(words-1)), smallestBlock) - smallestBlock)
}

func (a *arena) at(class uint8, block uint32) []uint32 {
	size := uint(class) + smallestBlock
	if size >= chunkWords {
		return a.classes[class].chunks[block]
	}
	per := chunkWords - size
	at := block & (1<<per - 1) << size
	return a.classes[class].chunks[block>>per][at : at+1<<size : at+1<<size]
}

func (a *arena) take(class uint8) uint32 {
	c := &a.classes[class]
	if n := len(c.free); n > 0 {
		block := c.free[n-1]
		c.free = c.free[:n-1]
		return block
	}
	size := uint(class) + smallestBlock
	block := c.next
	if size >= chunkWords {
		c.chunks = append(c.chunks, make([]uint32, 1<<size))
	} else if block&(1<<(chunkWords-size)-1) == 0 {
		c.chunks = append(c.chunks, make([]uint32, 1<<chunkWords))
	}
	c.next++
	return block
}

func (a *arena) release(class uint8, block uint32) {
	c := &a.classes[class]
	c.free = append(c.free, block)
}
