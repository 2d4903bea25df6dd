package ingest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/ingest/client"
)

// raw sends text on a connection of its own, then says that no more comes, and
// returns every answer until the server closes.
func (w *world) raw(text string) (answers []reply) {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, text); err != nil {
		w.t.Fatal(err)
	}
	conn.(*net.TCPConn).CloseWrite()
	in := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(in, nil)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && in.Buffered() == 0 {
			return answers
		}
		if err != nil {
			if ne, ok := errors.AsType[net.Error](err); ok && !ne.Timeout() {
				return answers // closed with something unread
			}
			w.t.Fatalf("%q after %d answers: %v", text, len(answers), err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			w.t.Fatalf("%q: answer %d: %v", text, len(answers), err)
		}
		var p client.Problem
		if json.Unmarshal(body, &p) == nil && p.Code != "" {
			seenCodes.Store(p.Code, true)
		}
		answers = append(answers, reply{w.t, resp.StatusCode, resp.Header, body})
		if resp.Close && len(answers) > 5 {
			w.t.Fatal("no end")
		}
	}
}

// What two readers may cut into requests differently is refused, or is the
// connection's last: never two requests where someone in front has seen one.
func TestSmuggling(t *testing.T) {
	w := newWorld(t, settings{})
	const inner = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	chunked := func(body string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body) }
	n := len(hello)
	length := fmt.Sprintf("Content-Length: %d\r\n", n)
	const refused = 0
	for _, tt := range []struct {
		name, header, body string
		status             int // of the only answer; refused is 400 or none
	}{
		{"as it should be", length, hello, 202},
		{"chunked", "Transfer-Encoding: chunked\r\n", chunked(hello), 202},
		{"a plus", fmt.Sprintf("Content-Length: +%d\r\n", n), hello, refused},
		{"a minus", "Content-Length: -5\r\n", hello, refused},
		{"a list", fmt.Sprintf("Content-Length: %d, %d\r\n", n, n), hello, refused},
		{"two that differ", length + "Content-Length: 5\r\n", hello, refused},
		{"two of one value", length + length, hello, 202},
		{"hexadecimal", fmt.Sprintf("Content-Length: 0x%x\r\n", n), hello, refused},
		{"a fraction", fmt.Sprintf("Content-Length: %d.0\r\n", n), hello, refused},
		{"nothing", "Content-Length: \r\n", hello, refused},
		{"underscores", "Content-Length: 1_0\r\n", hello, refused},
		{"other digits", "Content-Length: ５\r\n", hello, refused},
		{"beyond an int64", "Content-Length: 99999999999999999999\r\n", hello, refused},
		{"a space before the colon", fmt.Sprintf("Content-Length : %d\r\n", n), hello, refused},
		{"a space before the name", fmt.Sprintf(" Content-Length: %d\r\n", n), hello, refused},
		{"a tab before the name", fmt.Sprintf("\tContent-Length: %d\r\n", n), hello, refused},
		{"NUL in the name", fmt.Sprintf("Content\x00-Length: %d\r\n", n), hello, refused},
		{"NUL in a value", length + "X: a\x00b\r\n", hello, refused},
		{"CR in a value", length + "X: a\rTransfer-Encoding: chunked\r\n", hello, refused},
		{"length and chunks", length + "Transfer-Encoding: chunked\r\n", chunked(hello), 202},
		{"chunks and length", "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", chunked(hello), 202},
		{"length in other letters, and chunks", strings.ToUpper(length) + "Transfer-Encoding: chunked\r\n", chunked(hello), 202},
		{"chunked, misspelt", "Transfer-Encoding: xchunked\r\n", chunked(hello), refused},
		{"chunked in quotes", "Transfer-Encoding: \"chunked\"\r\n", chunked(hello), refused},
		{"chunked and another", "Transfer-Encoding: chunked, identity\r\n", chunked(hello), refused},
		{"packed and chunked", "Transfer-Encoding: gzip, chunked\r\n", chunked(hello), refused},
		{"chunked twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunked(hello), refused},
		{"chunked and identity", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", chunked(hello), refused},
		{"a vertical tab", "Transfer-Encoding: \x0bchunked\r\n", chunked(hello), refused},
		{"a space before the colon of chunked", "Transfer-Encoding : chunked\r\n", chunked(hello), refused},
		{"a chunk's length with a plus", "Transfer-Encoding: chunked\r\n", fmt.Sprintf("+%x\r\n%s\r\n0\r\n\r\n", n, hello), refused},
		{"a chunk's length with 0x", "Transfer-Encoding: chunked\r\n", fmt.Sprintf("0x%x\r\n%s\r\n0\r\n\r\n", n, hello), refused},
		{"a negative chunk", "Transfer-Encoding: chunked\r\n", "-1\r\n" + hello + "\r\n0\r\n\r\n", refused},
		{"a chunk beyond an int64", "Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n" + hello + "\r\n0\r\n\r\n", refused},
		{"a chunk's length that ends in LF", "Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\n%s\r\n0\r\n\r\n", n, hello), refused},
		{"LF in a chunk's extension", "Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x;a\nxx\r\n%s\r\n0\r\n\r\n", n, hello), refused},
		{"a chunk that ends otherwise", "Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%sXX0\r\n\r\n", n, hello), refused},
		{"a chunk without its end", "Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s0\r\n\r\n", n, hello), refused},
		{"a trailer that is a length", "Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\nContent-Length: 9\r\n\r\n", n, hello), 202},
		{"a header line folded", fmt.Sprintf("Content-Length:\r\n %d\r\n", n), hello, 202},
		{"two names in a Host", length + "Host: localhost\r\n", hello, refused},
		{"no length and no chunks", "", "", 400},
		{"a transfer encoding within a value", length + "X: y Transfer-Encoding: chunked\r\n", hello, 202},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := *w
			w.t = t
			for _, behind := range []string{"", inner} {
				got := w.raw("POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n" + tt.header + "\r\n" + tt.body + behind)
				if tt.status == refused {
					if len(got) > 1 || len(got) == 1 && got[0].code != 400 {
						t.Fatalf("%d answers, the first %d %s", len(got), got[0].code, got[0].body)
					}
					continue
				}
				most := 1
				if behind != "" && !strings.Contains(tt.name, " and chunks") && tt.name != "chunks and length" {
					most = 2 // a pipelined request, plainly
				}
				if len(got) < 1 || len(got) > most || got[0].code != tt.status {
					t.Fatalf("%d answers, of at most %d: %+v", len(got), most, got)
				}
			}
		})
	}

	// HTTP/1.0 has no chunks: who sends them all the same, through something in
	// front that reads them, must not get a second request through.
	t.Run("chunks in HTTP/1.0", func(t *testing.T) {
		w := *w
		w.t = t
		got := w.raw("POST /v1/messages HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + inner)
		if len(got) != 1 {
			t.Errorf("%d answers", len(got))
		}
	})
	for name, text := range map[string]string{
		"HTTP/2's preface":      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"HTTP/3":                "GET /healthz HTTP/3.0\r\nHost: localhost\r\n\r\n",
		"no HTTP":               "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"a bare line":           "GET /healthz\r\n\r\n",
		"no host":               "GET /healthz HTTP/1.1\r\n\r\n",
		"a host with a path":    "GET /healthz HTTP/1.1\r\nHost: localhost/x\r\n\r\n",
		"a space in the target": "GET /healthz /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"a control character":   "GET /health\x01z HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"a method of LF":        "\nGET\n/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"a broken escape":       "GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"a long header":         "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 40<<10) + "\r\n\r\n",
		"many headers":          "GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("X: x\r\n", 8<<10) + "\r\n",
		"an expectation":        "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nExpect: tea\r\nContent-Length: 0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.t = t
			got := w.raw(text)
			if len(got) != 1 {
				t.Fatalf("%d answers", len(got))
			}
			var p client.Problem
			if err := json.Unmarshal(got[0].body, &p); err != nil || p.Status != got[0].code || p.Code == "" || got[0].code < 400 || got[0].code >= 500 {
				t.Errorf("%d %s", got[0].code, got[0].body)
			}
			if got[0].header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%v", got[0].header)
			}
			guarded(t, got[0].header)
		})
	}
	if got := w.raw("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n"); len(got) != 1 || got[0].code != 200 {
		t.Errorf("an upgrade to HTTP/2: %+v", got)
	}
}

// guarded checks the headers that no answer is without, and those that none has.
func guarded(t *testing.T, h http.Header) {
	t.Helper()
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	for name := range h {
		if strings.HasPrefix(name, "Access-Control-") || name == "Server" || name == "X-Powered-By" {
			t.Errorf("%s: %q", name, h[name])
		}
	}
}
