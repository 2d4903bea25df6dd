package http_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/weirhq/weir/processor/provider"
	httpprovider "github.com/weirhq/weir/processor/provider/http"
)

// The deadlines of calls: one that the server keeps within, and one that it
// makes pass.
const (
	ample = time.Minute
	short = 1500 * time.Millisecond
)

// row is a line of the first table of docs/outcomes.md.
type row struct{ what, outcome, received, code string }

// table reads the lines of a table of a page, the cells without code marks. The
// table is the one whose head begins with the name given.
func table(t *testing.T, page, head string) [][]string {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	in := false
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			in = false
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case cells[0] == head:
			in = true
		case in && !strings.HasPrefix(cells[0], "---"):
			rows = append(rows, cells)
		}
	}
	return rows
}

func documented(t *testing.T) map[string]row {
	rows := make(map[string]row)
	for _, c := range table(t, "../../../docs/outcomes.md", "what the provider did") {
		if strings.HasPrefix(c[0], "**") {
			continue
		}
		if len(c) != 4 || rows[c[0]].what != "" {
			t.Fatalf("a row with %d cells, or a second one: %v", len(c), c)
		}
		rows[c[0]] = row{c[0], c[1], c[2], c[3]}
	}
	if len(rows) < 35 {
		t.Fatalf("%d rows found", len(rows))
	}
	return rows
}

// said is an outcome in the words of the page.
func said(what string, o provider.Outcome) row {
	r := row{what: what, outcome: string(o.Kind), received: "no", code: o.Code}
	switch {
	case o.Kind == provider.Accepted:
		r.received = ""
	case o.MayBeReceived:
		r.received = "perhaps"
	}
	return r
}

var hundreds = regexp.MustCompile(`^http_([1-5])xx$`)

// TestTheTableOfOutcomes makes a server do everything that docs/outcomes.md has a
// row for, and compares what came of it.
func TestTheTableOfOutcomes(t *testing.T) {
	rows := documented(t)
	tried := make(map[string]bool)
	for _, tt := range behaviours {
		tried[tt.what] = true
		t.Run(tt.what+tt.sub, func(t *testing.T) {
			t.Parallel() // most of it is waiting for deadlines
			want, ok := rows[tt.what]
			if !ok {
				t.Fatal("docs/outcomes.md has no such row")
			}
			began := time.Now()
			o := tt.play(t)
			if class := hundreds.FindStringSubmatch(want.code); class != nil && strings.HasPrefix(o.Code, "http_"+class[1]) {
				want.code = o.Code
			}
			if got := said(tt.what, o); got != want {
				t.Errorf("\n got %+v %q\nwant %+v", got, o.Text, want)
			}
			if o.ProviderMessageID != tt.id {
				t.Errorf("the provider's id is %q, want %q", o.ProviderMessageID, tt.id)
			}
			if took := time.Since(began); took > 30*time.Second { // half of ample
				t.Errorf("took %s", took)
			}
			if leaks(o) {
				t.Errorf("a secret or a recipient is told: %+v", o)
			}
		})
	}
	for what := range rows {
		if !tried[what] {
			t.Errorf("nothing makes a provider do this: %s", what)
		}
	}
}

// secret stands in the address and in a header of every call here, and in what
// servers answer.
const secret = "hunter2-s3cret"

// leaks reports whether an outcome tells what it must not.
func leaks(o provider.Outcome) bool {
	for _, s := range []string{secret, "13800000000", call.Content.Body} {
		if strings.Contains(o.Code+o.Text, s) {
			return true
		}
	}
	return false
}

type behaviour struct {
	what string
	sub  string
	id   string
	play func(t *testing.T) provider.Outcome
}

// at makes a call to an address.
func at(t *testing.T, address string, deadline time.Duration, more map[string]any) provider.Outcome {
	t.Helper()
	return send(t, openAt(t, address, more), deadline)
}

func openAt(t *testing.T, address string, more map[string]any) provider.Provider {
	settings := map[string]any{"url": address + "/send?key=" + secret, "headers": map[string]any{"Authorization": "Bearer " + secret}}
	for k, v := range more {
		settings[k] = v
	}
	return open(t, settings)
}

// after answers a call by fn, once it has read the whole request.
func after(deadline time.Duration, fn func(c net.Conn)) func(*testing.T) provider.Outcome {
	return func(t *testing.T) provider.Outcome {
		return at(t, raw(t, func(c net.Conn, _ int) {
			if readRequest(bufio.NewReader(c)) == nil {
				fn(c)
			}
		}), deadline, nil)
	}
}

// says answers a call with these bytes and closes.
func says(text string) func(*testing.T) provider.Outcome {
	return after(ample, func(c net.Conn) {
		fmt.Fprint(c, text)
		c.Close()
	})
}

func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// statuses makes one behaviour a status.
func statuses(what string, header string, status ...int) []behaviour {
	var out []behaviour
	for _, s := range status {
		out = append(out, behaviour{what: what, sub: fmt.Sprintf(" (%d)", s), play: says(fmt.Sprintf("HTTP/1.1 %d X\r\n%sContent-Length: 0\r\n\r\n", s, header))})
	}
	return out
}

// big is a call that no socket's buffers hold.
func big(t *testing.T, p provider.Provider, deadline time.Duration) provider.Outcome {
	c := call
	c.Content.Body = strings.Repeat("x", 8<<20)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	return p.Send(ctx, &c)
}

// overTLS is a TLS server, and an adapter that trusts it as far as trust says.
func overTLS(trust bool, name string) func(t *testing.T) provider.Outcome {
	return func(t *testing.T) provider.Outcome {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was asked") }))
		srv.Config.ErrorLog = log.New(io.Discard, "", 0)
		srv.StartTLS()
		defer srv.Close()
		address := srv.URL
		if name != "" {
			address = strings.Replace(address, "127.0.0.1", name, 1)
		}
		p := openAt(t, address, nil)
		if trust {
			roots := x509.NewCertPool()
			roots.AddCert(srv.Certificate())
			httpprovider.Trust(p, roots)
		}
		return send(t, p, ample)
	}
}

// asking is an adapter whose name server is answer; nil says nothing.
func asking(deadline time.Duration, answer func(dnsmessage.Header, dnsmessage.Question) ([]byte, error)) func(t *testing.T) provider.Outcome {
	return func(t *testing.T) provider.Outcome {
		udp, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { udp.Close() })
		go func() {
			b := make([]byte, 1500)
			for {
				n, from, err := udp.ReadFrom(b)
				if err != nil {
					return
				}
				var p dnsmessage.Parser
				h, err := p.Start(b[:n])
				if err != nil || answer == nil {
					continue
				}
				q, err := p.Question()
				if err != nil {
					continue
				}
				if out, err := answer(h, q); err == nil {
					_, _ = udp.WriteTo(out, from)
				}
			}
		}()
		p := openAt(t, "http://nobody.example.", nil)
		httpprovider.Ask(p, &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "udp", udp.LocalAddr().String())
		}})
		return send(t, p, deadline)
	}
}

func noSuchName(h dnsmessage.Header, q dnsmessage.Question) ([]byte, error) {
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: h.ID, Response: true, RCode: dnsmessage.RCodeNameError})
	if err := b.StartQuestions(); err != nil {
		return nil, err
	}
	if err := b.Question(q); err != nil {
		return nil, err
	}
	return b.Finish()
}

// drip writes text, and then one byte after another until the other end goes.
func drip(text string) func(net.Conn) {
	return func(c net.Conn) {
		fmt.Fprint(c, text)
		for range time.Tick(short / 10) {
			if _, err := c.Write([]byte("x")); err != nil {
				return
			}
		}
	}
}

func flood(c net.Conn, head, again string) {
	fmt.Fprint(c, head)
	b := []byte(again)
	for range 10 << 20 / len(b) {
		if _, err := c.Write(b); err != nil {
			return
		}
	}
	c.Close()
}

func zipped() string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(make([]byte, 10<<20))
	z.Close()
	return b.String()
}

// errorsInside is a map for answers that say what came of it in their body.
var errorsInside = map[string]any{"map": map[string]any{"2xx": map[string]any{
	"field": "result.code",
	"values": map[string]any{
		"OK": "accepted", "0": "accepted", "true": "accepted",
		"LIMITED":     "throttled",
		"BAD_NUMBER":  map[string]any{"outcome": "permanent", "may_be_received": false},
		"HANDSET_OFF": map[string]any{"outcome": "transient", "may_be_received": false, "of_recipient": true},
		"ODD":         "permanent",
	},
}}}

var behaviours = slices.Concat([]behaviour{
	{what: "its name does not exist", play: asking(ample, noSuchName)},
	{what: "its name server never answers", play: asking(short, nil)},
	{what: "it refuses the connection", play: func(t *testing.T) provider.Outcome {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		return at(t, "http://"+l.Addr().String(), ample, nil)
	}},
	{what: "it never answers TLS", play: func(t *testing.T) provider.Outcome {
		return at(t, "https"+strings.TrimPrefix(raw(t, func(net.Conn, int) {}), "http"), short, nil)
	}},
	{what: "it answers TLS with something else", play: func(t *testing.T) provider.Outcome {
		return at(t, "https"+strings.TrimPrefix(raw(t, func(c net.Conn, _ int) { fmt.Fprint(c, "hello\n"); c.Close() }), "http"), ample, nil)
	}},
	{what: "its certificate is of nobody known", play: overTLS(false, "")},
	{what: "its certificate is for another name", play: overTLS(true, "localhost")},

	{what: "it resets the connection before it has the whole request", play: func(t *testing.T) provider.Outcome {
		return big(t, openAt(t, raw(t, func(c net.Conn, _ int) {
			_, _ = c.Read(make([]byte, 1000))
			reset(c)
		}), nil), ample)
	}},
	{what: "it does not read, and the deadline passes before all is written", play: func(t *testing.T) provider.Outcome {
		return big(t, openAt(t, raw(t, func(net.Conn, int) {}), nil), 10*time.Second) // it is encoded within the deadline, too
	}},

	{what: "it resets the connection", play: after(ample, reset)},
	{what: "it resets the connection", sub: ", having read a byte of what was handed over", play: func(t *testing.T) provider.Outcome {
		return at(t, raw(t, func(c net.Conn, _ int) {
			_, _ = c.Read(make([]byte, 1)) // the rest lies in its buffers
			reset(c)
		}), ample, nil)
	}},
	{what: "it resets the connection", sub: ", over TLS", play: func(t *testing.T) provider.Outcome {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				reset(c.(*tls.Conn).NetConn())
			}
		}))
		srv.StartTLS()
		defer srv.Close()
		p := openAt(t, srv.URL, nil)
		roots := x509.NewCertPool()
		roots.AddCert(srv.Certificate())
		httpprovider.Trust(p, roots)
		return send(t, p, ample)
	}},
	{what: "it closes the connection", play: after(ample, func(c net.Conn) { c.Close() })},
	{what: "it resets a connection that was kept, as the next request comes", play: func(t *testing.T) provider.Outcome {
		p := openAt(t, raw(t, func(c net.Conn, _ int) {
			r := bufio.NewReader(c)
			if readRequest(r) == nil {
				fmt.Fprint(c, "HTTP/1.1 204 No Content\r\n\r\n")
				_, _ = r.Peek(1)
				reset(c)
			}
		}), nil)
		if o := send(t, p, ample); o.Kind != provider.Accepted {
			t.Fatalf("%+v", o)
		}
		return send(t, p, ample)
	}},
	{what: "it never answers", play: after(short, func(net.Conn) {})},
	{what: "its headers drip past the deadline", play: after(short, drip("HTTP/1.1 200 OK\r\nX-Slow: "))},
	{what: "it answers garbage", play: says("+8613800000000 " + secret + " garbage\r\n\r\n")},
	{what: "it answers garbage", sub: " (TLS where HTTP was asked)", play: says("\x15\x03\x01\x00\x02\x02\x16")},
	{what: "its headers are over 64 KiB", play: says("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 70<<10) + "\r\n\r\n")},
	{what: "it sends 103 without end", play: after(ample, func(c net.Conn) { flood(c, "", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n") })},

	{what: "200 with an `id`", id: "abc-1", play: says("HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{\"id\":\"abc-1\"}")},
	{what: "200 with an `id`", sub: " in chunks after 100 and 103", id: "17", play: says("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"id\"\r\n4\r\n:17}\r\n0\r\n\r\n")},
	{what: "202, 204 without a body", sub: " (202)", play: says("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")},
	{what: "202, 204 without a body", sub: " (204)", play: says("HTTP/1.1 204 No Content\r\n\r\n")},
	{what: "200 in HTTP/1.0, without a length", id: "old", play: says("HTTP/1.0 200 OK\r\n\r\n{\"id\": \"old\"}")},
	{what: "200 with garbage for a body", play: says("HTTP/1.1 200 OK\r\n\r\n\x00\xff<html>")},
	{what: "200 with an `id` that is not UTF-8", play: says("HTTP/1.1 200 OK\r\n\r\n{\"id\": \"a\xff\xfe\"}")},
	{what: "200 with an `id` that is not UTF-8", sub: " but a line and a bell", play: says("HTTP/1.1 200 OK\r\n\r\n{\"id\": \"a\\n\\u0007b\"}")},
	{what: "200 with a body of 10 MB", play: after(ample, func(c net.Conn) {
		flood(c, "HTTP/1.1 200 OK\r\n\r\n{\"id\": \"x\", \"more\": \"", strings.Repeat("x", 32<<10))
	})},
	{what: "200 with 10 MB in 10 KB of gzip", play: func(t *testing.T) provider.Outcome {
		z := zipped()
		return says(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(z), z))(t)
	}},
	{what: "200 with a body that drips past the deadline", play: after(short, drip("HTTP/1.1 200 OK\r\n\r\n{\"id\": \"slow\", \"more\": \""))},
	{what: "200 with a body that is cut short", play: says("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"id\": \"cut\"}")},
	{what: "200 with more body than it said", id: "1", play: func(t *testing.T) provider.Outcome {
		log.SetOutput(io.Discard) // net/http says so
		t.Cleanup(func() { log.SetOutput(os.Stderr) })
		return says("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{\"id\":1}HTTP/1.1 500 No\r\n\r\n")(t)
	}},
	{what: "200 with an error inside", play: says("HTTP/1.1 200 OK\r\n\r\n{\"error\": \"no\"}")},
	{what: "200 with an error inside that `map` names", play: func(t *testing.T) provider.Outcome {
		return at(t, raw(t, func(c net.Conn, _ int) {
			_ = readRequest(bufio.NewReader(c))
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n{\"result\": {\"code\": \"BAD_NUMBER\", \"of\": \"+8613800000000\"}}")
			c.Close()
		}), ample, errorsInside)
	}},
	{what: "200 whose answer decides by `map`, and is cut short", play: func(t *testing.T) provider.Outcome {
		return at(t, raw(t, func(c net.Conn, _ int) {
			_ = readRequest(bufio.NewReader(c))
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"result\": {\"code\": \"OK\"}}")
			c.Close()
		}), ample, errorsInside)
	}},
	{what: "101", play: after(ample, func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n") })},
	{what: "429 with a `Retry-After` of a year", play: func(t *testing.T) provider.Outcome {
		o := says("HTTP/1.1 429 X\r\nRetry-After: 31536000\r\nContent-Length: 0\r\n\r\n")(t)
		if o.RetryAfter != time.Hour {
			t.Errorf("told to wait %s, want an hour", o.RetryAfter)
		}
		return o
	}},
},
	statuses("301, 302, 303, 307, 308 with a `Location`", "Location: https://elsewhere.invalid/"+secret+"\r\n", 301, 302, 303, 307, 308),
	statuses("400, 404, 405, 409, 410, 413, 415, 422", "", 400, 404, 405, 409, 410, 413, 415, 422),
	statuses("401, 403, 407", "WWW-Authenticate: Basic realm=\""+secret+"\"\r\n", 401, 403, 407),
	statuses("408, 425", "", 408, 425),
	statuses("429", "", 429),
	statuses("500, 501, 502, 504", "", 500, 501, 502, 504),
	statuses("503", "", 503),
)
