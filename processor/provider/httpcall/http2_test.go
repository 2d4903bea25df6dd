package httpcall_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/httpcall"
)

// peer is the server's end of one HTTP/2 connection, frame by frame.
type peer struct {
	net.Conn
	*http2.Framer
}

// serveFrames starts a server whose connections are played by hand.
func serveFrames(t *testing.T, play func(p *peer)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
					return
				}
				play(&peer{c, http2.NewFramer(c, c)})
			})
		}
	})
	return "http://" + l.Addr().String()
}

// until reads frames to the first that fits.
func (p *peer) until(fits func(http2.Frame) bool) http2.Frame {
	for {
		f, err := p.ReadFrame()
		if err != nil {
			return nil
		}
		if fits(f) {
			return f
		}
	}
}

func end(f http2.Frame) bool {
	d, ok := f.(*http2.DataFrame)
	return ok && d.StreamEnded()
}

// TestHTTP2: what of a call is known when it has no answer.
func TestHTTP2(t *testing.T) {
	for _, tt := range []struct {
		name     string
		size     int
		play     func(p *peer)
		kind     provider.Kind
		code     string
		received bool
	}{
		{"it closes the connection after the request", 10, func(p *peer) { _ = p.WriteSettings(); p.until(end) }, provider.Unknown, "connection_broken", true},
		{"it resets the stream after the request", 10, func(p *peer) {
			_ = p.WriteSettings()
			f := p.until(end)
			_ = p.WriteRSTStream(f.Header().StreamID, http2.ErrCodeInternal)
			p.until(func(http2.Frame) bool { return false })
		}, provider.Unknown, "connection_broken", true},
		{"it refuses the stream", 10, func(p *peer) {
			_ = p.WriteSettings()
			f := p.until(end)
			_ = p.WriteRSTStream(f.Header().StreamID, http2.ErrCodeRefusedStream)
			p.until(func(http2.Frame) bool { return false })
		}, provider.Transient, "not_processed", false},
		{"it goes away, and did not process the stream", 10, func(p *peer) {
			_ = p.WriteSettings()
			p.until(end)
			_ = p.WriteGoAway(0, http2.ErrCodeNo, nil)
			p.until(func(http2.Frame) bool { return false })
		}, provider.Transient, "not_processed", false},
		{"it goes away, and may have processed it", 10, func(p *peer) {
			_ = p.WriteSettings()
			f := p.until(end)
			_ = p.WriteGoAway(f.Header().StreamID, http2.ErrCodeNo, nil)
		}, provider.Unknown, "connection_broken", true},
		{"it reads headers and no body", 1 << 20, func(p *peer) {
			_ = p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			p.until(func(http2.Frame) bool { return false })
		}, provider.Transient, "not_written", false},
		{"it never answers", 10, func(p *peer) { _ = p.WriteSettings(); p.until(func(http2.Frame) bool { return false }) }, provider.Unknown, "timeout", true},
		{"it answers in HTTP/1.1", 10, func(p *peer) { _, _ = io.WriteString(p.Conn, "HTTP/1.1 400 Bad Request\r\n\r\n") }, "", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			played := 0
			var mu sync.Mutex
			url := serveFrames(t, func(p *peer) {
				mu.Lock()
				played++
				mu.Unlock()
				tt.play(p)
			})
			c := httpcall.New(httpcall.Config{HTTP2: true})
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(strings.Repeat("x", tt.size)))
			if err != nil {
				t.Fatal(err)
			}
			a, o := c.Do(ctx, req)
			if a != nil {
				t.Fatalf("an answer: %+v", a)
			}
			if tt.kind != "" && (o.Kind != tt.kind || o.Code != tt.code || o.MayBeReceived != tt.received) || o.Kind == provider.Accepted {
				t.Errorf("%+v, want %s %s", o, tt.kind, tt.code)
			}
			mu.Lock()
			defer mu.Unlock()
			if played != 1 {
				t.Errorf("%d connections for one call", played)
			}
		})
	}
}

// TestCloseEndsHTTP2: also a connection whose last answer came just now.
func TestCloseEndsHTTP2(t *testing.T) {
	ended := make(chan struct{}, 100)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			ended <- struct{}{}
		}
	}
	srv.Start()
	defer srv.Close()
	for range 50 {
		c := httpcall.New(httpcall.Config{HTTP2: true})
		req, err := http.NewRequest(http.MethodPost, srv.URL, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		if a, o := c.Do(t.Context(), req); a == nil {
			t.Fatalf("%+v", o)
		}
		_ = c.Close()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("a connection is open a minute after Close")
		}
	}
}

// TestHTTP2OverTLS: many calls share a connection, and a server that speaks HTTP/1.1
// alone gets no request.
func TestHTTP2OverTLS(t *testing.T) {
	var mu sync.Mutex
	from := make(map[string]int)
	begin := func(h2 bool) (*httptest.Server, *httpcall.Client) {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			from[r.RemoteAddr+" "+r.Proto+" "+string(b)]++
		}))
		srv.EnableHTTP2 = h2
		srv.StartTLS()
		t.Cleanup(srv.Close)
		c := httpcall.New(httpcall.Config{HTTP2: true})
		t.Cleanup(func() { c.Close() })
		c.Trust(srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs)
		return srv, c
	}
	post := func(srv *httptest.Server, c *httpcall.Client) (*httpcall.Answer, provider.Outcome) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		req, err := http.NewRequest(http.MethodPost, srv.URL, strings.NewReader("whole"))
		if err != nil {
			t.Fatal(err)
		}
		return c.Do(ctx, req)
	}
	srv, c := begin(true)
	if a, o := post(srv, c); a == nil || a.Status != 200 {
		t.Fatalf("%+v", o)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if a, o := post(srv, c); a == nil || a.Status != 200 {
				t.Errorf("%+v", o)
			}
		})
	}
	wg.Wait()
	if len(from) != 1 {
		t.Errorf("21 calls came as %v", from)
	}
	for k := range from {
		if !strings.HasSuffix(k, " HTTP/2.0 whole") {
			t.Errorf("a call came as %s", k)
		}
	}
	from = make(map[string]int)
	srv, c = begin(false)
	if a, o := post(srv, c); a != nil || o.Kind != provider.Transient || o.MayBeReceived || len(from) != 0 {
		t.Errorf("a server without HTTP/2: %+v %+v %v", a, o, from)
	}
}
