package outbound_test

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/weirhq/weir/processor/outbound"
)

func TestJudge(t *testing.T) {
	for addr, public := range map[string]bool{
		"93.184.215.14": true, "1.1.1.1": true, "172.15.255.255": true, "172.32.0.1": true, "100.63.255.255": true, "100.128.0.1": true,
		"2606:4700:4700::1111": true, "2a00:1450:4001:80b::200e": true,
		"127.0.0.1": false, "127.255.255.254": false, "10.1.2.3": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.1.1": false,
		"0.0.0.0": false, "0.1.2.3": false, "169.254.169.254": false, "169.254.0.1": false, "100.100.100.200": false, "192.0.0.192": false,
		"168.63.129.16": false, "224.0.0.1": false, "255.255.255.255": false, "198.18.0.1": false, "203.0.113.9": false, "240.0.0.1": false,
		"::": false, "::1": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::ffff:169.254.169.254": false, "::ffff:93.184.215.14": true,
		"::127.0.0.1": false, "64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b::5db8:d70e": true, "64:ff9b:1::1": false,
		"2002:7f00:1::1": false, "2002:a9fe:a9fe::": false, "2002:5db8:d70e::1": true, "2001::1": false, "2001:db8::1": false,
		"::ffff:0:10.0.0.1": false, "::ffff:0:93.184.215.14": false, "::ffff:0:0:1": false, "64:ff9b::10.0.0.1": false, "2002:0a00:0001::": false, "64:ff9b:1::10.0.0.1": false,
		"2001:0:5db8:d70e::f5ff:fffe": false, "2606:4700::5efe:10.0.0.1": false, "2606:4700::200:5efe:127.0.0.1": false, "2606:4700::5efe:93.184.215.14": true, "2606:4700::1:5efe:a00:1": true,
		"4000::1": false, "1::1": false, "9000::a00:1": false, "3fff:0fff::1": false, "64:ff9b::ffff:10.0.0.1": false,
		"fe80::1": false, "fe80::1%lo": false, "fec0::1": false, "fc00::1": false, "fd00:ec2::254": false, "ff02::1": false, "100::1": false,
	} {
		var none outbound.Networks
		if err := none.Judge(netip.MustParseAddr(addr)); (err == nil) != public || err != nil && !errors.Is(err, outbound.ErrRefused) {
			t.Errorf("%s: %v, public %v", addr, err, public)
		}
	}
	if err := (outbound.Networks{}).Judge(netip.Addr{}); err == nil {
		t.Error("no address is a public one")
	}
	some, err := outbound.ParseNetworks([]string{"10.0.0.0/8", "127.0.0.1", "fd00::/8"})
	if err != nil {
		t.Fatal(err)
	}
	for addr, ok := range map[string]bool{
		"10.255.0.1": true, "127.0.0.1": true, "127.0.0.2": false, "::ffff:10.0.0.1": true, "64:ff9b::a00:1": true, "fd12::1": true, "fc00::1": false, "169.254.169.254": false, "1.1.1.1": true,
		"2002:a00:1::": true, "fd12::5efe:192.168.0.1": true, "::ffff:0:10.0.0.1": false,
	} {
		if err := some.Judge(netip.MustParseAddr(addr)); (err == nil) != ok {
			t.Errorf("%s with %s: %v", addr, some, err)
		}
	}
	for _, bad := range []string{"", "10.0.0.1/8", "localhost", "::ffff:10.0.0.0/104", "fe80::1%lo", "10.0.0.0/33"} {
		if got, err := outbound.ParseNetworks([]string{bad}); err == nil {
			t.Errorf("%q is read as %s", bad, got)
		}
	}
}

// TestJudgeURL: a URL is refused by its host, if that is an address.
func TestJudgeURL(t *testing.T) {
	some, err := outbound.ParseNetworks([]string{"10.1.0.0/16"})
	if err != nil {
		t.Fatal(err)
	}
	for text, ok := range map[string]bool{
		"https://10.0.0.1/a": false, "https://10.0.0.1./": false, "https://user@10.0.0.1:8443/": false, "https://[::ffff:10.0.0.1]/": false, "https://[::ffff:0:10.0.0.1]/": false,
		"https://[64:ff9b::10.0.0.1]/": false, "https://[2002:0a00:0001::]:1/": false, "https://[2001:0:1::]/": false, "https://[fe80::1%25eth0]/": false, "https://[::1]/": false,
		"https://10.1.0.1/": true, "https://[64:ff9b::10.1.0.1]/": true, "https://93.184.215.14/": true, "https://hooks.example.com/": true, "https://10.0.0.1.example.com/": true, "://": true, "": true,
	} {
		if err := some.JudgeURL(text); (err == nil) != ok || err != nil && !errors.Is(err, outbound.ErrRefused) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// receiver counts the calls that reach a server on loopback.
func receiver(t *testing.T, h http.HandlerFunc) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if h != nil {
			h(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s, &calls
}

func port(s *httptest.Server) string {
	return s.Listener.Addr().(*net.TCPAddr).AddrPort().String()[len("127.0.0.1:"):]
}

func post(t *testing.T, c *outbound.Client, url string) (*outbound.Answer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return c.Post(ctx, url, "application/json", nil, []byte("{}"))
}

// TestClosed: in whatever way loopback is written, nothing arrives there.
func TestClosed(t *testing.T) {
	s, calls := receiver(t, nil)
	c := outbound.New(outbound.Config{})
	defer c.Close()
	for _, host := range []string{
		"127.0.0.1", "localhost", "0.0.0.0", "[::]", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]",
		"2130706433", "0x7f000001", "0177.0.0.1", "127.1", "127.0.0.1.", "[64:ff9b::127.0.0.1]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[2606:4700::5efe:127.0.0.1]", "[::1%25lo]",
	} {
		if a, err := post(t, c, "http://"+host+":"+port(s)+"/"); err == nil {
			t.Errorf("%s answered %d", host, a.Code)
		}
	}
	if _, err := post(t, c, "http://127.0.0.1:"+port(s)+"/T0/B0/secret"); !errors.Is(err, outbound.ErrRefused) || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	if n := calls.Load(); n != 0 {
		t.Fatalf("%d calls arrived", n)
	}
	// The same client with the network named does arrive: the test can fail.
	allowed, err := outbound.ParseNetworks([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	open := outbound.New(outbound.Config{Allow: allowed})
	defer open.Close()
	if a, err := post(t, open, s.URL); err != nil || a.Code != 200 || calls.Load() != 1 {
		t.Fatalf("%v, %v, %d calls", a, err, calls.Load())
	}
}

// rebinding is a resolver whose names are a public address the first time, and
// another one from then on.
func rebinding(t *testing.T, then netip.Addr) (*net.Resolver, *atomic.Int64) {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	var asked atomic.Int64
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			var p dnsmessage.Parser
			h, err := p.Start(buf[:n])
			if err != nil {
				continue
			}
			q, err := p.Question()
			if err != nil {
				continue
			}
			b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: h.ID, Response: true, Authoritative: true})
			_ = b.StartQuestions()
			_ = b.Question(q)
			_ = b.StartAnswers()
			if q.Type == dnsmessage.TypeA {
				to := then.As4()
				if asked.Add(1) == 1 {
					to = [4]byte{192, 0, 2, 1} // nobody answers; not public either, but not loopback
				}
				_ = b.AResource(dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 0}, dnsmessage.AResource{A: to})
			}
			msg, err := b.Finish()
			if err != nil {
				continue
			}
			_, _ = pc.WriteTo(msg, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", pc.LocalAddr().String())
	}}, &asked
}

func TestRebinding(t *testing.T) {
	s, calls := receiver(t, nil)
	resolver, asked := rebinding(t, netip.MustParseAddr("127.0.0.1"))
	c := outbound.New(outbound.Config{Resolver: resolver})
	defer c.Close()
	for range 4 {
		if _, err := post(t, c, "http://hooks.example.com:"+port(s)+"/"); !errors.Is(err, outbound.ErrRefused) {
			t.Errorf("%v", err)
		}
	}
	if asked.Load() < 4 || calls.Load() != 0 {
		t.Errorf("the name was asked for %d times, %d calls arrived", asked.Load(), calls.Load())
	}
	// Where it is allowed the second answer is what is called: the resolver is used.
	allowed, _ := outbound.ParseNetworks([]string{"127.0.0.1"})
	open := outbound.New(outbound.Config{Resolver: resolver, Allow: allowed})
	defer open.Close()
	if _, err := post(t, open, "http://hooks.example.com:"+port(s)+"/"); err != nil || calls.Load() != 1 {
		t.Errorf("%v, %d calls", err, calls.Load())
	}
}

func loopback(t *testing.T, cfg outbound.Config) *outbound.Client {
	t.Helper()
	cfg.Allow, _ = outbound.ParseNetworks([]string{"127.0.0.0/8"})
	c := outbound.New(cfg)
	t.Cleanup(c.Close)
	return c
}

// TestNoRedirectNoProxy: neither leads anywhere.
func TestNoRedirectNoProxy(t *testing.T) {
	behind, reached := receiver(t, nil)
	s, _ := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, behind.URL, http.StatusTemporaryRedirect)
	})
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		old, had := os.LookupEnv(name)
		os.Setenv(name, behind.URL)
		defer func() {
			if had {
				os.Setenv(name, old)
			} else {
				os.Unsetenv(name)
			}
		}()
	}
	a, err := post(t, loopback(t, outbound.Config{}), s.URL)
	if err != nil || a.Code != 307 || reached.Load() != 0 {
		t.Errorf("%v, %v, %d reached", a, err, reached.Load())
	}
	// Proxies are not used for other hosts either.
	if _, err := post(t, loopback(t, outbound.Config{}), "http://192.168.0.1/"); !errors.Is(err, outbound.ErrRefused) || reached.Load() != 0 {
		t.Errorf("%v, %d reached", err, reached.Load())
	}
}

func TestPost(t *testing.T) {
	s, _ := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/busy":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(429)
		case "/date":
			w.Header().Set("Retry-After", time.Now().Add(90*time.Second).UTC().Format(http.TimeFormat))
			w.WriteHeader(503)
		case "/large":
			_, _ = w.Write([]byte(strings.Repeat("x", 1<<20)))
		case "/slow":
			_, _ = io.Copy(io.Discard, r.Body) // else nobody sees that the client went
			<-r.Context().Done()
		}
	})
	c := loopback(t, outbound.Config{Timeout: time.Minute})
	if a, err := post(t, c, s.URL+"/busy"); err != nil || a.Code != 429 || a.RetryAfter != 7*time.Second {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := post(t, c, s.URL+"/date"); err != nil || a.RetryAfter < 30*time.Second || a.RetryAfter > 90*time.Second {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := post(t, c, s.URL+"/large"); err != nil || len(a.Body) != 4<<10 {
		t.Errorf("%v", err)
	}
	if _, err := post(t, loopback(t, outbound.Config{Timeout: 2 * time.Second}), s.URL+"/slow"); err == nil || strings.Contains(err.Error(), "/slow") {
		t.Errorf("%v", err)
	}
	for _, bad := range []string{"", "ftp://a.example/", "http://", "file:///etc/passwd", "http://a b/", "gopher://127.0.0.1/", "//127.0.0.1/"} {
		if _, err := post(t, c, bad); err == nil {
			t.Errorf("%q is called", bad)
		}
	}
}

// TestSign: whoever has the library of Standard Webhooks can check it.
func TestSign(t *testing.T) {
	key := base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
	body := []byte(`{"type":"alert"}`)
	for _, secret := range []string{key, "whsec_" + key} {
		h, err := outbound.Sign(secret, "alert_oncall_1", time.Now(), body)
		if err != nil {
			t.Fatal(err)
		}
		wh, err := webhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := wh.Verify(body, h); err != nil {
			t.Errorf("%v", err)
		}
		if err := wh.Verify([]byte(`{"type":"other"}`), h); err == nil {
			t.Error("another body has the same signature")
		}
	}
	for _, bad := range []string{"", "whsec_", "plain text, not base64!", base64.StdEncoding.EncodeToString([]byte("short"))} {
		if _, err := outbound.Sign(bad, "id", time.Now(), body); !errors.Is(err, outbound.ErrSecret) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
