package smpp

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/processor/provider"
)

// Times of a session.
const (
	retryFrom      = time.Second      // between attempts to bind: doubled each time
	retryMost      = 30 * time.Second //
	steady         = 30 * time.Second // a session that lasted so long begins anew at retryFrom
	abandonedAfter = time.Minute      // an answer that nobody waits for and that does not come holds a place in the window so long
	unbindWithin   = 2 * time.Second  // for the answer to unbind
	answerWithin   = 10 * time.Second // for the centre to read what it is answered
	queued         = 64               // requests of the centre's that wait to be taken; more are put off
	unwritten      = 1000             // receipts that were taken and are not yet safe; more wait in the queue
)

// session keeps one bound connection to the centre, and makes another when it
// breaks. Everything that it does until close happens in goroutines of run.
type session struct {
	dial    func(ctx context.Context) (net.Conn, error)
	bind    bind
	within  time.Duration // of an attempt: connection, TLS and bind together
	window  int
	enquire time.Duration
	deliver func(s short) (status uint32, safe <-chan error) // takes a deliver_sm; safe is nil where it was taken or refused at once
	refused func(status uint32) provider.Outcome
	logger  *slog.Logger

	cancel  context.CancelFunc
	closing atomic.Bool
	wg      sync.WaitGroup

	mu     sync.Mutex
	link   *link         // bound; else nil
	trying chan struct{} // closed when the attempt that is under way ends; nil while none is
	why    provider.Outcome
}

// start begins to connect in the background.
func (s *session) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.trying = cancel, make(chan struct{})
	s.wg.Go(func() { s.run(ctx) })
}

// close unbinds and ends everything that start began.
func (s *session) close() {
	s.closing.Store(true)
	s.mu.Lock()
	l := s.link
	s.mu.Unlock()
	if l != nil {
		l.unbind()
	}
	s.cancel()
	s.wg.Wait()
}

// bound returns the session's link. It waits for an attempt to connect that is
// under way; between attempts it says at once why there is none.
func (s *session) bound(ctx context.Context) (*link, provider.Outcome) {
	for {
		s.mu.Lock()
		l, trying, why := s.link, s.trying, s.why
		s.mu.Unlock()
		switch {
		case l != nil:
			return l, provider.Outcome{}
		case trying == nil:
			return nil, why
		}
		select {
		case <-trying:
		case <-ctx.Done():
			return nil, provider.Outcome{Kind: provider.Transient, Code: "connect_timeout", Text: "no bound session before the deadline"}
		}
	}
}

// set tells bound what there is.
func (s *session) set(l *link, trying bool, why provider.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trying != nil {
		close(s.trying)
		s.trying = nil
	}
	s.link, s.why = l, why
	if trying {
		s.trying = make(chan struct{})
	}
}

// lose takes a link out before anything is done about it, so that no call begins on
// it any more. Calls wait for what run says next.
func (s *session) lose(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == l {
		s.link, s.trying = nil, make(chan struct{})
	}
}

func (s *session) run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		l, err := s.connect(ctx)
		broke := err == nil
		if broke {
			s.set(l, false, provider.Outcome{})
			s.logger.Info("smpp session is bound")
			began := time.Now()
			err = l.serve(ctx)
			if time.Since(began) >= steady {
				failures = 0
			}
		}
		if ctx.Err() != nil || s.closing.Load() {
			break
		}
		s.logger.Warn("smpp session is not bound", "error", reason(err))
		wait := pause(failures, rand.Int64N)
		failures++
		// Right after a session broke, calls wait for the next attempt.
		soon := broke && failures == 1
		s.set(nil, soon, s.unbound(err))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		if !soon {
			s.set(nil, true, s.unbound(err))
		}
	}
	s.set(nil, false, s.unbound(errors.New("the provider is being closed")))
}

// pause is how long to wait after a number of failures in a row: after the first
// at most half a second, then from half of one to all of it, doubled up to 30 s.
// Without chance all clients of a centre would come back together.
func pause(failures int, below func(int64) int64) time.Duration {
	if failures == 0 {
		return time.Duration(below(int64(retryFrom / 2)))
	}
	d := retryMost
	if shift := failures - 1; shift < 5 {
		d = min(d, retryFrom<<shift)
	}
	return d/2 + time.Duration(below(int64(d/2)))
}

// refusedBind is a bind that the centre refused.
type refusedBind struct{ status uint32 }

func (e refusedBind) Error() string { return "the bind was refused: " + codeOf(e.status) }

// unbound is the outcome of calls while there is no session: none is ever received.
func (s *session) unbound(err error) provider.Outcome {
	if e, ok := errors.AsType[refusedBind](err); ok {
		o := s.refused(e.status)
		o.MayBeReceived = false
		return o
	}
	return provider.Outcome{Kind: provider.Transient, Code: "not_bound", Text: "no bound session: " + reason(err)}
}

// reason says what failed. Only errors of the network, of certificates and this
// package's own are repeated.
func reason(err error) string {
	text := "the connection failed"
	if e, ok := errors.AsType[*net.OpError](err); ok {
		text = e.Error()
	} else if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		text = e.Error()
	} else if e, ok := errors.AsType[refusedBind](err); ok {
		text = e.Error()
	} else if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		text = "the connection was closed"
	} else {
		for _, known := range []error{errLength, errBody, errUnbound, errAnswer, errSilent, context.DeadlineExceeded} {
			if errors.Is(err, known) {
				text = known.Error()
			}
		}
	}
	return text[:min(len(text), 200)]
}

var (
	errUnbound = errors.New("the session was unbound")
	errAnswer  = errors.New("the centre answered a bind with something else")
	errSilent  = errors.New("the centre says nothing, not even to enquire_link")
)

// connect makes a connection and binds.
func (s *session) connect(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, s.within)
	defer cancel()
	conn, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	l := &link{
		session: s, conn: conn, r: bufio.NewReader(conn), window: make(chan struct{}, s.window), seq: 1,
		pending: make(map[uint32]*request), done: make(chan struct{}), deliveries: make(chan pdu, queued),
	}
	if err = l.bind(s.bind); err == nil && !stop() {
		err = ctx.Err()
	}
	if err != nil {
		stop()
		conn.Close()
		if ctx.Err() != nil {
			err = fmt.Errorf("bind: %w", ctx.Err())
		}
		return nil, err
	}
	return l, nil
}
