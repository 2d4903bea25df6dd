package smtp_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/providertest"
	"github.com/weirhq/weir/processor/provider/smtp"
	"github.com/weirhq/weir/processor/provider/smtp/smtptest"
	"github.com/weirhq/weir/schemas"
)

var call = provider.Call{
	ID: "0193f1a0-0000-7000-8000-000000000001", Attempt: 2, To: "zoe@example.com", From: "Wéir <news@weir.example>", ReplyTo: "help@weir.example",
	Channel: schemas.ChannelEmail, Tenant: "acme", Class: "verify",
	Content: content.Content{Subject: "Dein Code 🙂 ist da", Body: "Grüße\n.\n.punkt\n", HTML: "<p>Grüße</p>"},
}

func open(t *testing.T, settings map[string]any) provider.Provider {
	t.Helper()
	p, err := provider.Types{"smtp": smtp.Type}.Open(schemas.Provider{Name: "mail", Type: "smtp", Concurrency: 4, Settings: settings}, provider.Deps{Private: outbound.Loopback, Getenv: smtptest.Getenv, PublicURL: "https://weir.example"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func with(s map[string]any, more map[string]any) map[string]any {
	for k, v := range more {
		if v == nil {
			delete(s, k)
		} else {
			s[k] = v
		}
	}
	return s
}

func send(t *testing.T, p provider.Provider, c provider.Call, timeout time.Duration) provider.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return p.Send(ctx, &c)
}

// TestALetterArrives as it was asked for, in each way to be secured.
func TestALetterArrives(t *testing.T) {
	for _, tt := range []struct {
		name   string
		server *smtptest.Server
	}{{"STARTTLS", &smtptest.Server{}}, {"TLS from the start", &smtptest.Server{Implicit: true}}, {"none, on loopback", &smtptest.Server{Plain: true}}} {
		t.Run(tt.name, func(t *testing.T) {
			srv := tt.server.Start(t)
			p := open(t, with(srv.Settings(), map[string]any{
				"return_path": "bounces@weir.example", "helo": "weir.example",
				"list_unsubscribe": []any{"https://example.com/u?m={{id}}&to={{to}}", "mailto:stop@weir.example?subject={{id}}"},
			}))
			o := send(t, p, call, time.Minute)
			if diff := cmp.Diff(provider.Outcome{Kind: provider.Accepted, ProviderMessageID: call.ID + "@weir.example"}, o); diff != "" {
				t.Fatal(diff)
			}
			m := srv.Mails()[0]
			if m.From != "bounces@weir.example" || m.To != call.To || m.UTF8 || m.ORCPT != call.To || len(m.Notify) != 1 || m.Notify[0] != "FAILURE" {
				t.Errorf("%+v", m)
			}
			if ref, err := provider.ParseReference(m.EnvelopeID); err != nil || ref != call.Reference() {
				t.Errorf("%v, %+v", err, ref)
			}
			want := map[string]string{
				"From": "=?utf-8?q?W=C3=A9ir?= <news@weir.example>", "To": "<zoe@example.com>", "Reply-To": "<help@weir.example>",
				"Message-Id": "<" + call.ID + "@weir.example>", "Auto-Submitted": "auto-generated", "Mime-Version": "1.0",
				"List-Unsubscribe":      "<https://example.com/u?m=" + call.ID + "&to=zoe%40example.com>, <mailto:stop@weir.example?subject=" + call.ID + ">",
				"List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
			}
			for k, v := range want {
				if got := m.Header.Get(k); got != v {
					t.Errorf("%s: %s, want %s", k, got, v)
				}
			}
			if at, err := m.Header.Date(); err != nil || time.Since(at) > time.Minute {
				t.Error(err, at)
			}
			if m.Text != "Grüße\r\n.\r\n.punkt\r\n" || m.HTML != "<p>Grüße</p>" {
				t.Errorf("%q %q", m.Text, m.HTML)
			}
			if got := srv.Received(); got != nil {
				t.Error(got)
			}
		})
	}
}

// TestWhatARelayRefuses, and whose it is: before the recipient is named nothing is
// the recipient's.
func TestWhatARelayRefuses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		server *smtptest.Server
		set    map[string]any
		does   providertest.Behaviour
		call   func(*provider.Call)
		want   provider.Outcome
	}{
		{"an unknown mailbox at RCPT", &smtptest.Server{RefuseRcpt: "550 5.1.1 <zoe@example.com>: no such user"}, nil, providertest.Behaviour{}, nil,
			provider.Outcome{Kind: provider.Permanent, OfRecipient: true, Suppress: schemas.SuppressHardBounce, Code: "5.1.1", Text: "the mailbox does not exist"}},
		{"550 without more may be said to everybody", &smtptest.Server{RefuseRcpt: "550 relaying denied for zoe@example.com"}, nil, providertest.Behaviour{}, nil,
			provider.Outcome{Kind: provider.Permanent, OfRecipient: true, Code: "550", Text: "the mailbox is not available: not found, no access, or policy"}},
		{"a full mailbox", &smtptest.Server{RefuseRcpt: "552 5.2.2 full"}, nil, providertest.Behaviour{}, nil,
			provider.Outcome{Kind: provider.Permanent, OfRecipient: true, Code: "5.2.2", Text: "the mailbox is full"}},
		{"greylisting", &smtptest.Server{RefuseRcpt: "450 4.7.1 try again"}, nil, providertest.Behaviour{}, nil,
			provider.Outcome{Kind: provider.Throttled, Code: "4.7.1", Text: "not now, by policy: too fast, or greylisted"}},
		{"the sender at MAIL, under a code of recipients", &smtptest.Server{RefuseMail: "550 5.1.1 who are you"}, nil, providertest.Behaviour{}, nil,
			provider.Outcome{Kind: provider.Permanent, Code: "5.1.1", Text: "the mailbox does not exist"}},
		{"a code that contradicts its digits", &smtptest.Server{RefuseRcpt: "450 5.1.1 hm"}, nil, providertest.Behaviour{}, nil,
			provider.Outcome{Kind: provider.Transient, OfRecipient: true, Code: "450", Text: "the mailbox is busy, or blocked for now"}},
		{"a subject that nobody has defined", &smtptest.Server{RefuseRcpt: "554 5.9.9 hm"}, nil, providertest.Behaviour{}, nil,
			provider.Outcome{Kind: provider.Permanent, Code: "554", Text: "the transaction failed"}},
		{"policy after the dot", &smtptest.Server{}, nil, providertest.Behaviour{Code: "5.7.1"}, nil,
			provider.Outcome{Kind: provider.Permanent, Code: "5.7.1", Text: "refused by policy: sender, content or relaying is not allowed"}},
		{"the greeting", &smtptest.Server{Greeting: "554 5.7.1 your address is on a list"}, nil, providertest.Behaviour{}, nil,
			provider.Outcome{Kind: provider.Transient, Code: "5.7.1", Text: "refused by policy: sender, content or relaying is not allowed"}},
		{"too many connections", &smtptest.Server{Greeting: "421 too many"}, nil, providertest.Behaviour{}, nil,
			provider.Outcome{Kind: provider.Throttled, OfProvider: true, Code: "421", Text: "the relay closes the connection: shutting down, or too many"}},
		{"a wrong password", &smtptest.Server{}, map[string]any{"password": "wrong"}, providertest.Behaviour{}, nil,
			provider.Outcome{Kind: provider.Transient, Code: "5.7.8", Text: "the user name or password is wrong"}},
		{"no STARTTLS where it is demanded", &smtptest.Server{Plain: true}, map[string]any{"tls": "starttls"}, providertest.Behaviour{}, nil,
			provider.Outcome{Kind: provider.Transient, Code: "no_tls", Text: "the relay offers no STARTTLS, and without it nothing is sent (settings.tls)"}},
		{"an address outside ASCII, and no SMTPUTF8", &smtptest.Server{NoUTF8: true}, nil, providertest.Behaviour{}, func(c *provider.Call) { c.To = "zoë@example.com" },
			provider.Outcome{Kind: provider.Permanent, OfRecipient: true, Code: "no_smtputf8", Text: "the relay takes no addresses outside ASCII (RFC 6531)"}},
		{"a sender that is none", &smtptest.Server{}, nil, providertest.Behaviour{}, func(c *provider.Call) { c.From = "a@b@c" },
			provider.Outcome{Kind: provider.Permanent, Code: "bad_from", Text: "from is no address"}},
		{"a recipient that would end the command", &smtptest.Server{}, nil, providertest.Behaviour{}, func(c *provider.Call) { c.To = "a@b.example>\r\nRCPT TO:<c@d.example" },
			provider.Outcome{Kind: provider.Permanent, OfRecipient: true, Code: "bad_recipient", Text: "the recipient is no address"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := tt.server.Start(t)
			p := open(t, with(srv.Settings(), tt.set))
			srv.Do(tt.does)
			c := call
			if tt.call != nil {
				tt.call(&c)
			}
			if diff := cmp.Diff(tt.want, send(t, p, c, time.Minute)); diff != "" {
				t.Error(diff)
			}
			if len(srv.Mails()) != 0 {
				t.Error("it was taken")
			}
		})
	}
}

// TestACertificateThatNobodyTrusts ends it before the password is said.
func TestACertificateThatNobodyTrusts(t *testing.T) {
	for _, implicit := range []bool{false, true} {
		srv := (&smtptest.Server{Implicit: implicit}).Start(t)
		p := open(t, with(srv.Settings(), map[string]any{"ca": nil}))
		o := send(t, p, call, time.Minute)
		if o.Kind != provider.Transient || o.MayBeReceived || !strings.Contains(o.Text, "certificate") {
			t.Errorf("%+v", o)
		}
		if w := srv.Wire(); strings.Contains(w, "AUTH PLAIN ") {
			t.Error(w)
		}
	}
}

// TestSMTPUTF8 is asked for where an address needs it, and not else.
func TestSMTPUTF8(t *testing.T) {
	srv := (&smtptest.Server{}).Start(t)
	p := open(t, srv.Settings())
	c := call
	c.To = "zoë@xn--bcher-kva.example"
	if o := send(t, p, c, time.Minute); o.Kind != provider.Accepted {
		t.Fatalf("%+v", o)
	}
	if m := srv.Mails()[0]; !m.UTF8 || m.To != c.To {
		t.Errorf("%+v", m)
	}
}

// TestConnectionsAreUsedAgain, no more of them than the concurrency are kept, and
// one that has gone costs nothing.
func TestConnectionsAreUsedAgain(t *testing.T) {
	srv := (&smtptest.Server{}).Start(t)
	p := open(t, srv.Settings())
	for range 5 {
		if o := send(t, p, call, time.Minute); o.Kind != provider.Accepted {
			t.Fatalf("%+v", o)
		}
	}
	if n := srv.Sessions(); n != 1 { // go-smtp begins another session at STARTTLS
		t.Logf("%d sessions", n)
	}
	before := srv.Sessions()
	send(t, p, call, time.Minute)
	if n := srv.Sessions(); n != before {
		t.Errorf("%d sessions, and %d after another call", before, n)
	}
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() { send(t, p, call, time.Minute) })
	}
	wg.Wait()
	if n := len(srv.Mails()); n != 18 {
		t.Errorf("%d letters", n)
	}
}

// TestAConnectionIsKept over a refusal, and one that has gone costs nothing.
func TestAConnectionIsKept(t *testing.T) {
	srv := (&smtptest.Server{}).Start(t)
	p := open(t, srv.Settings())
	send(t, p, call, time.Minute)
	before := srv.Sessions()
	srv.Do(providertest.Behaviour{Code: "5.1.1"})
	send(t, p, call, time.Minute)
	srv.Do(providertest.Behaviour{})
	send(t, p, call, time.Minute)
	if n := srv.Sessions(); n != before {
		t.Errorf("a refusal cost a connection: %d, %d", before, n)
	}
	srv.Drop()
	if o := send(t, p, call, time.Minute); o.Kind != provider.Accepted {
		t.Errorf("%+v", o)
	}
	if n := srv.Sessions(); n == before {
		t.Error("it was not closed")
	}
}

// TestBeforeTheDot nothing is received, whatever happens.
func TestBeforeTheDot(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	settings := map[string]any{"host": "127.0.0.1", "port": port, "tls": "none", "from": "a@b.example"}
	for _, tt := range []struct {
		name  string
		says  []string // answers, one to each line; then it hangs
		close bool
		kind  provider.Kind
		may   bool
	}{
		{"it greets nobody", nil, false, provider.Transient, false},
		{"it closes at once", nil, true, provider.Transient, false},
		{"garbage for a greeting", []string{"hello"}, true, provider.Transient, false},
		{"it hangs at EHLO", []string{"220 x"}, false, provider.Transient, false},
		{"it hangs at MAIL", []string{"220 x", "250 x"}, false, provider.Transient, false},
		{"it hangs at RCPT", []string{"220 x", "250 x", "250 x"}, false, provider.Transient, false},
		{"it closes at RCPT", []string{"220 x", "250 x", "250 x"}, true, provider.Transient, false},
		{"it hangs at DATA", []string{"220 x", "250 x", "250 x", "250 x"}, false, provider.Transient, false},
		{"it hangs after the dot", []string{"220 x", "250 x", "250 x", "250 x", "354 x"}, false, provider.Unknown, true},
		{"an answer of 3xx to the dot", []string{"220 x", "250 x", "250 x", "250 x", "354 x", "354 x"}, false, provider.Unknown, true},
		{"an answer of 251 to the dot", []string{"220 x", "250 x", "250 x", "250 x", "354 x", "251 x"}, false, provider.Accepted, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				buf := make([]byte, 64<<10)
				for i, line := range tt.says {
					if i == 5 { // the message: read to the dot
						for all := ""; !strings.HasSuffix(all, "\r\n.\r\n"); {
							n, err := c.Read(buf)
							if all += string(buf[:n]); err != nil {
								return
							}
						}
					} else if i > 0 {
						if _, err := c.Read(buf); err != nil {
							return
						}
					}
					fmt.Fprintf(c, "%s\r\n", line)
				}
				if tt.close {
					return
				}
				for err == nil { // until the other end closes
					_, err = c.Read(buf)
				}
			}()
			p := open(t, with(map[string]any{}, settings))
			within := 150 * time.Millisecond
			if tt.kind != provider.Transient { // it must come as far as the dot
				within = 5 * time.Second
			}
			o := send(t, p, call, within)
			if o.Kind != tt.kind || o.MayBeReceived != tt.may {
				t.Errorf("%+v", o)
			}
			p.Close()
			<-done
		})
	}
}

// TestAWriteThatFails on the way to the dot: it was not received.
func TestAWriteThatFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		buf := make([]byte, 1<<10)
		for i, line := range []string{"220 x", "250 x", "250 x", "250 x", "354 x"} {
			if i > 0 {
				if _, err := c.Read(buf); err != nil {
					return
				}
			}
			fmt.Fprintf(c, "%s\r\n", line)
		}
		<-t.Context().Done() // reads nothing more
	}()
	p := open(t, map[string]any{"host": "127.0.0.1", "port": port, "tls": "none", "from": "a@b.example"})
	c := call
	c.Content.Body = strings.Repeat("x", 16<<20) // more than any buffer of the system's
	o := send(t, p, c, 10*time.Second)           // the letter is made within it, too
	if o.Kind != provider.Transient || o.MayBeReceived || o.Code != "not_written" {
		t.Errorf("%+v", o)
	}
}

// TestSettings that are wrong are refused by name.
func TestSettings(t *testing.T) {
	good := func(more map[string]any) map[string]any {
		return with(map[string]any{"host": "smtp.example.com", "from": "a@b.example"}, more)
	}
	for _, tt := range []struct {
		name string
		set  map[string]any
		want string // part of the error; empty is none
	}{
		{"the least", good(nil), ""},
		{"no host", good(map[string]any{"host": nil}), "settings.host"},
		{"no from", good(map[string]any{"from": nil}), "settings.from"},
		{"a port that is none", good(map[string]any{"port": 70000}), "settings.port"},
		{"a port as JSON has it", good(map[string]any{"port": 2525.0}), ""},
		{"plain text across the network", good(map[string]any{"tls": "none"}), "insecure"},
		{"plain text, as it was said", good(map[string]any{"tls": "none", "insecure": "on"}), ""},
		{"plain text on this machine", good(map[string]any{"tls": "none", "host": "::1"}), ""},
		{"no such security", good(map[string]any{"tls": "maybe"}), "settings.tls"},
		{"a user without a password", good(map[string]any{"username": "a"}), "settings.password"},
		{"a secret that is not there", good(map[string]any{"username": "a", "password": "${NO_SUCH}"}), "NO_SUCH"},
		{"a CA that is none", good(map[string]any{"ca": "hello"}), "settings.ca"},
		{"dsn as YAML 1.1 has it", good(map[string]any{"dsn": false}), ""},
		{"no such dsn", good(map[string]any{"dsn": "sometimes"}), "settings.dsn"},
		{"a helo with a line break", good(map[string]any{"helo": "a\r\nMAIL"}), "settings.helo"},
		{"http to unsubscribe", good(map[string]any{"list_unsubscribe": "http://example.com/"}), "settings.list_unsubscribe"},
		{"a bracket in the address to unsubscribe", good(map[string]any{"list_unsubscribe": "https://example.com/>,<https://evil.example"}), "settings.list_unsubscribe"},
		{"a setting that nobody knows", good(map[string]any{"hosts": "x"}), "hosts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := provider.Types{"smtp": smtp.Type}.Open(schemas.Provider{Name: "mail", Type: "smtp", Settings: tt.set}, provider.Deps{Private: outbound.Loopback})
			if err == nil {
				p.Close()
			}
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestEveryCode of the table is of a row by its own rules.
func TestCodesHaveSources(t *testing.T) {
	if len(smtp.Type.Codes.Sources) < 3 {
		t.Error("without sources")
	}
	for _, row := range slices.Concat(smtp.Type.Codes.Send, smtp.Type.Codes.Receipt) {
		if row.Means == "" {
			t.Errorf("%s means nothing", row.Code)
		}
	}
}

// TestNoListener without a secret.
func TestNoListener(t *testing.T) {
	_, err := provider.Types{"smtp": smtp.Type}.Listen(schemas.Provider{Name: "mail", Type: "smtp", Settings: map[string]any{"host": "h", "from": "a@b.example"}}, provider.Deps{Private: outbound.Loopback})
	if !errors.Is(err, provider.ErrNoListener) {
		t.Error(err)
	}
}
