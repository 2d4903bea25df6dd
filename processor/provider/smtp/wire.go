package smtp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wneessen/go-mail/smtp"
)

const (
	idleFor = 30 * time.Second // relays close what is idle after 5 minutes (RFC 5321, 4.5.3.2.7), some much sooner
	maxUses = 100              // messages on a connection: many relays count them, and balancers want to spread
)

// wire is a connection, below TLS, that knows whether a write failed: bytes after
// it never reached the relay, so the dot at the end of a message did not either.
type wire struct {
	net.Conn
	failed atomic.Bool
}

func (w *wire) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	if err != nil {
		w.failed.Store(true)
	}
	return n, err
}

// session is a connection to the relay on which letters can be sent.
type session struct {
	c    *smtp.Client
	wire *wire
	uses int
	idle *time.Timer
}

// errors of a session before any message.
var (
	errNoTLS  = errors.New("the relay offers no STARTTLS, and without it nothing is sent (settings.tls)")
	errNoAuth = errors.New("the relay offers no way to log in that is known here: PLAIN, LOGIN, SCRAM-SHA-256 or CRAM-MD5")
)

// dial connects, secures and logs in.
func (r *relay) dial(ctx context.Context) (_ *session, err error) {
	raw, err := r.dialer.DialContext(ctx, "tcp", net.JoinHostPort(r.host, r.port))
	if err != nil {
		return nil, &dialError{err}
	}
	s := &session{wire: &wire{Conn: raw}}
	release := s.until(ctx)
	defer func() {
		if !release() && err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			raw.Close()
		}
	}()
	var conn net.Conn = s.wire
	if r.security == tlsImplicit {
		secured := tls.Client(conn, r.tls)
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, &dialError{err}
		}
		conn = secured
	}
	if s.c, err = smtp.NewClient(conn, r.host); err != nil {
		return nil, err
	}
	if err := s.c.Hello(r.helo); err != nil {
		return nil, err
	}
	if r.security == tlsStart {
		if offered, _ := s.c.Extension("STARTTLS"); !offered {
			return nil, errNoTLS
		}
		if err := s.c.StartTLS(r.tls); err != nil {
			return nil, err
		}
	}
	if r.username != "" {
		if err := s.login(r); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *session) login(r *relay) error {
	_, offered := s.c.Extension("AUTH")
	mechanisms := strings.Fields(strings.ToUpper(offered))
	open := r.security == tlsNone // which Open has allowed
	for _, m := range []struct {
		name string
		auth func() smtp.Auth
	}{
		{"SCRAM-SHA-256", func() smtp.Auth { return smtp.ScramSHA256Auth(r.username, r.pass) }},
		{"PLAIN", func() smtp.Auth { return smtp.PlainAuth("", r.username, r.pass, r.host, open) }},
		{"LOGIN", func() smtp.Auth { return smtp.LoginAuth(r.username, r.pass, r.host, open) }},
		{"CRAM-MD5", func() smtp.Auth { return smtp.CRAMMD5Auth(r.username, r.pass) }},
	} {
		if slices.Contains(mechanisms, m.name) {
			return s.c.Auth(m.auth())
		}
	}
	return errNoAuth
}

// dialError is a failure to connect.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// until holds the session to the deadline of ctx, and ends what waits when ctx
// does. release undoes it, and reports whether ctx had not ended.
func (s *session) until(ctx context.Context) (release func() bool) {
	if at, ok := ctx.Deadline(); ok {
		_ = s.wire.SetDeadline(at)
	}
	stop := context.AfterFunc(ctx, func() { _ = s.wire.SetDeadline(time.Unix(1, 0)) })
	return func() bool {
		if !stop() {
			return false
		}
		return s.wire.SetDeadline(time.Time{}) == nil
	}
}

// close ends a session. A farewell is said and not waited for.
func (s *session) close() {
	if s.c != nil && !s.wire.failed.Load() {
		_ = s.wire.SetDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = s.c.Text.Cmd("QUIT")
	}
	s.wire.Close()
}

// pool keeps sessions that are not in use.
type pool struct {
	most int

	mu     sync.Mutex
	idle   []*session // the one used last is used next
	closed bool
}

func (p *pool) get() *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		s := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if s.idle.Stop() {
			return s
		}
		// its time is over: expire closes it
	}
	return nil
}

func (p *pool) put(s *session) {
	s.uses++
	p.mu.Lock()
	if p.closed || s.uses >= maxUses || len(p.idle) >= p.most {
		p.mu.Unlock()
		s.close()
		return
	}
	s.idle = time.AfterFunc(idleFor, func() { p.expire(s) })
	p.idle = append(p.idle, s)
	p.mu.Unlock()
}

func (p *pool) expire(s *session) {
	p.mu.Lock()
	p.idle = slices.DeleteFunc(p.idle, func(o *session) bool { return o == s })
	p.mu.Unlock()
	s.close()
}

func (p *pool) close() {
	p.mu.Lock()
	all := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, s := range all {
		if s.idle.Stop() {
			s.close()
		}
	}
}

const maxReason = 200 // bytes: a certificate may hold any number of names

// reason says what failed of a connection. Only errors of the network and of
// certificates are repeated: others may quote the relay, which may quote the
// recipient.
func reason(err error) string {
	var text string
	if e, ok := errors.AsType[*net.OpError](err); ok {
		text = e.Error()
	} else if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		text = e.Error()
	}
	text = cmp.Or(text, "the connection was closed, or the answer was not SMTP")
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
}
