package childtest

import (
	"net"
	"testing"
)

// Of the ports that there are two tests have none in common, and each can be listened on
// again and again.
func TestAddr(t *testing.T) {
	seen := make(map[string]bool)
	for range 2000 {
		at := Addr(t)
		if seen[at] {
			t.Fatalf("%s was given twice", at)
		}
		seen[at] = true
		for range 2 {
			l, err := net.Listen("tcp", at)
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
		}
	}
}
