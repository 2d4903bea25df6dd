package httpcall

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// wire is a connection that knows what was handed over of the one request that
// it carries. It lies above TLS, so that it sees what HTTP writes and nothing
// else: the alert with which TLS ends a broken connection is no part of a
// request.
type wire struct {
	net.Conn
	raw net.Conn // below TLS

	mu     sync.Mutex // held while it writes
	handed bool       // some of the request
	failed bool       // a write of the request did: its end was not handed over
}

// begin forgets the request before.
func (w *wire) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handed, w.failed = false, false
}

func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.Conn.Write(b)
	w.handed = w.handed || n > 0
	w.failed = w.failed || err != nil
	return n, err
}

// seal closes the connection, which ends a write that is under way and fails
// every later one, and reports whether the whole request may have been handed
// over. The raw connection is closed: TLS would first say farewell to a peer
// that may not be reading.
func (w *wire) seal() (whole bool) {
	w.raw.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.handed && !w.failed
}

// dialer makes connections. net/http goes on connecting after the call that
// asked for it has ended, as another may want the connection, so a provider
// that answers nobody would be left with more and more half-made ones: within
// bounds them.
type dialer struct {
	net    net.Dialer
	tls    *tls.Config
	within time.Duration // name, TCP and TLS together
	http2  bool          // connections are not wires: they carry many requests
	open   open          // those of HTTP/2
}

func (d *dialer) plain(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.within)
	defer cancel()
	c, err := d.net.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if d.http2 {
		return d.open.track(c)
	}
	return &wire{Conn: c, raw: c}, nil
}

func (d *dialer) secure(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.within)
	defer cancel()
	raw, err := d.net.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if d.http2 {
		if raw, err = d.open.track(raw); err != nil {
			return nil, err
		}
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		raw.Close()
		return nil, err
	}
	cfg := d.tls.Clone()
	cfg.ServerName = host
	c := tls.Client(raw, cfg)
	if err := c.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	if d.http2 {
		if c.ConnectionState().NegotiatedProtocol != "h2" {
			raw.Close()
			return nil, errNotHTTP2
		}
		return c, nil // as it is: net/http looks at its type
	}
	return &wire{Conn: c, raw: raw}, nil
}

// progress is how far a call came. net/http asks for a connection once a call:
// see Send.
type progress struct {
	connected atomic.Bool
	wire      atomic.Pointer[wire]
	body      *body // in HTTP/2; set before the request is made
}

func (p *progress) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		// Through a proxy to an https address, TLS lies above the wire, which
		// then cannot tell a request from an alert.
		if w, ok := i.Conn.(*wire); ok {
			w.begin()
			p.wire.Store(w)
		}
		p.connected.Store(true)
	}}
}

// notWritten reports, after a call that failed, whether the provider surely
// does not have the whole request: there was no connection, or the request's
// last byte was never handed to it. Without that byte the body is no JSON.
// Otherwise it may have everything.
func (p *progress) notWritten() bool {
	if !p.connected.Load() {
		return true
	}
	if p.body != nil {
		return !p.body.seal()
	}
	w := p.wire.Load()
	return w != nil && !w.seal()
}
