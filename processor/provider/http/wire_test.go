package http_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	httpprovider "github.com/weirhq/weir/processor/provider/http"
	"github.com/weirhq/weir/processor/provider/httpcall"
	"github.com/weirhq/weir/schemas"
)

// eventually waits for what a goroutine of a server or of net/http does.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

// TestNeverTwoRequests: whatever a server does with the requests that arrive, on
// new connections and kept ones, one call is one of them.
func TestNeverTwoRequests(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(net.Conn)
	}{
		{"reset", reset},
		{"closed", func(c net.Conn) { c.Close() }},
		{"408 as to an idle connection", func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n")
			c.Close()
		}},
		{"half an answer", func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 20"); c.Close() }},
		{"sent elsewhere", func(c net.Conn) {
			fmt.Fprintf(c, "HTTP/1.1 307 X\r\nLocation: http://%s/\r\nContent-Length: 0\r\n\r\n", c.LocalAddr())
			c.Close()
		}},
		{"asked for credentials", func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 401 X\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")
			c.Close()
		}},
		{"told to come again", func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 503 X\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n")
			c.Close()
		}},
	} {
		for kept := range 3 { // so many answers before it
			t.Run(fmt.Sprintf("%s after %d", tt.name, kept), func(t *testing.T) {
				var mu sync.Mutex
				arrived := make(map[string]int)
				p := openAt(t, raw(t, func(c net.Conn, _ int) {
					r := bufio.NewReader(c)
					for i := 0; ; i++ {
						req, err := http.ReadRequest(r)
						if err != nil {
							return
						}
						_, _ = io.Copy(io.Discard, req.Body)
						mu.Lock()
						arrived[req.Header.Get("Idempotency-Key")]++
						mu.Unlock()
						if i == kept {
							tt.end(c)
							return
						}
						fmt.Fprint(c, ok)
					}
				}), nil)
				calls := 2 * (kept + 1) // twice around
				for i := range calls {
					c := call
					c.ID = strconv.Itoa(i)
					ctx, cancel := context.WithTimeout(t.Context(), ample)
					o := p.Send(ctx, &c)
					cancel()
					mu.Lock()
					n := arrived[c.ID]
					mu.Unlock()
					// None arrives where the connection was closed unnoticed.
					if n > 1 || n == 0 && o.Kind == provider.Accepted || n == 1 && o.Kind == provider.Transient && strings.HasPrefix(o.Code, "not_") {
						t.Errorf("call %d was %d requests and came to %+v", i, n, o)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				if len(arrived) < kept+1 {
					t.Errorf("%d of %d calls arrived", len(arrived), calls)
				}
			})
		}
	}
}

// TestAKeptConnectionThatTheServerCloses while nothing is under way costs
// nothing: the next call has a new one.
func TestAKeptConnectionThatTheServerCloses(t *testing.T) {
	var closed [10]chan struct{}
	for i := range closed {
		closed[i] = make(chan struct{})
	}
	p := openAt(t, raw(t, func(c net.Conn, n int) {
		if readRequest(bufio.NewReader(c)) == nil {
			fmt.Fprint(c, ok)
			c.Close()
			close(closed[n])
		}
	}), nil)
	unknown := 0
	for n := range closed {
		switch o := send(t, p, ample); o.Kind {
		case provider.Accepted:
		case provider.Unknown, provider.Transient:
			unknown++ // the close was not noticed yet: it raced with the request
		default:
			t.Fatalf("%+v", o)
		}
		if unknown == 0 {
			<-closed[n]
			runtime.Gosched()
		}
	}
	if unknown > 5 {
		t.Errorf("%d of %d calls met a closed connection", unknown, len(closed))
	}
}

// TestConnectionsAreUsedAgain, as many as calls are under way at once.
func TestConnectionsAreUsedAgain(t *testing.T) {
	var connections, requests atomic.Int32
	p := openAt(t, raw(t, func(c net.Conn, _ int) {
		connections.Add(1)
		for r := bufio.NewReader(c); readRequest(r) == nil; {
			requests.Add(1)
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", 100000)) // more than is read of it
		}
	}), nil)
	const callers, each = 8, 25
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				if o := send(t, p, ample); o.Kind != provider.Accepted {
					t.Errorf("%+v", o)
				}
			}
		})
	}
	wg.Wait()
	if c, r := connections.Load(), requests.Load(); c > 2*callers || r != callers*each {
		t.Errorf("%d requests on %d connections from %d callers", r, c, callers)
	}
}

// TestHTTP2IsNotSpoken, also to a server that offers it; and a connection under
// TLS is used again.
func TestHTTP2IsNotSpoken(t *testing.T) {
	var protos, remotes sync.Map
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protos.Store(r.Proto, true)
		remotes.Store(r.RemoteAddr, true)
		fmt.Fprint(w, `{"id": "x"}`)
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	p := openAt(t, srv.URL, nil)
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	httpprovider.Trust(p, roots)
	for range 5 {
		if o := send(t, p, ample); o.Kind != provider.Accepted || o.ProviderMessageID != "x" {
			t.Fatalf("%+v", o)
		}
	}
	keys := func(m *sync.Map) (out []any) {
		m.Range(func(k, _ any) bool { out = append(out, k); return true })
		return out
	}
	if got := keys(&protos); len(got) != 1 || got[0] != "HTTP/1.1" {
		t.Errorf("it spoke %v", got)
	}
	if got := keys(&remotes); len(got) != 1 {
		t.Errorf("5 calls on %d connections", len(got))
	}
}

// TestNothingHalfMadeIsLeft: connections to a server that never answers TLS end
// with the calls that asked for them. net/http would keep them for ever.
func TestNothingHalfMadeIsLeft(t *testing.T) {
	var open atomic.Int32
	address := raw(t, func(c net.Conn, _ int) {
		open.Add(1)
		_, _ = io.Copy(io.Discard, c) // until the other end goes
		open.Add(-1)
	})
	p, err := provider.Types{"http": {Open: httpprovider.Open}}.Open(schemas.Provider{
		Name: "p", Type: "http", Timeout: schemas.Duration(short), Settings: map[string]any{"url": "https" + strings.TrimPrefix(address, "http")},
	}, provider.Deps{Private: outbound.Loopback})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if o := send(t, p, short); o.Code != "connect_timeout" && o.Code != "not_connected" {
				t.Errorf("%+v", o)
			}
		})
	}
	wg.Wait()
	eventually(t, "half-made connections are left", func() bool { return open.Load() == 0 })
}

// TestMemoryOfACall: an answer of 10 MB costs what the page says, plus what is
// counted here of the server and the test.
func TestMemoryOfACall(t *testing.T) {
	more := strings.Repeat("x", 64<<10)
	for _, tt := range []struct{ name, head string }{
		{"body", "HTTP/1.1 200 OK\r\n\r\n"},
		{"one chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7fffffff\r\n"},
		{"headers", "HTTP/1.1 200 OK\r\nX: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := openAt(t, raw(t, func(c net.Conn, _ int) {
				if readRequest(bufio.NewReader(c)) == nil {
					flood(c, tt.head, more)
				}
			}), nil)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			send(t, p, ample)
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 768<<10 {
				t.Errorf("%d KiB were allocated", n>>10)
			}
		})
	}
}

// environments is how often the proxy was asked that the environment of these
// tests names. net/http reads it once, so it is set before any test.
var environments atomic.Int32

func TestMain(m *testing.M) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			environments.Add(1)
			c.Close()
		}
	}()
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"} {
		os.Setenv(name, "http://"+l.Addr().String())
	}
	code := m.Run()
	l.Close()
	os.Exit(code)
}

// TestProxyOnlyBySetting: a provider is asked directly unless its settings
// name a proxy.
func TestProxyOnlyBySetting(t *testing.T) {
	// The environment's proxy is never asked for loopback, so here is a name.
	if o := asking(ample, noSuchName)(t); o.Code != "not_connected" || environments.Load() != 0 {
		t.Errorf("%+v; the environment's proxy was asked %d times", o, environments.Load())
	}

	var proxied atomic.Int32
	proxy := raw(t, func(c net.Conn, _ int) {
		for r := bufio.NewReader(c); readRequest(r) == nil; {
			proxied.Add(1)
			fmt.Fprint(c, ok)
		}
	})
	if o := at(t, "http://nobody.example.", ample, map[string]any{"proxy": proxy}); o.Kind != provider.Accepted || proxied.Load() != 1 {
		t.Errorf("%+v, and the proxy was asked %d times", o, proxied.Load())
	}
	refusing := raw(t, func(c net.Conn, _ int) {
		if readRequest(bufio.NewReader(c)) == nil {
			fmt.Fprint(c, "HTTP/1.1 407 not for +8613800000000 "+secret+"\r\nContent-Length: 0\r\n\r\n")
		}
	})
	if o := at(t, "https://nobody.example.", ample, map[string]any{"proxy": refusing}); o.Code != "not_connected" || o.Kind != provider.Transient || leaks(o) {
		t.Errorf("%+v", o)
	}
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestNoAnswerIsLogged: net/http quotes, in the log package, what comes after
// an answer.
func TestNoAnswerIsLogged(t *testing.T) {
	var lines lockedBuffer
	log.SetOutput(httpcall.Quiet(&lines))
	defer log.SetOutput(os.Stderr)
	p := openAt(t, raw(t, func(c net.Conn, _ int) {
		if readRequest(bufio.NewReader(c)) == nil {
			fmt.Fprint(c, ok+"+8613800000000 "+secret)
		}
	}), nil)
	if o := send(t, p, ample); o.Kind != provider.Accepted {
		t.Fatalf("%+v", o)
	}
	eventually(t, "net/http no longer says anything: then Quiet can go", func() bool { return strings.Contains(lines.String(), "Unsolicited") })
	if s := lines.String(); strings.Contains(s, "138") || strings.Contains(s, secret) {
		t.Errorf("logged: %s", s)
	}
	fmt.Fprint(httpcall.Quiet(&lines), "anything else\n")
	if !strings.HasSuffix(lines.String(), "anything else\n") {
		t.Errorf("lost: %s", lines.String())
	}
}
