package smpp

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/processor/provider"
)

// link is one bound connection.
type link struct {
	session    *session
	conn       net.Conn
	r          *bufio.Reader
	window     chan struct{} // holds one for each request without an answer
	deliveries chan pdu
	done       chan struct{} // closed when the connection is

	writing sync.Mutex // a PDU is written whole

	mu      sync.Mutex
	seq     uint32 // the last that was used
	pending map[uint32]*request
	ended   bool
}

// request is a submit_sm that was written, or is about to be.
type request struct {
	answered chan pdu
	take     func(pdu) // is called as soon as the answer is read, before anything that follows it
	since    time.Time
	left     atomic.Bool // nobody waits any more
}

func (l *link) bind(b bind) error {
	if _, err := l.conn.Write(pdu{id: cmdBind, seq: 1, body: b.encode()}.append(nil)); err != nil {
		return err
	}
	for {
		p, err := readPDU(l.r)
		switch {
		case err != nil:
			return err
		case p.id == cmdEnquire:
			if _, err := l.conn.Write(pdu{id: cmdEnquire | cmdResponse, seq: p.seq}.append(nil)); err != nil {
				return err
			}
		case p.id != cmdBind|cmdResponse && p.id != cmdGenericNack:
			return errAnswer
		case p.status != statusOK:
			return refusedBind{p.status}
		case p.id == cmdGenericNack:
			return errAnswer
		default:
			return nil
		}
	}
}

// serve reads until the connection ends.
func (l *link) serve(ctx context.Context) error {
	var wg sync.WaitGroup
	stop := context.AfterFunc(ctx, func() { l.conn.Close() })
	wg.Go(l.keep)
	wg.Go(l.takeDeliveries)
	err := l.read()
	stop()
	l.end()
	l.conn.Close()
	close(l.done)
	close(l.deliveries)
	wg.Wait()
	return err
}

// end lets no more calls begin.
func (l *link) end() {
	l.session.lose(l)
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
}

func (l *link) read() error {
	for {
		_ = l.conn.SetReadDeadline(time.Now().Add(2 * l.session.enquire))
		p, err := readPDU(l.r)
		if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			return errSilent
		}
		if err != nil {
			return err
		}
		switch p.id {
		case cmdSubmit | cmdResponse, cmdGenericNack:
			l.answer(p)
		case cmdEnquire:
			err = l.respond(p, statusOK, nil)
		case cmdDeliver:
			select {
			case l.deliveries <- p:
			default:
				err = l.respond(p, statusTemporary, named{}.encode())
			}
		case cmdUnbind:
			l.end()
			_ = l.respond(p, statusOK, nil)
			return errUnbound
		case cmdUnbind | cmdResponse:
			return errUnbound
		default:
			if p.id&cmdResponse == 0 {
				err = l.write(pdu{id: cmdGenericNack, status: statusInvalidCmd, seq: p.seq}, time.Now().Add(answerWithin))
			}
		}
		if err != nil {
			return err
		}
	}
}

// answer gives an answer to who waits for it.
func (l *link) answer(p pdu) {
	l.mu.Lock()
	r, ok := l.pending[p.seq]
	delete(l.pending, p.seq)
	l.mu.Unlock()
	if !ok {
		return // nobody asked, or gave up long ago
	}
	<-l.window
	r.take(p)
	r.answered <- p
}

// keep asks the centre whether it is there, and gives up answers that nobody waits for.
func (l *link) keep() {
	t := time.NewTicker(l.session.enquire)
	defer t.Stop()
	for {
		select {
		case <-l.done:
			return
		case now := <-t.C:
			if l.write(pdu{id: cmdEnquire, seq: l.sequence()}, now.Add(answerWithin)) != nil {
				l.conn.Close()
				return
			}
			l.mu.Lock()
			for seq, r := range l.pending {
				if r.left.Load() && now.Sub(r.since) >= abandonedAfter {
					delete(l.pending, seq)
					<-l.window
				}
			}
			l.mu.Unlock()
		}
	}
}

// takeDeliveries hands on what the centre sends, in order, and answers each when it is
// safe.
func (l *link) takeDeliveries() {
	var wg sync.WaitGroup
	waiting := make(chan struct{}, unwritten)
	for p := range l.deliveries {
		select {
		case <-l.done:
			continue // it will be sent again
		case waiting <- struct{}{}:
		}
		status, safe := uint32(statusNotForUs), (<-chan error)(nil)
		if s, err := decodeShort(p.body); err == nil {
			status, safe = l.session.deliver(s)
		}
		if safe == nil {
			l.taken(p, status)
			<-waiting
			continue
		}
		wg.Go(func() {
			defer func() { <-waiting }()
			select {
			case err := <-safe:
				if err != nil {
					status = statusTemporary
				}
				l.taken(p, status)
			case <-l.done:
			}
		})
	}
	wg.Wait()
}

func (l *link) taken(p pdu, status uint32) {
	if l.respond(p, status, named{}.encode()) != nil {
		l.conn.Close()
	}
}

func (l *link) respond(p pdu, status uint32, body []byte) error {
	return l.write(pdu{id: p.id | cmdResponse, status: status, seq: p.seq, body: body}, time.Now().Add(answerWithin))
}

// write writes a PDU whole or fails. After a failure the connection is good for
// nothing: where one PDU ends can no longer be told.
func (l *link) write(p pdu, by time.Time) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	_ = l.conn.SetWriteDeadline(by)
	_, err := l.conn.Write(p.append(nil))
	return err
}

// sequence is the next sequence number: 1 to 0x7FFFFFFF (3.2).
func (l *link) sequence() uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sequenceLocked()
}

func (l *link) sequenceLocked() uint32 {
	l.seq++
	if l.seq > 0x7fffffff {
		l.seq = 1
	}
	return l.seq
}

// unbind ends the session as the protocol has it, within unbindWithin.
func (l *link) unbind() {
	if l.write(pdu{id: cmdUnbind, seq: l.sequence()}, time.Now().Add(unbindWithin)) != nil {
		return
	}
	select {
	case <-l.done:
	case <-time.After(unbindWithin):
	}
}

// submit writes a submit_sm and waits for its answer. Without one the outcome says
// what that means: before the last octet was handed over the centre does not have
// the message, afterwards it may.
func (l *link) submit(ctx context.Context, body []byte, take func(pdu)) (*pdu, provider.Outcome) {
	select {
	case l.window <- struct{}{}:
	case <-l.done:
		return nil, over
	case <-ctx.Done():
		return nil, provider.Outcome{Kind: provider.Transient, Code: "window_full", Text: "the centre left so many messages unanswered that there was no place before the deadline"}
	}
	r := &request{answered: make(chan pdu, 1), take: take, since: time.Now()}
	l.mu.Lock()
	if l.ended || ctx.Err() != nil {
		l.mu.Unlock()
		<-l.window
		return nil, over
	}
	seq := l.sequenceLocked()
	l.pending[seq] = r
	l.mu.Unlock()
	by, ok := ctx.Deadline()
	if !ok {
		by = time.Now().Add(answerWithin)
	}
	if err := l.write(pdu{id: cmdSubmit, seq: seq, body: body}, by); err != nil {
		l.conn.Close()
		return nil, notWritten("the message was not written: " + reason(err))
	}
	select {
	case p := <-r.answered:
		return &p, provider.Outcome{}
	case <-l.done:
	case <-ctx.Done():
	}
	r.left.Store(true)
	select {
	case p := <-r.answered: // both at once
		return &p, provider.Outcome{}
	default:
	}
	if ctx.Err() != nil {
		return nil, provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "timeout", Text: "no answer before the deadline"}
	}
	return nil, provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "connection_broken", Text: "the session ended after the message was written"}
}

// over is a session or a call that ended before anything of the message was written.
var over = notWritten("it ended before the message was written")

func notWritten(text string) provider.Outcome {
	return provider.Outcome{Kind: provider.Transient, Code: "not_written", Text: text}
}
