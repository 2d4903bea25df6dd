package limit

import (
	"math/rand/v2"
	"testing"
)

// TestKeysByTwo holds the two ways to a key to each other, for texts of every
// length.
func TestKeysByTwo(t *testing.T) {
	if !hasSHA {
		t.Log("this processor makes keys one by one")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	l := &rule{dims: []dimension{{order: dimRecipient}}, alone: true, prefix: []byte("l\x00"), start: [64]byte{'l'}}
	for length := range 70 {
		for range 50 {
			var q keyQueue
			subjects := make([]Subject, 1+rng.IntN(5))
			for i := range subjects {
				text := make([]byte, length)
				for j := range text {
					text[j] = byte(rng.Uint32())
					if i%2 == 0 { // all of it as it is
						text[j] = text[j]%10 + '0'
					}
				}
				subjects[i].Recipient = string(text)
				q.add(l, &subjects[i])
			}
			q.open()
			for i := 0; i < len(q.asks); i += 2 {
				q.sum(i)
			}
			for i := range q.keys {
				if text := q.blocks[i][:q.asks[i].size]; q.keys[i] != hashKey(text) {
					t.Fatalf("%q, %d of %d: %x, want %x", text, i, len(q.keys), q.keys[i], hashKey(text))
				}
			}
		}
	}
}
