package faultsim

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// dialer is what reaches the brokers.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// call is one request on its way.
type call struct {
	key     kmsg.Key
	version int16
	corr    int32
	frame   []byte // with its length
	fate    fate
	sent    time.Time // to the broker; zero while it is held back
	came    bool      // its answer, also while that is held back
}

// fate is what becomes of a call.
type fate int

const (
	fatePass       fate = iota
	fateLoseCall        // it never arrives
	fateLoseAnswer      // it is performed, and its answer never arrives
	fateDieBefore       // the worker dies, and it never arrives
	fateDieAfter        // it is performed, and the worker dies before the answer
	fateHang            // it arrives late, and so does all that is sent after it on the connection
)

// hangs is for how long: longer than a decision may be before its append, and
// shorter than a client waits for an answer.
const hangs = 9 * time.Second

// wire is all of one worker's network. It sees whole requests and answers.
type wire struct {
	dial     dialer
	decide   func(*call) fate           // called once for each request
	answered func(c *call, body []byte) // called with each answer that is not lost

	mu    sync.Mutex
	dead  bool
	died  chan struct{} // closed when dead
	thaw  chan struct{} // closed when not frozen
	conns map[*conn]bool

	moment  time.Time // of the latest answer
	answers int       // in that moment
}

func newWire(d dialer, decide func(*call) fate, answered func(*call, []byte)) *wire {
	open := make(chan struct{})
	close(open)
	return &wire{dial: d, decide: decide, answered: answered, died: make(chan struct{}), thaw: open, conns: make(map[*conn]bool)}
}

var errDead = errors.New("the worker is dead")

// Dial connects to a broker, unless the worker is dead; frozen, it waits.
func (w *wire) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := w.pass(ctx.Done()); err != nil {
		return nil, err
	}
	inner, err := w.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, w: w, pending: make(map[int32]*call), gone: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		inner.Close()
		return nil, errDead
	}
	w.conns[c] = true
	return c, nil
}

// pass waits until the network is not frozen.
func (w *wire) pass(stop <-chan struct{}) error {
	w.mu.Lock()
	thaw := w.thaw
	w.mu.Unlock()
	select {
	case <-thaw:
	case <-w.died:
	case <-stop:
		return context.Canceled
	}
	select {
	case <-w.died:
		return errDead
	default:
		return nil
	}
}

func (w *wire) frozen() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.thaw:
		return false
	default:
		return !w.dead
	}
}

// Freeze holds everything back that is sent in either direction, for d. What
// was sent meanwhile then arrives, also on connections that were closed. It does
// nothing when frozen already.
func (w *wire) Freeze(d time.Duration) {
	if w.frozen() {
		return
	}
	thaw := make(chan struct{})
	w.mu.Lock()
	w.thaw = thaw
	w.mu.Unlock()
	select {
	case <-time.After(d):
	case <-w.died:
	}
	w.mu.Lock()
	close(thaw)
	var held []*conn
	for c := range w.conns {
		held = append(held, c)
	}
	w.mu.Unlock()
	var wg sync.WaitGroup
	for _, c := range held {
		wg.Go(c.flush)
	}
	wg.Wait()
}

// Kill cuts every connection; nothing reaches a broker from here on.
func (w *wire) Kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return
	}
	w.dead = true
	close(w.died)
	for c := range w.conns {
		c.Conn.Close()
	}
	clear(w.conns)
}

func (w *wire) alive() bool {
	select {
	case <-w.died:
		return false
	default:
		return true
	}
}

// waiting lists the members of groups for which a JoinGroup or SyncGroup is at a
// broker and has no answer yet.
func (w *wire) waiting() (out []waiter) {
	w.mu.Lock()
	conns := slices.Collect(maps.Keys(w.conns))
	w.mu.Unlock()
	for _, c := range conns {
		c.mu.Lock()
		for _, k := range c.pending {
			if k.sent.IsZero() || k.came || c.closed {
				continue
			}
			switch req := k.request().(type) {
			case *kmsg.JoinGroupRequest:
				out = append(out, waiter{k.key, req.Group, req.MemberID, k.sent, time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond, c})
			case *kmsg.SyncGroupRequest:
				out = append(out, waiter{key: k.key, group: req.Group, member: req.MemberID, since: k.sent, conn: c})
			}
		}
		c.mu.Unlock()
	}
	return out
}

func (w *wire) forget(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
}

// conn is one connection as the client has it. The client writes and reads from
// one goroutine each.
type conn struct {
	net.Conn
	w *wire

	in []byte // of the answer that is being read

	mu       sync.Mutex
	out      []byte          // of a request that is not whole yet
	pending  map[int32]*call // without an answer yet
	backlog  []*call         // held back by a freeze or by a call that hangs
	flushing bool            // it is being sent
	closed   bool            // by the client
	deadline time.Time       // of reads
	gone     chan struct{}   // closed when closed
}

func (c *conn) Write(b []byte) (int, error) {
	if !c.w.alive() {
		return 0, errDead
	}
	c.mu.Lock()
	c.out = append(c.out, b...)
	var calls []*call
	for len(c.out) >= 12 {
		n := 4 + int(binary.BigEndian.Uint32(c.out))
		if len(c.out) < n {
			break
		}
		frame := append([]byte(nil), c.out[:n]...)
		c.out = append(c.out[:0], c.out[n:]...)
		calls = append(calls, &call{
			key:     kmsg.Key(binary.BigEndian.Uint16(frame[4:])),
			version: int16(binary.BigEndian.Uint16(frame[6:])),
			corr:    int32(binary.BigEndian.Uint32(frame[8:])),
			frame:   frame,
		})
	}
	c.mu.Unlock()
	for _, k := range calls {
		k.fate = c.w.decide(k)
		switch k.fate {
		case fateLoseCall:
			c.Conn.Close()
			return len(b), nil // as a network does: the client learns it when it reads
		case fateDieBefore:
			c.w.Kill()
			return 0, errDead
		case fatePass, fateLoseAnswer, fateDieAfter, fateHang: // it arrives
		}
		c.mu.Lock()
		c.pending[k.corr] = k
		if k.fate == fateHang {
			go c.hang() // it ends with the worker
		}
		if k.fate == fateHang || c.w.frozen() || len(c.backlog) > 0 {
			c.backlog = append(c.backlog, k)
			c.mu.Unlock()
			continue
		}
		k.sent = time.Now()
		c.mu.Unlock()
		if _, err := c.Conn.Write(k.frame); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// hang lets what is held back go on later.
func (c *conn) hang() {
	select {
	case <-time.After(hangs):
	case <-c.w.died:
		return
	}
	if c.w.pass(nil) == nil {
		c.flush()
	}
}

// flush sends what a freeze held back. What a client sent before it closed the
// connection arrives too; nobody waits for its answers.
func (c *conn) flush() {
	c.mu.Lock()
	if c.flushing {
		c.mu.Unlock()
		return
	}
	c.flushing = true
	defer func() {
		c.mu.Lock()
		c.flushing = false
		c.mu.Unlock()
	}()
	closed := c.closed
	if closed {
		for _, k := range c.pending {
			if k.fate == fateDieAfter {
				k.fate = fatePass
			}
		}
	}
	c.mu.Unlock()
	if closed {
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = io.Copy(io.Discard, c.Conn) })
		defer wg.Wait()
		defer func() {
			// The broker answers one after the other: time to do it.
			select {
			case <-time.After(time.Second):
			case <-c.w.died:
			}
			c.Conn.Close()
			c.w.forget(c)
		}()
	}
	for {
		c.mu.Lock()
		if len(c.backlog) == 0 {
			c.mu.Unlock()
			return
		}
		k := c.backlog[0]
		k.sent = time.Now()
		c.mu.Unlock()
		_ = c.Conn.SetWriteDeadline(time.Time{})
		_, err := c.Conn.Write(k.frame)
		c.mu.Lock()
		c.backlog = c.backlog[1:]
		if err != nil {
			c.backlog = nil
		}
		c.mu.Unlock()
	}
}

func (c *conn) Read(b []byte) (int, error) {
	if len(c.in) == 0 {
		frame, err := c.answer()
		if err != nil {
			return 0, err
		}
		c.in = frame
	}
	n := copy(b, c.in)
	c.in = c.in[n:]
	return n, nil
}

// answer reads the next answer, and loses it if that is its fate.
func (c *conn) answer() ([]byte, error) {
	frame := make([]byte, 8, 512)
	if _, err := io.ReadFull(c.Conn, frame); err != nil {
		return nil, err
	}
	size := 4 + int(binary.BigEndian.Uint32(frame))
	frame = append(frame, make([]byte, size-8)...)
	if _, err := io.ReadFull(c.Conn, frame[8:]); err != nil {
		return nil, err
	}
	corr := int32(binary.BigEndian.Uint32(frame[4:]))
	c.mu.Lock()
	k := c.pending[corr]
	if k != nil {
		k.came = true
	}
	c.mu.Unlock()
	for c.w.frozen() {
		if err := c.hold(); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	delete(c.pending, corr)
	c.mu.Unlock()
	if k == nil {
		return frame, nil
	}
	switch k.fate {
	case fateLoseAnswer:
		c.Conn.Close()
		return nil, io.EOF
	case fateDieAfter:
		c.w.Kill()
		return nil, io.EOF
	case fatePass, fateHang, fateLoseCall, fateDieBefore: // the latter two have no answer
	}
	c.w.answered(k, frame[8:])
	c.w.takeTime()
	return frame, nil
}

// inNoTime is far more answers than a worker has in any one moment, unless it does
// nothing else.
const inNoTime = 2000

// takeTime lets a moment pass when too many answers came in it. On a real network
// calls take time; here a client that is refused and asks again at once (kgo does,
// when a fetch names a leader's epoch that is over, until it learns of the next)
// would do so for ever, and time would stand still.
func (w *wire) takeTime() {
	w.mu.Lock()
	now := time.Now()
	if !now.Equal(w.moment) {
		w.moment, w.answers = now, 0
	}
	w.answers++
	busy := w.answers > inNoTime
	w.mu.Unlock()
	if busy {
		time.Sleep(time.Millisecond)
	}
}

// hold waits for the end of a freeze, or of the client's patience.
func (c *conn) hold() error {
	c.mu.Lock()
	deadline := c.deadline
	c.mu.Unlock()
	stop := make(chan struct{})
	if !deadline.IsZero() {
		t := time.AfterFunc(time.Until(deadline), func() { close(stop) })
		defer t.Stop()
	}
	c.w.mu.Lock()
	thaw := c.w.thaw
	c.w.mu.Unlock()
	select {
	case <-thaw:
		return nil
	case <-c.w.died:
		return io.EOF
	case <-c.gone:
		return net.ErrClosed
	case <-stop:
		return os.ErrDeadlineExceeded
	}
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.deadline = t
	c.mu.Unlock()
	return c.Conn.SetReadDeadline(t)
}

func (c *conn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	c.deadline = t
	c.mu.Unlock()
	return c.Conn.SetDeadline(t)
}

// Close closes the connection; if calls are held back on it, when they have
// arrived.
func (c *conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	close(c.gone)
	held := len(c.backlog) > 0
	c.mu.Unlock()
	if held && c.w.frozen() {
		return nil
	}
	c.w.forget(c)
	return c.Conn.Close()
}

// request decodes a call; nil when it cannot be.
func (k *call) request() kmsg.Request {
	r := kbin.Reader{Src: k.frame[12:]}
	r.NullableString() // the client's id
	req := k.key.Request()
	if req == nil {
		return nil
	}
	req.SetVersion(k.version)
	if req.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	if req.ReadFrom(r.Src) != nil {
		return nil
	}
	return req
}

// response decodes the answer to a call; nil when it cannot be.
func (k *call) response(body []byte) kmsg.Response {
	resp := k.key.Response()
	if resp == nil {
		return nil
	}
	resp.SetVersion(k.version)
	r := kbin.Reader{Src: body}
	if resp.IsFlexible() && k.key != kmsg.ApiVersions {
		kmsg.SkipTags(&r)
	}
	if resp.ReadFrom(r.Src) != nil {
		return nil
	}
	return resp
}
