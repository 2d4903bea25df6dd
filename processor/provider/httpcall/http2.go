package httpcall

import (
	"errors"
	"io"
	"strings"
	"sync"
)

var errNotHTTP2 = errors.New("the server does not speak HTTP/2")

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
