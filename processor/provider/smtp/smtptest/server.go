// Package smtptest is a mail relay on loopback for tests: emersion/go-smtp, with
// STARTTLS or TLS from the start under an authority of its own, a login, DSN and
// SMTPUTF8. It parses what arrives as a mail program would.
package smtptest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/weirhq/weir/processor/provider/providertest"
)

// Who may log in.
const (
	Username = "weir"
	Password = "correct horse battery"
)

// Server is a relay. Its fields are set before Start.
type Server struct {
	Implicit, Plain bool   // TLS from the start, or none
	NoDSN, NoUTF8   bool   // extensions that it lacks
	Greeting        string // instead of its own, after which it closes
	RefuseMail      string // answer to MAIL: "553 5.1.8 …"
	RefuseRcpt      string

	CA string // the certificate of its authority, in PEM form

	srv      *smtp.Server
	listener net.Listener
	end      chan struct{}

	mu       sync.Mutex
	does     providertest.Behaviour
	calls    int
	sessions int
	conns    []*smtp.Conn
	took     []Mail
	wire     bytes.Buffer
}

// Mail is what it took.
type Mail struct {
	From, To   string // of the envelope
	EnvelopeID string
	Notify     []smtp.DSNNotify
	ORCPT      string
	UTF8       bool
	Header     netmail.Header
	Text, HTML string
	Raw        []byte
}

// Start starts the server. It ends with the test.
func (s *Server) Start(t providertest.T) *Server {
	t.Helper()
	cert, ca := certificate(t)
	s.CA, s.end = ca, make(chan struct{})
	s.srv = smtp.NewServer(smtp.BackendFunc(s.session))
	s.srv.Domain, s.srv.EnableDSN, s.srv.EnableSMTPUTF8 = "relay.weir.example", !s.NoDSN, !s.NoUTF8
	s.srv.AllowInsecureAuth = s.Plain
	s.srv.ErrorLog = log.New(io.Discard, "", 0)
	s.srv.Debug = (*wire)(s)
	if !s.Plain {
		s.srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}}
	}
	var err error
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	l := s.listener
	if s.Implicit {
		l = tls.NewListener(l, s.srv.TLSConfig)
	}
	if s.Greeting != "" {
		l = refusing{l, s.Greeting}
	}
	go func() { _ = s.srv.Serve(l) }()
	t.Cleanup(func() {
		close(s.end)
		s.srv.Close()
	})
	return s
}

// refusing greets with something else and closes.
type refusing struct {
	net.Listener
	greeting string
}

func (r refusing) Accept() (net.Conn, error) {
	for {
		c, err := r.Listener.Accept()
		if err != nil {
			return nil, err
		}
		_, _ = io.WriteString(c, r.greeting+"\r\n")
		c.Close()
	}
}

// Endpoint is host:port.
func (s *Server) Endpoint() string { return s.listener.Addr().String() }

// Settings are those of a provider that sends to it.
func (s *Server) Settings() map[string]any {
	out := SettingsFor(s.Endpoint(), s.CA)
	if s.Implicit {
		out["tls"] = "implicit"
	} else if s.Plain {
		out["tls"] = "none"
	}
	return out
}

// SettingsFor are those for a server with STARTTLS.
func SettingsFor(endpoint, ca string) map[string]any {
	host, port, _ := net.SplitHostPort(endpoint)
	return map[string]any{"host": host, "port": port, "tls": "starttls", "ca": ca, "username": Username, "password": "${SMTP_PASSWORD}", "from": "weir@weir.example"}
}

var login = regexp.MustCompile(`(?m)^AUTH PLAIN .*$`)

// Stable replaces what differs from run to run in Wire.
func Stable(wire string) string {
	return login.ReplaceAllLiteralString(wire, "AUTH PLAIN (base64 of user and ${SMTP_PASSWORD})")
}

// Do says how the calls to come are answered.
func (s *Server) Do(b providertest.Behaviour) {
	s.mu.Lock()
	s.does = b
	s.mu.Unlock()
	if b.Closed {
		s.listener.Close()
		s.srv.Close()
	}
}

// Mails returns what it took, and clears it.
func (s *Server) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.took
	s.took = nil
	return out
}

// Received is Mails as the contract has them.
func (s *Server) Received() (out []providertest.Message) {
	word := func(v string) string {
		text, err := new(mime.WordDecoder).DecodeHeader(v)
		if err != nil {
			return v
		}
		return text
	}
	address := func(v string) string {
		a, err := netmail.ParseAddress(v)
		if err != nil {
			return ""
		}
		return a.Address
	}
	for _, m := range s.Mails() {
		out = append(out, providertest.Message{
			To: m.To, From: address(m.Header.Get("From")), ReplyTo: address(m.Header.Get("Reply-To")),
			Reference: m.EnvelopeID, Key: m.Header.Get("Message-Id"), Subject: word(m.Header.Get("Subject")), Body: m.Text, HTML: m.HTML,
		})
	}
	return out
}

// Calls counts MAIL commands.
func (s *Server) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// Sessions counts connections.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions
}

var answer = regexp.MustCompile(`(?:^|\n)[0-9]{3} [^\n]*\n$`)

// Drop closes every connection, as a relay does with idle ones.
func (s *Server) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Close()
	}
	s.conns = nil
}

// Wire returns what was said, above TLS. An answer reaches the client before it is
// noted here, so that the last one is waited for.
func (s *Server) Wire() string {
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		s.mu.Lock()
		over := s.wire.Len() == 0 || answer.Match(s.wire.Bytes())
		s.mu.Unlock()
		if over {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.wire.String()
	s.wire.Reset()
	return out
}

type wire Server

func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wire.Write(b)
}

func (s *Server) session(c *smtp.Conn) (smtp.Session, error) {
	s.mu.Lock()
	s.sessions++
	s.conns = append(s.conns, c)
	s.mu.Unlock()
	return &session{server: s, conn: c}, nil
}

type session struct {
	server *Server
	conn   *smtp.Conn
	in     bool // logged in
	mail   Mail
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, username, password string) error {
		s.server.mu.Lock()
		forbidden := s.server.does.Forbidden
		s.server.mu.Unlock()
		if forbidden || username != Username || password != Password {
			return smtp.ErrAuthFailed
		}
		s.in = true
		return nil
	}), nil
}

func (s *session) Reset()        { s.mail = Mail{} }
func (s *session) Logout() error { return nil }

// reply makes an error of an answer as it goes over the wire.
func reply(text string) error {
	digits, text, _ := strings.Cut(text, " ")
	code, err := strconv.Atoi(digits)
	if err != nil {
		return err
	}
	return &smtp.SMTPError{Code: code, EnhancedCode: smtp.NoEnhancedCode, Message: text}
}

func (s *session) Mail(from string, opts *smtp.MailOptions) error {
	s.server.mu.Lock()
	s.server.calls++
	s.server.mu.Unlock()
	if !s.in {
		return smtp.ErrAuthRequired
	}
	if s.server.RefuseMail != "" {
		return reply(s.server.RefuseMail)
	}
	s.mail = Mail{From: from, EnvelopeID: opts.EnvelopeID, UTF8: opts.UTF8}
	return nil
}

func (s *session) Rcpt(to string, opts *smtp.RcptOptions) error {
	if s.server.RefuseRcpt != "" {
		return reply(s.server.RefuseRcpt)
	}
	s.mail.To, s.mail.Notify, s.mail.ORCPT = to, opts.Notify, opts.OriginalRecipient
	return nil
}

func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.server.mu.Lock()
	b := s.server.does
	s.server.mu.Unlock()
	m := s.mail
	m.Raw = raw
	if err := m.read(); err != nil {
		return reply("554 5.6.0 " + err.Error())
	}
	told := m.To + " " + strings.Join(strings.Fields(m.Text), " ")
	switch {
	case b.Hang:
		<-s.server.end
		return errors.New("the test is over")
	case b.Break:
		s.conn.Conn().Close()
		return errors.New("broken")
	case b.Garbage:
		_, _ = s.conn.Conn().Write([]byte("<html>\x00\xff not SMTP</html>\r\n"))
		s.conn.Conn().Close()
		return errors.New("garbage")
	case b.Throttle != 0:
		return reply("450 4.7.1 too fast for " + told)
	case strings.Contains(b.Code, "."):
		return reply(b.Code[:1] + "50 " + b.Code + " not " + told)
	case b.Code != "":
		return reply(b.Code + " not " + told)
	}
	s.server.mu.Lock()
	s.server.took = append(s.server.took, m)
	s.server.mu.Unlock()
	return nil
}

// read parses a message as a mail program does.
func (m *Mail) read() error {
	msg, err := netmail.ReadMessage(bytes.NewReader(m.Raw))
	if err != nil {
		return err
	}
	m.Header = msg.Header
	kind, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	if kind != "multipart/alternative" {
		return m.part(kind, msg.Header.Get("Content-Transfer-Encoding"), msg.Body)
	}
	parts := multipart.NewReader(msg.Body, params["boundary"])
	for {
		p, err := parts.NextRawPart()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		kind, _, err := mime.ParseMediaType(p.Header.Get("Content-Type"))
		if err != nil {
			return err
		}
		if err := m.part(kind, p.Header.Get("Content-Transfer-Encoding"), p); err != nil {
			return err
		}
	}
}

func (m *Mail) part(kind, encoding string, r io.Reader) error {
	switch encoding {
	case "quoted-printable":
		r = quotedprintable.NewReader(r)
	case "base64":
		r = base64.NewDecoder(base64.StdEncoding, r)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	switch kind {
	case "text/plain":
		m.Text = string(b)
	case "text/html":
		m.HTML = string(b)
	default:
		return errors.New("a part of type " + kind)
	}
	return nil
}

// Read parses a raw message.
func Read(raw []byte) (Mail, error) {
	m := Mail{Raw: raw}
	return m, m.read()
}

// Getenv has the password.
func Getenv(name string) string { return map[string]string{"SMTP_PASSWORD": Password}[name] }

// certificate makes an authority and a certificate of it for loopback.
func certificate(t providertest.T) (tls.Certificate, string) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test's authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	must(err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "relay"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	must(err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}))
}
