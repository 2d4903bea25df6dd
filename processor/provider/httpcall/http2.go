package httpcall

import (
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
)

var errNotHTTP2 = errors.New("the server does not speak HTTP/2")

// open are a client's HTTP/2 connections. net/http closes those that are idle, and one
// is not idle at once when its last call has its answer: without this, Close would leave
// it open until the server ends it.
type open struct {
	mu    sync.Mutex
	conns map[*tracked]struct{}
	over  bool
}

// tracked is a connection, below TLS.
type tracked struct {
	net.Conn
	of *open
}

func (o *open) track(c net.Conn) (net.Conn, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		c.Close()
		return nil, net.ErrClosed
	}
	t := &tracked{c, o}
	if o.conns == nil {
		o.conns = make(map[*tracked]struct{})
	}
	o.conns[t] = struct{}{}
	return t, nil
}

func (t *tracked) Close() error {
	t.of.mu.Lock()
	delete(t.of.conns, t)
	t.of.mu.Unlock()
	return t.Conn.Close()
}

// close closes all that there are, and all that are still to come.
func (o *open) close() {
	o.mu.Lock()
	o.over = true
	conns := slices.Collect(maps.Keys(o.conns))
	o.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}

// body is a request's body in HTTP/2. There a connection cannot tell what of a
// request was handed over, as it carries many, and cannot be closed to make sure, as
// that would break the others. The body can: net/http reads it after the headers were
// written, and ends the stream after its last byte. Until that byte was read the
// provider lacks the end of the request; afterwards it may have everything, although
// the byte may still lie in a buffer. That is coarser than a wire: what waits in net/http
// for the provider's window counts as handed over.
type body struct {
	io.ReadCloser

	mu     sync.Mutex // held while it is read
	left   int64
	sealed bool
}

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sealed {
		return 0, errSealed
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	return n, err
}

var errSealed = errors.New("the call is over")

// seal fails every later read, and reports whether the whole body may have been
// handed over.
func (b *body) seal() (whole bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sealed = true
	return b.left <= 0
}

// refused reports a request that an HTTP/2 server says it did not process (RFC 9113,
// 8.7): its stream was refused, or is above the last one that a GOAWAY names. net/http
// would send it again if it could; it says so in words alone, so that an error with
// other words counts as unknown. A test holds the words.
func refused(err error) bool {
	text := err.Error()
	return strings.Contains(text, "http2: Transport: cannot retry err [") &&
		(strings.Contains(text, "; REFUSED_STREAM; received from peer]") || strings.Contains(text, "graceful shutdown GOAWAY]"))
}
