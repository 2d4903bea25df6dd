// Package smpptest is a message centre (SMSC) on loopback for tests: it takes binds
// and messages as SMPP v3.4 has them, puts parts together as a phone does, and
// refuses, is silent or breaks as it is told.
//
// It reads and writes PDUs by itself, after the specification, and shares nothing
// with the adapter that it tests. It keeps everything in memory and checks no more of
// a session than an ESME could notice.
package smpptest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir/processor/provider/providertest"
)

// Credentials that it takes.
const (
	SystemID = "weir"
	Password = "s3cr3t-8"
)

// SMSC is the centre.
type SMSC struct {
	listener net.Listener
	// ID makes the id of the nth message that was accepted, from 1; m-1 without it. To
	// be set before the first bind.
	ID func(n int) string
	// Answer says what a submit_sm is answered, instead of what Do said: a status, or
	// false for nothing. To be set before the first bind.
	Answer func(n int, s Submit) (status uint32, answer bool)
	// Silent leaves enquire_link unanswered. To be set before the first bind.
	Silent bool

	mu       sync.Mutex
	does     providertest.Behaviour
	conns    map[net.Conn]*session
	taken    []providertest.Message
	parts    map[string]*assembly
	submits  int
	accepted int
	binds    int
	most     int // submits at once without an answer
	wire     strings.Builder
	answers  []Answer
	enquired int
	changed  chan struct{} // closed and made anew whenever something happens
	wg       sync.WaitGroup
}

// Answer is what the ESME answered a request of the centre's.
type Answer struct{ Command, Status, Sequence uint32 }

type session struct {
	bound   bool
	writing sync.Mutex
	unbound chan struct{} // closed when the ESME answered unbind
	pending int
}

// Listen starts a centre on a free port; it ends with the test.
func Listen(t providertest.T) *SMSC {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ListenOn(t, l)
}

// ListenOn is Listen with a listener of the test's.
func ListenOn(t providertest.T, l net.Listener) *SMSC {
	s := New()
	s.listener = l
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.Serve(c)
		}
	})
	t.Cleanup(s.Close)
	return s
}

// New is a centre without a listener: connections are given to Serve.
func New() *SMSC {
	return &SMSC{conns: make(map[net.Conn]*session), parts: make(map[string]*assembly), changed: make(chan struct{})}
}

// Serve takes a connection.
func (s *SMSC) Serve(c net.Conn) {
	se := &session{unbound: make(chan struct{})}
	s.mu.Lock()
	s.conns[c] = se
	s.mu.Unlock()
	s.wg.Go(func() {
		s.serve(c, se)
		c.Close()
		s.note(func() { delete(s.conns, c) })
	})
}

// Close ends everything.
func (s *SMSC) Close() {
	if s.listener != nil {
		s.listener.Close()
	}
	s.Cut()
	s.wg.Wait()
}

// Cut closes all connections without a word.
func (s *SMSC) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

// note changes what is known, and wakes who waits.
func (s *SMSC) note(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
	close(s.changed)
	s.changed = make(chan struct{})
}

// Wait waits until ok, which is called with the centre locked.
func (s *SMSC) Wait(t providertest.T, what string, ok func(Seen) bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		s.mu.Lock()
		seen := Seen{Binds: s.binds, Submits: s.submits, Most: s.most, Enquired: s.enquired, Sessions: 0, Answers: append([]Answer(nil), s.answers...)}
		for _, se := range s.conns {
			if se.bound {
				seen.Sessions++
			}
		}
		changed := s.changed
		s.mu.Unlock()
		if ok(seen) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%s: %+v", what, seen)
		}
	}
}

// Seen is what happened since the start.
type Seen struct {
	Binds, Sessions int // attempts; bound now
	Submits         int
	Most            int // submit_sm at once without an answer
	Enquired        int // enquire_link of the ESME's
	Answers         []Answer
}

// Endpoint is host:port.
func (s *SMSC) Endpoint() string { return s.listener.Addr().String() }

// Do says how the messages to come are answered. Closed and Forbidden first end the
// sessions that there are, with unbind, as centres do.
func (s *SMSC) Do(b providertest.Behaviour) {
	s.mu.Lock()
	s.does = b
	bound := make(map[net.Conn]*session)
	for c, se := range s.conns {
		if se.bound {
			bound[c] = se
		}
	}
	s.mu.Unlock()
	if !b.Closed && !b.Forbidden {
		return
	}
	if b.Closed {
		s.listener.Close()
	}
	for c, se := range bound {
		s.send(c, se, pdu(0x00000006, 0, 900, nil))
		select {
		case <-se.unbound:
		case <-time.After(time.Second):
		}
		c.Close()
	}
	if b.Closed { // what is half open too
		s.Cut()
	}
}

// Received returns the messages that were taken whole, and forgets them.
func (s *SMSC) Received() []providertest.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.taken
	s.taken = nil
	return out
}

// Calls is how many messages came: of one in parts the first counts.
func (s *SMSC) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.submits
}

// Wire is what went over the wire.
func (s *SMSC) Wire() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.wire.String()
	s.wire.Reset()
	return out
}

// Deliver sends a deliver_sm to one bound session.
func (s *SMSC) Deliver(t providertest.T, sequence uint32, body []byte) {
	t.Helper()
	s.Raw(t, pdu(0x00000005, 0, sequence, body))
}

// Raw sends octets to one bound session.
func (s *SMSC) Raw(t providertest.T, b []byte) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, se := range s.conns {
		if se.bound {
			go s.send(c, se, b)
			return
		}
	}
	t.Fatalf("no bound session")
}

func (s *SMSC) send(c net.Conn, se *session, b []byte) {
	se.writing.Lock()
	defer se.writing.Unlock()
	s.mu.Lock()
	s.wire.WriteString(Show("< ", b))
	s.mu.Unlock()
	_, _ = c.Write(b)
}

func (s *SMSC) serve(c net.Conn, se *session) {
	for {
		h := make([]byte, 16)
		if _, err := io.ReadFull(c, h); err != nil {
			return
		}
		n := binary.BigEndian.Uint32(h)
		if n < 16 || n > 1<<20 {
			return
		}
		b := append(h, make([]byte, n-16)...)
		if _, err := io.ReadFull(c, b[16:]); err != nil {
			return
		}
		command, status, sequence := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])
		s.mu.Lock()
		s.wire.WriteString(Show("> ", b))
		does := s.does
		s.mu.Unlock()
		switch command {
		case 0x00000009:
			f := fields(b[16:], "system_id", "password")
			status := uint32(0)
			if f["password"] != Password || does.Forbidden {
				status = 0x0e
			} else if f["system_id"] != SystemID {
				status = 0x0f
			}
			s.note(func() { s.binds++; se.bound = status == 0 })
			if status != 0 {
				s.send(c, se, pdu(0x80000009, status, sequence, nil))
				return
			}
			s.send(c, se, pdu(0x80000009, 0, sequence, append(append([]byte("TESTCENTRE"), 0), TLV(0x0210, "\x34")...)))
		case 0x00000004:
			if !s.submit(c, se, sequence, b[16:], does) {
				return
			}
		case 0x00000015:
			s.note(func() { s.enquired++ })
			if !s.Silent {
				s.send(c, se, pdu(0x80000015, 0, sequence, nil))
			}
		case 0x00000006:
			s.send(c, se, pdu(0x80000006, 0, sequence, nil))
			s.note(func() { se.bound = false })
			return
		case 0x80000006:
			s.note(func() { se.bound = false })
			close(se.unbound)
			return
		default:
			s.note(func() { s.answers = append(s.answers, Answer{command, status, sequence}) })
		}
	}
}

// submit answers a submit_sm; false ends the connection.
func (s *SMSC) submit(c net.Conn, se *session, sequence uint32, body []byte, does providertest.Behaviour) bool {
	sub, err := parseSubmit(sequence, body)
	if err != nil {
		s.send(c, se, pdu(0x80000004, 0x02, sequence, nil))
		return true
	}
	_, total, part, _ := header(sub)
	var n int
	s.note(func() {
		if part <= 1 {
			s.submits++
		}
		n = s.submits
		se.pending++
		s.most = max(s.most, se.pending)
	})
	done := func() { s.note(func() { se.pending-- }) }
	if s.Answer != nil {
		status, answer := s.Answer(n, sub)
		if !answer {
			return true
		}
		if status != 0 {
			done()
			s.send(c, se, pdu(0x80000004, status, sequence, nil))
			return true
		}
	}
	status, refuse := uint32(0), true
	switch {
	case does.Hang:
		return true
	case does.Break:
		return false
	case does.Garbage:
		s.send(c, se, []byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"))
		return true
	case does.Throttle != 0:
		status = 0x58
	case does.Code != "":
		status = Status(does.Code)
	default:
		refuse = false
	}
	done()
	if refuse {
		why := TLV(0x001d, "no "+sub.Dest+": "+text(sub)+"\x00") // additional_status_info_text
		s.send(c, se, pdu(0x80000004, status, sequence, append([]byte{0}, why...)))
		return true
	}
	id := ""
	s.note(func() {
		s.accepted++
		id = fmt.Sprintf("m-%d", s.accepted)
		if s.ID != nil {
			id = s.ID(s.accepted)
		}
		s.assemble(sub, total, part)
	})
	s.send(c, se, pdu(0x80000004, 0, sequence, append([]byte(id), 0)))
	return true
}

// assembly is a message in parts, as a phone keeps it.
type assembly struct {
	texts map[int]string
	total int
}

func (s *SMSC) assemble(sub Submit, total, part int) {
	m := providertest.Message{To: sub.Dest, From: sub.Source, Parts: 1}
	if sub.DestTON == 1 {
		m.To = "+" + m.To
	}
	if sub.SourceTON == 1 {
		m.From = "+" + m.From
	}
	reference, _, _, body := header(sub)
	if total == 0 {
		m.Body = Text(body, sub.Coding)
		s.taken = append(s.taken, m)
		return
	}
	key := fmt.Sprint(sub.Source, "/", sub.Dest, "/", reference, "/", total)
	a := s.parts[key]
	if a == nil {
		a = &assembly{texts: make(map[int]string), total: total}
		s.parts[key] = a
	}
	a.texts[part] = Text(body, sub.Coding)
	if len(a.texts) < total {
		return
	}
	for i := range total {
		m.Body += a.texts[i+1]
	}
	m.Parts = total
	delete(s.parts, key)
	s.taken = append(s.taken, m)
}
