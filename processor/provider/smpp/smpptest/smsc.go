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
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
	"unicode/utf16"

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

// Submit is a submit_sm as it was understood.
type Submit struct {
	Sequence                       uint32
	ServiceType                    string
	SourceTON, SourceNPI           byte
	Source                         string
	DestTON, DestNPI               byte
	Dest                           string
	ESMClass, ProtocolID, Priority byte
	Schedule, Validity             string
	Registered, Replace            byte
	Coding, DefaultMsgID           byte
	Message                        []byte
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
	deadline := time.After(5 * time.Second)
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

// Short is a deliver_sm's body.
func Short(from, to string, esmClass, coding byte, message []byte, tlvs ...[]byte) []byte {
	b := []byte{0, 1, 1}
	b = append(append(b, from...), 0, 1, 1)
	b = append(append(b, to...), 0, esmClass, 0, 0, 0, 0, 0, 0, coding, 0, byte(len(message)))
	b = append(b, message...)
	for _, t := range tlvs {
		b = append(b, t...)
	}
	return b
}

// TLV is an optional parameter.
func TLV(tag uint16, value string) []byte {
	b := binary.BigEndian.AppendUint16(nil, tag)
	b = binary.BigEndian.AppendUint16(b, uint16(len(value)))
	return append(b, value...)
}

func pdu(command, status, sequence uint32, body []byte) []byte {
	b := make([]byte, 16, 16+len(body))
	for i, v := range []uint32{uint32(16 + len(body)), command, status, sequence} {
		binary.BigEndian.PutUint32(b[4*i:], v)
	}
	return append(b, body...)
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

// header returns what a submit's user data header says; total is 0 without one.
func header(sub Submit) (reference, total, part int, body []byte) {
	m := sub.Message
	if sub.ESMClass&0x40 == 0 {
		return 0, 0, 1, m
	}
	switch {
	case len(m) >= 6 && m[0] == 5 && m[1] == 0 && m[2] == 3:
		return int(m[3]), int(m[4]), int(m[5]), m[6:]
	case len(m) >= 7 && m[0] == 6 && m[1] == 8 && m[2] == 4:
		return int(m[3])<<8 | int(m[4]), int(m[5]), int(m[6]), m[7:]
	}
	return 0, 0, 1, m
}

func text(sub Submit) string {
	_, _, _, body := header(sub)
	return Text(body, sub.Coding)
}

// alphabet is the table of 3GPP TS 23.038, 6.2.1, one column of 16 a line.
var alphabet = []rune("@£$¥èéùìòÇ\nØø\rÅå" +
	"Δ_ΦΓΛΩΠΨΣΘΞ\x1bÆæßÉ" +
	" !\"#¤%&'()*+,-./" +
	"0123456789:;<=>?" +
	"¡ABCDEFGHIJKLMNO" +
	"PQRSTUVWXYZÄÖÑÜ§" +
	"¿abcdefghijklmno" +
	"pqrstuvwxyzäöñüà")

// Text reads a message as a phone shows it. The default alphabet is GSM's, an octet
// a septet.
func Text(b []byte, coding byte) string {
	var out strings.Builder
	switch coding {
	case 8:
		var u []uint16
		for i := 0; i+1 < len(b); i += 2 {
			u = append(u, uint16(b[i])<<8|uint16(b[i+1]))
		}
		return string(utf16.Decode(u))
	case 3:
		for _, c := range b {
			out.WriteRune(rune(c))
		}
	default:
		for i := 0; i < len(b); i++ {
			if b[i] == 0x1b && i+1 < len(b) {
				i++
				out.WriteString(map[byte]string{0x0a: "\f", 0x14: "^", 0x28: "{", 0x29: "}", 0x2f: "\\", 0x3c: "[", 0x3d: "~", 0x3e: "]", 0x40: "|", 0x65: "€"}[b[i]])
				continue
			}
			out.WriteRune(alphabet[b[i]&0x7f])
		}
	}
	return out.String()
}

func parseSubmit(sequence uint32, b []byte) (s Submit, err error) {
	s.Sequence = sequence
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("cut short")
		}
	}()
	text := func() string {
		i := strings.IndexByte(string(b), 0)
		out := string(b[:i])
		b = b[i+1:]
		return out
	}
	octet := func() byte {
		out := b[0]
		b = b[1:]
		return out
	}
	s.ServiceType = text()
	s.SourceTON, s.SourceNPI, s.Source = octet(), octet(), text()
	s.DestTON, s.DestNPI, s.Dest = octet(), octet(), text()
	s.ESMClass, s.ProtocolID, s.Priority = octet(), octet(), octet()
	s.Schedule, s.Validity = text(), text()
	s.Registered, s.Replace, s.Coding, s.DefaultMsgID = octet(), octet(), octet(), octet()
	n := int(octet())
	s.Message = append([]byte(nil), b[:n]...)
	if len(b) != n {
		return s, fmt.Errorf("%d octets too many", len(b)-n)
	}
	return s, nil
}

// fields reads C-octet strings.
func fields(b []byte, names ...string) map[string]string {
	out := make(map[string]string)
	for _, n := range names {
		v, rest, ok := strings.Cut(string(b), "\x00")
		if !ok {
			return out
		}
		out[n], b = v, []byte(rest)
	}
	return out
}

var commands = map[uint32]string{
	0x00000004: "submit_sm", 0x80000004: "submit_sm_resp", 0x00000005: "deliver_sm", 0x80000005: "deliver_sm_resp",
	0x00000006: "unbind", 0x80000006: "unbind_resp", 0x00000009: "bind_transceiver", 0x80000009: "bind_transceiver_resp",
	0x00000015: "enquire_link", 0x80000015: "enquire_link_resp", 0x80000000: "generic_nack",
}

// Show is a PDU as readable text: the header, the fields of those that have any, and
// all octets.
func Show(mark string, b []byte) string {
	if len(b) < 16 || int(binary.BigEndian.Uint32(b)) != len(b) {
		return fmt.Sprintf("%s%q\n", mark, b)
	}
	var out strings.Builder
	command, status := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	fmt.Fprintf(&out, "%s%s sequence_number=%d", mark, commands[command], binary.BigEndian.Uint32(b[12:]))
	if command&0x80000000 != 0 {
		fmt.Fprintf(&out, " command_status=0x%08X", status)
	}
	switch command {
	case 0x00000009:
		f := fields(b[16:], "system_id", "password", "system_type")
		fmt.Fprintf(&out, " system_id=%q password=%q system_type=%q", f["system_id"], f["password"], f["system_type"])
	case 0x80000004, 0x80000009:
		if v, _, ok := strings.Cut(string(b[16:]), "\x00"); ok && v != "" {
			fmt.Fprintf(&out, " %s=%q", map[uint32]string{0x80000004: "message_id", 0x80000009: "system_id"}[command], v)
		}
	case 0x00000004:
		if s, err := parseSubmit(0, b[16:]); err == nil {
			fmt.Fprintf(&out, "\n%s    source=%d/%d %q dest=%d/%d %q esm_class=0x%02x registered_delivery=%d data_coding=%d", mark, s.SourceTON, s.SourceNPI, s.Source, s.DestTON, s.DestNPI, s.Dest, s.ESMClass, s.Registered, s.Coding)
			fmt.Fprintf(&out, "\n%s    sm_length=%d short_message=%q", mark, len(s.Message), text(s))
		}
	}
	out.WriteString("\n")
	if command != 0x00000009 { // the password stands above once
		for b := b; len(b) > 0; b = b[min(16, len(b)):] {
			fmt.Fprintf(&out, "%s    % x\n", mark, b[:min(16, len(b))])
		}
	}
	return out.String()
}

// Status is the number of a status by its name in the specification, 5.1.3, or as
// 0x and hexadecimal digits.
func Status(name string) uint32 {
	if s, ok := names[name]; ok {
		return s
	}
	b, err := hex.DecodeString(strings.TrimPrefix(name, "0x"))
	if err != nil || len(b) != 4 {
		return 0xff
	}
	return binary.BigEndian.Uint32(b)
}

var names = map[string]uint32{
	"ESME_RINVMSGLEN": 1, "ESME_RINVCMDLEN": 2, "ESME_RINVCMDID": 3, "ESME_RINVBNDSTS": 4, "ESME_RALYBND": 5, "ESME_RINVPRTFLG": 6,
	"ESME_RINVREGDLVFLG": 7, "ESME_RSYSERR": 8, "ESME_RINVSRCADR": 10, "ESME_RINVDSTADR": 11, "ESME_RBINDFAIL": 13, "ESME_RINVPASWD": 14,
	"ESME_RINVSYSID": 15, "ESME_RMSGQFUL": 20, "ESME_RINVSERTYP": 21, "ESME_RINVESMCLASS": 67, "ESME_RSUBMITFAIL": 69, "ESME_RINVSRCTON": 72,
	"ESME_RINVSRCNPI": 73, "ESME_RINVDSTTON": 80, "ESME_RINVDSTNPI": 81, "ESME_RINVSYSTYP": 83, "ESME_RTHROTTLED": 88, "ESME_RINVSCHED": 97,
	"ESME_RINVEXPIRY": 98, "ESME_RX_T_APPN": 100, "ESME_RX_P_APPN": 101, "ESME_RX_R_APPN": 102, "ESME_RINVOPTPARSTREAM": 192,
	"ESME_ROPTPARNOTALLWD": 193, "ESME_RINVPARLEN": 194, "ESME_RMISSINGOPTPARAM": 195, "ESME_RINVOPTPARAMVAL": 196,
	"ESME_RDELIVERYFAILURE": 254, "ESME_RUNKNOWNERR": 255,
}
