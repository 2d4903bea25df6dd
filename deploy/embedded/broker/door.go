package broker

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// door is the broker's listener. It counts the connections that are open, can be
// shut while they go on, and lets the broker's own client in by a side entrance.
type door struct {
	net.Listener
	inside chan net.Conn // what Accept returns
	closed chan struct{}
	once   sync.Once
	feeder sync.WaitGroup

	mu    sync.Mutex
	conns int
	last  time.Time     // when a connection was last closed
	gone  chan struct{} // closed and replaced whenever a connection is closed
}

// open listens. A missing address means a free port of 127.0.0.1.
func open(addr string) (*door, error) {
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	d := &door{
		Listener: ln,
		inside:   make(chan net.Conn),
		closed:   make(chan struct{}),
		gone:     make(chan struct{}),
		last:     time.Now(),
	}
	d.feeder.Go(d.feed)
	return d, nil
}

// feed hands connections from outside to Accept until the listener is closed.
func (d *door) feed() {
	for {
		c, err := d.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of file descriptors, or a client that left at once: not the end.
			select {
			case <-time.After(10 * time.Millisecond):
				continue
			case <-d.closed:
				return
			}
		}
		d.enter()
		select {
		case d.inside <- &visitor{Conn: c, door: d}:
		case <-d.closed:
			c.Close()
			d.leave()
			return
		}
	}
}

// Accept returns the next connection, from outside or from dial.
func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.inside:
		return c, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

// Addr is what clients are told to connect to: kfake puts it into its metadata.
func (d *door) Addr() net.Addr {
	a := d.Listener.Addr()
	if tcp, ok := a.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: tcp.Port}
	}
	return a
}

// shut ends listening, so that the port is free for a successor at once.
func (d *door) shut() { _ = d.Listener.Close() }

// Close shuts the door and ends Accept.
func (d *door) Close() error {
	d.shut()
	d.once.Do(func() { close(d.closed) })
	d.feeder.Wait()
	return nil
}

// dial is the side entrance: a connection inside the process, uncounted.
func (d *door) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case d.inside <- addressed{theirs}:
		return ours, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

// awaitQuiet returns true when no connection is open and the last was closed at
// least settle ago, false when that was not so within limit.
func (d *door) awaitQuiet(limit, settle time.Duration) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		d.mu.Lock()
		conns, idle, gone := d.conns, time.Since(d.last), d.gone
		d.mu.Unlock()
		if conns == 0 && idle >= settle {
			return true
		}
		var calm <-chan time.Time
		if conns == 0 {
			calm = time.After(settle - idle)
		}
		select {
		case <-gone:
		case <-calm:
		case <-deadline.C:
			return false
		}
	}
}

func (d *door) enter() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns++
}

func (d *door) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns--
	d.last = time.Now()
	close(d.gone)
	d.gone = make(chan struct{})
}

// visitor is a connection from outside.
type visitor struct {
	net.Conn
	door *door
	once sync.Once
}

func (v *visitor) Close() error {
	err := v.Conn.Close()
	v.once.Do(v.door.leave)
	return err
}

// addressed gives a pipe the address that kfake expects of a TCP connection.
type addressed struct{ net.Conn }

func (addressed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (addressed) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
