package e2e

import (
	"math/rand/v2"
	"os"
	"testing"
	"unicode/utf16"

	"github.com/weirhq/weir/schemas"
)

// What the audit shares with the code that it checks (docs/audit.md) is computed here a
// second time, by other code, and compared on very many random inputs.

// longer is how many times as many inputs make chaos compares.
func longer() int {
	if os.Getenv("WEIR_CHAOS") != "" {
		return 100
	}
	return 1
}

// TestSecondPartition: the partition of a key is that of kgo, which is the oracle's.
func TestSecondPartition(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 1))
	for range 500_000 * longer() {
		key := make([]byte, r.IntN(40))
		for i := range key {
			key[i] = byte(r.Uint32())
		}
		o := &Oracle{n: 1 + r.Int32N(100)}
		if got, want := schemas.PartitionOf(string(key), o.n), o.partitionOf(string(key)); got != want {
			t.Fatalf("%q of %d: %d, and kgo says %d", key, o.n, got, want)
		}
	}
}

// gsmRows is the alphabet of 3GPP TS 23.038, 6.2.1, by rows of 16 septets; the escape is
// at 0x1b.
var gsmRows = [8]string{
	"@\u00a3$\u00a5\u00e8\u00e9\u00f9\u00ec\u00f2\u00c7\n\u00d8\u00f8\r\u00c5\u00e5",
	"\u0394_\u03a6\u0393\u039b\u03a9\u03a0\u03a8\u03a3\u0398\u039e\x1b\u00c6\u00e6\u00df\u00c9",
	" !\"#\u00a4%&'()*+,-./", "0123456789:;<=>?",
	"\u00a1ABCDEFGHIJKLMNO", "PQRSTUVWXYZ\u00c4\u00d6\u00d1\u00dc\u00a7",
	"\u00bfabcdefghijklmno", "pqrstuvwxyz\u00e4\u00f6\u00f1\u00fc\u00e0",
}

// septetsOf are the septets of each character of the alphabet.
var septetsOf = func() map[rune][]byte {
	septets := make(map[rune][]byte)
	for row, chars := range gsmRows {
		for col, c := range []rune(chars) {
			septets[c] = []byte{byte(row*16 + col)}
		}
	}
	delete(septets, '\x1b')
	for c, code := range map[rune]byte{'\f': 0x0a, '^': 0x14, '{': 0x28, '}': 0x29, '\\': 0x2f, '[': 0x3c, '~': 0x3d, ']': 0x3e, '|': 0x40, '\u20ac': 0x65} {
		septets[c] = []byte{0x1b, code}
	}
	return septets
}()

// secondSegments writes a text out in parts of whole characters, and counts them.
func secondSegments(text string) int {
	septets := septetsOf
	var chars [][]uint16
	single, part := 160, 153
	for _, c := range text {
		if septets[c] == nil {
			single, part = 70, 67
		}
	}
	var all int
	for _, c := range text {
		units := utf16.Encode([]rune{c})
		if part == 153 {
			units = units[:0:0]
			for _, b := range septets[c] {
				units = append(units, uint16(b))
			}
		}
		chars, all = append(chars, units), all+len(units)
	}
	if all <= single {
		return 1
	}
	parts := [][]uint16{nil}
	for _, units := range chars {
		if last := len(parts) - 1; len(parts[last])+len(units) <= part {
			parts[last] = append(parts[last], units...)
		} else {
			parts = append(parts, units)
		}
	}
	return len(parts)
}

// TestSecondSegments: SMS parts are those of the text written out part by part.
func TestSecondSegments(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 2))
	gsm := []rune("\f^{}\\[~]|\u20ac")
	for _, row := range gsmRows {
		for _, c := range row {
			if c != '\x1b' {
				gsm = append(gsm, c)
			}
		}
	}
	for range 20_000 * longer() {
		text := make([]rune, r.IntN(480))
		other := r.IntN(3) // 0: the alphabet alone
		for i := range text {
			text[i] = gsm[r.IntN(len(gsm))]
			if other > 0 && r.IntN(50) == 0 {
				text[i] = []rune{'\u4e2d', '\u00e7', '`', '\t', 0x1f600, '\x1b', 0x20ac, r.Int32N(0xd000), 0x10000 + r.Int32N(0x10000)}[r.IntN(9)]
			}
		}
		if got, want := schemas.Segments(string(text)), secondSegments(string(text)); got != want {
			t.Fatalf("%q: %d, and written out %d", string(text), got, want)
		}
	}
}
