// Package smtp is the provider of type smtp: it hands each message to a mail relay
// by SMTP submission (RFC 5321, 6409), with STARTTLS (RFC 3207) or TLS from the
// start (RFC 8314).
//
// A relay has a message when it has the final dot of DATA: what fails before it was
// not received, what fails after it without an answer is unknown. Which of the two
// it is, is seen below TLS: wire.go.
//
// Connections are kept for 30 seconds, as many as the provider's concurrency, and
// each is asked (RSET) before it is used again. One letter has one recipient.
//
// It does not look up MX records or deliver by itself, and does not sign (DKIM):
// relays do. Bounces come by mail: listen.go reads those that somebody posts.
package smtp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	netmail "net/mail"
	"os"
	"strconv"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/hooksecret"
	"github.com/weirhq/weir/processor/provider/letter"
	"github.com/weirhq/weir/schemas"
)

// Type is the adapter.
var Type = provider.Type{Open: Open, Listen: Listen, Check: check, Codes: &codes}

// How the connection is secured.
const (
	tlsStart    = "starttls"
	tlsImplicit = "implicit"
	tlsNone     = "none"
)

var ports = map[string]string{tlsStart: "587", tlsImplicit: "465", tlsNone: "25"}

// Which delivery status notifications a relay is asked for (RFC 3461).
const (
	dsnOn       = "on"       // when it fails
	dsnDelivery = "delivery" // also when it is delivered
	dsnOff      = "off"
)

type relay struct {
	name           string
	dialer         net.Dialer
	host, port     string
	helo           string
	security       string
	username, pass string
	tls            *tls.Config
	dsn            string
	style          *letter.Style
	pool           pool
	now            func() time.Time
}

// settings are all of them: Listen, which reads some, takes the others.
var settings = append([]string{"host", "port", "username", "password", "tls", "insecure", "ca", "helo", "dsn", hooksecret.Setting}, letter.Settings...)

// Open is the factory. docs/provider-smtp.md has the settings.
func Open(p schemas.Provider, deps provider.Deps) (provider.Provider, error) {
	in := deps.Settings(p)
	r := readSettings(in, deps.PublicURL)
	if err := in.Err(); err != nil {
		return nil, err
	}
	return r, nil
}

func check(in *provider.Settings) {
	readSettings(in, "")
	hooksecret.Given(in)
}

func readSettings(in *provider.Settings, publicURL string) *relay {
	r := &relay{
		name: in.Provider.Name, dialer: in.Dialer(), now: time.Now,
		host: in.Required("host", "the relay's name, such as smtp.example.com"), port: in.Written("port", ""),
		username: in.Written("username", ""), pass: in.Written("password", ""),
		security: in.OneOf("tls", tlsStart, tlsImplicit, tlsNone), helo: in.Text("helo", ""), dsn: readDSN(in),
		style: letter.Read(in, publicURL),
	}
	if insecure := in.Flag("insecure", false); r.security == tlsNone && !insecure && !loopback(r.host) && !in.Withheld("host") {
		in.Fail("tls", "none lets everybody on the way read mail and password: it is for a relay on this machine, or say insecure: on")
	}
	if r.port == "" {
		r.port = ports[r.security]
	}
	if n, err := strconv.ParseUint(r.port, 10, 16); err != nil || n == 0 {
		in.Fail("port", "must be 1 to 65535")
	}
	switch {
	case r.username != "" && r.pass == "":
		in.Fail("password", "is missing: a user name needs one")
	case r.username == "" && r.pass != "":
		in.Fail("username", "is missing: a password needs one")
	}
	if r.helo == "" {
		r.helo = hostname()
	}
	if !name(r.helo) {
		in.Fail("helo", "must be the name of this host")
	}
	r.tls = &tls.Config{ServerName: r.host, MinVersion: tls.VersionTLS12}
	if ca := in.Text("ca", ""); ca != "" {
		var err error
		if r.tls.RootCAs, err = x509.SystemCertPool(); err != nil {
			r.tls.RootCAs = x509.NewCertPool()
		}
		if !r.tls.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			in.Fail("ca", "holds no certificate in PEM form")
		}
	}
	in.Others(hooksecret.Setting) // Listen reads it
	r.pool.most = in.Provider.Concurrency
	if r.pool.most <= 0 {
		r.pool.most = schemas.DefaultConcurrency
	}
	return r
}

func readDSN(in *provider.Settings) string {
	switch in.Any("dsn") {
	case nil, true, dsnOn:
		return dsnOn
	case false, dsnOff:
		return dsnOff
	case dsnDelivery:
		return dsnDelivery
	}
	in.Fail("dsn", "must be on, delivery or off")
	return ""
}

// hostname is this host's name.
func hostname() string {
	if h, err := os.Hostname(); err == nil && h != "" {
		return h
	}
	return "localhost"
}

// name reports whether a text may stand after EHLO.
func name(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= 253
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Close closes idle connections.
func (r *relay) Close() error {
	r.pool.close()
	return nil
}

// Send hands over one message.
func (r *relay) Send(ctx context.Context, c *provider.Call) provider.Outcome {
	l, none := r.style.Write(c, r.now())
	if none != nil {
		return *none
	}
	s, err := r.session(ctx)
	if err != nil {
		return unsent(ctx, stageConnect, err)
	}
	keep := false
	defer func() {
		if keep {
			r.pool.put(s)
		} else {
			s.close()
		}
	}()
	return s.send(ctx, r, c, l, &keep)
}

// session is a kept connection that answers, or a new one.
func (r *relay) session(ctx context.Context) (*session, error) {
	for {
		s := r.pool.get()
		if s == nil {
			return r.dial(ctx)
		}
		// Nothing of the message has been said: a connection that is gone costs
		// nothing but another one.
		release := s.until(ctx)
		err := s.c.Reset()
		if release() && err == nil {
			return s, nil
		}
		s.close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// send says the message on a session. keep is set when the session may be used
// again.
func (s *session) send(ctx context.Context, r *relay, c *provider.Call, l *letter.Letter, keep *bool) provider.Outcome {
	release := s.until(ctx)
	defer func() { *keep = release() && *keep }()
	refused := func(at stage, err error) provider.Outcome {
		*keep = answered(err) && replyOf(err) != 421 // RFC 5321, 3.8: it closes
		return unsent(ctx, at, err)
	}
	utf8, _ := s.c.Extension("SMTPUTF8")
	if l.UTF8 && !utf8 {
		*keep = true
		return provider.Outcome{Kind: provider.Permanent, OfRecipient: true, Code: "no_smtputf8", Text: "the relay takes no addresses outside ASCII (RFC 6531)"}
	}
	s.c.SkipSMTPUTF8(!l.UTF8)
	// The library has no words for the parameters of RFC 3461. They may stand in any
	// order, so they go with the address.
	from, to := "<"+l.From+">", "<"+l.To+">"
	if dsn, _ := s.c.Extension("DSN"); dsn && r.dsn != dsnOff {
		from += " RET=HDRS"
		if id := envelopeID(c.Reference()); id != "" {
			from += " ENVID=" + id
		}
		notify := "FAILURE"
		if r.dsn == dsnDelivery {
			notify = "SUCCESS,FAILURE"
		}
		to += " NOTIFY=" + notify
		if !l.UTF8 {
			to += " ORCPT=rfc822;" + xtext(l.To)
		}
	}
	if err := s.c.Mail(from); err != nil {
		return refused(stageMail, err)
	}
	if err := s.c.Rcpt(to); err != nil {
		return refused(stageRcpt, err)
	}
	w, err := s.c.Data()
	if err != nil {
		return refused(stageData, err)
	}
	if _, err := w.Write(l.Bytes); err != nil {
		return unsent(ctx, stageData, err)
	}
	err = w.Close() // the dot, and the relay's answer
	switch {
	case err == nil:
		*keep = true
		return provider.Outcome{Kind: provider.Accepted, ProviderMessageID: l.ID}
	case answered(err):
		if code := replyOf(err); code >= 200 && code <= 299 {
			*keep = true
			return provider.Outcome{Kind: provider.Accepted, ProviderMessageID: l.ID}
		} else if code >= 400 {
			return refused(stageDot, err)
		}
	case s.wire.failed.Load():
		return unsent(ctx, stageData, err)
	case tooLate(ctx, err):
		return provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "timeout", Text: "no answer to the whole message before the deadline"}
	}
	return provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "connection_broken", Text: "no answer to the whole message: " + reason(err)}
}

// maxEnvelopeID is of RFC 3461, 4.4.
const maxEnvelopeID = 100

// envelopeID is the reference as far as it fits; "" where it does not: then the
// Message-Id finds the message. What is left out first is what a receipt can do
// without. Without the recipient the message is looked up.
func envelopeID(ref provider.Reference) string {
	drop := []func(){func() {}, func() { ref.Template = "" }, func() { ref.Class = "" }, func() { ref.To = "" }}
	for _, f := range drop {
		f()
		if id := ref.String(); len(id) <= maxEnvelopeID {
			return id
		}
	}
	return ""
}

// xtext is RFC 3461, 4.
func xtext(s string) string {
	var b []byte
	for i := range len(s) {
		if c := s[i]; c < '!' || c > '~' || c == '+' || c == '=' {
			b = fmt.Appendf(b, "+%02X", c)
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

// address parses what may be one.
func address(s string) string {
	a, err := netmail.ParseAddress(s)
	if err != nil {
		return ""
	}
	return a.Address
}
