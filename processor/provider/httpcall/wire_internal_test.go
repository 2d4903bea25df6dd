package httpcall

import (
	"io"
	"net"
	"net/http/httptrace"
	"testing"
	"testing/synctest"
)

// TestAWireKnowsWhatWasHandedOver of the request that it carries, and seals what
// was not.
func TestAWireKnowsWhatWasHandedOver(t *testing.T) {
	write := func(w *wire) { _, _ = w.Write([]byte("request")) }
	for _, tt := range []struct {
		name  string
		reads int // bytes that the other end takes before it stops reading
		do    func(w *wire)
		whole bool
	}{
		{"nothing was written", 100, func(*wire) {}, false},
		{"all of it", 100, write, true},
		{"the one before, and nothing of this", 100, func(w *wire) { write(w); w.begin() }, false},
		{"the one before failed, and all of this", 100, func(w *wire) { w.failed = true; w.begin(); write(w) }, true},
		{"a part, and the deadline comes", 3, func(w *wire) { go write(w); synctest.Wait() }, false},
		{"a part, and the rest fails", 10, func(w *wire) { write(w); go write(w); synctest.Wait(); w.raw.Close(); synctest.Wait() }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				got := make(chan int, 1)
				go func() {
					n, _ := io.ReadFull(far, make([]byte, tt.reads))
					got <- n
				}()
				w := &wire{Conn: near, raw: near}
				tt.do(w)
				if whole := w.seal(); whole != tt.whole {
					t.Errorf("whole: %t, want %t", whole, tt.whole)
				}
				before := <-got
				if n, err := w.Write([]byte("late")); n != 0 || err == nil {
					t.Errorf("%d bytes were written after %d, when the call was over", n, before)
				}
				far.Close()
			})
		})
	}
}

// TestACallOnAKeptConnection is not judged by what the call before wrote.
func TestACallOnAKeptConnection(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	var p progress
	if !p.notWritten() {
		t.Error("written without a connection")
	}
	w := &wire{Conn: near, raw: near, handed: true}
	p.trace().GotConn(httptrace.GotConnInfo{Conn: w})
	if !p.notWritten() {
		t.Error("written, although nothing was handed over")
	}
	// Where TLS lies above the wire nobody can tell.
	p.wire.Store(nil)
	if p.notWritten() {
		t.Error("surely not written, on a connection that cannot tell")
	}
}
