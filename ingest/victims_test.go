package ingest

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
)

func TestVictims(t *testing.T) {
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	var proxy netip.Addr
	for _, tt := range []struct {
		name string
		all  []held
		n    int
		want []int
	}{
		{"none", nil, 3, nil},
		{"the longest wait", []held{{a, 30}, {a, 10}, {a, 20}}, 1, []int{1}},
		{"all of them", []held{{a, 30}, {a, 10}, {a, 20}}, 9, []int{1, 2, 0}},
		{"who is worked for stays", []held{{a, 0}, {a, 10}, {a, 0}}, 9, []int{1}},
		{"who has most, though another waits longer", []held{{b, 1}, {a, 30}, {a, 20}, {a, 25}}, 2, []int{2, 3}},
		{"then everyone alike", []held{{b, 1}, {a, 30}, {a, 20}, {a, 25}}, 3, []int{2, 3, 0}},
		{"what is worked for counts too", []held{{b, 1}, {a, 30}, {a, 0}, {a, 0}}, 1, []int{1}},
		{"everyone has one", []held{{a, 30}, {b, 10}}, 1, []int{1}},
		{"a proxy's are somebody else's each", []held{{proxy, 1}, {proxy, 2}, {proxy, 3}, {a, 30}, {a, 40}}, 1, []int{3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := victims(tt.all, tt.n); !slices.Equal(got, tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func BenchmarkVictims(b *testing.B) {
	all := make([]held, DefaultConns)
	for i := range all {
		all[i] = held{netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i % 200)}), int64(i + 1)}
	}
	for b.Loop() {
		victims(all, len(all)/64)
	}
}

func TestLineReader(t *testing.T) {
	for text, want := range map[string]bool{
		"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n": true,
		"POST / HTTP/1.1\ncOnTeNt-LeNgTh : 5\r\n\r\n":  true,
		"POST / HTTP/1.1\r\nX: Content-Length: 5\r\n":  false,
		"POST / HTTP/1.1\r\nContent-Lengt: 5\r\n":      false,
		"POST / HTTP/1.1\r\nContent-\nContent-Length:": true,
		"Content-Length: 5\r\n":                        false,
		"POST / HTTP/1.1\r\n\r\n{\"a\":\"b\"}":         false,
		"GET / HTTP/1.1\r\nTransfer-Encoding: chunked": false,
	} {
		for size := 1; size < 40; size++ { // however it comes in pieces
			var l lineReader
			got := false
			for piece := range slices.Chunk([]byte(text), size) {
				got = l.find(piece) || got
			}
			if got != want {
				t.Errorf("%q in pieces of %d: %v", text, size, got)
			}
		}
	}
	if got := fmt.Sprint(ownRefusal([]byte("HTTP/1.1 400 Bad Request\r\nCache-Control: no-store\r\n\r\n"))); got != "[]" {
		t.Errorf("an answer of a handler becomes %s", got)
	}
}
