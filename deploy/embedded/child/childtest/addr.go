// Package childtest gives tests addresses for the processes that they start.
package childtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Addr is an address on which nobody listens, for processes that a test starts, kills
// and starts again there. No other Addr is the same until the test ends, in any process
// of this machine: its port is held for UDP meanwhile, which nobody here speaks.
//
// It is none that the system chooses: those it would give to the next connection of
// anybody's that asks, before the test's own process listens.
func Addr(t testing.TB) string {
	t.Helper()
	for range 1000 {
		at := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))
		held, err := net.ListenPacket("udp", at)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", at)
		if err != nil {
			held.Close()
			continue
		}
		l.Close()
		t.Cleanup(func() { held.Close() })
		return at
	}
	t.Fatal("no port is free")
	return ""
}
