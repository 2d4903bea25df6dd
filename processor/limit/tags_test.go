package limit

import (
	"math/rand/v2"
	"testing"
)

// TestTags holds the look at eight tags at once to a look at each.
func TestTags(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 20_000 {
		size := pageSlots * (1 + rng.UintN(2))
		g := newTags(size)
		few := 1 + rng.UintN(4) // tags that are alike in most bits, so that borrows would show
		for i := range g[:size] {
			if rng.UintN(10) > 0 {
				g[i] = 0x80 | uint8(rng.UintN(few))
			}
		}
		g[rng.UintN(size)] = 0
		from, tag := rng.UintN(size), 0x80|uint8(rng.UintN(few))
		want := from
		for g[want] != tag && g[want] != 0 {
			want = (want + 1) % size
		}
		if got := g.first(from, tag); got != want {
			t.Fatalf("first of %#x from %d is %d, want %d of %x", tag, from, got, want, g)
		}
	}
}

// TestEscaped holds the look at eight bytes at once to the table of those that
// stand for themselves.
func TestEscaped(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for b := range 256 {
		for at := range 8 {
			text := []byte("+8613800")
			if rng.IntN(2) == 0 {
				text = []byte("a@b.exam")
			}
			text[at] = byte(b)
			if got := escaped(eight(string(text))) == 0; got != plain[b] {
				t.Errorf("%q: plain %v, want %v", text, got, plain[b])
			}
		}
	}
	for range 100_000 {
		text, want := make([]byte, 8), true
		for i := range text {
			if text[i] = byte(rng.UintN(256)); rng.IntN(6) > 0 {
				text[i] = byte(0x20 + rng.UintN(0x5f))
			}
			want = want && plain[text[i]]
		}
		if got := escaped(eight(string(text))) == 0; got != want {
			t.Fatalf("%q: plain %v, want %v", text, got, want)
		}
	}
}
