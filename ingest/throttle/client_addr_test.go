package throttle

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

var proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.7/32"), netip.MustParsePrefix("2001:db8:5::/48")}

func TestClientAddr(t *testing.T) {
	const proxy = "10.0.0.1:4711"
	for _, tt := range []struct {
		name, peer string
		headers    []string
		want       string
	}{
		{"no header", "203.0.113.9:1", nil, "203.0.113.9"},
		{"the peer is no proxy: what it says is nothing", "203.0.113.9:1", []string{"X-Forwarded-For: 198.51.100.1", "Forwarded: for=198.51.100.1"}, "203.0.113.9"},
		{"the peer is a proxy, which says nothing", proxy, nil, "10.0.0.1"},
		{"one hop", proxy, []string{"X-Forwarded-For: 198.51.100.1"}, "198.51.100.1"},
		{"what the client wrote stands left", proxy, []string{"X-Forwarded-For: 127.0.0.1, 8.8.8.8, 198.51.100.1"}, "198.51.100.1"},
		{"the client writes a proxy's address", proxy, []string{"X-Forwarded-For: 8.8.8.8, 10.0.0.2, 198.51.100.1"}, "198.51.100.1"},
		{"two proxies", proxy, []string{"X-Forwarded-For: 8.8.8.8, 198.51.100.1, 192.0.2.7, 10.9.9.9"}, "198.51.100.1"},
		{"a client within the proxies' network", proxy, []string{"X-Forwarded-For: 10.1.1.1, 10.9.9.9"}, "10.1.1.1"},
		{"several lines are one list", proxy, []string{"X-Forwarded-For: 8.8.8.8", "X-Forwarded-For: 198.51.100.1, 10.9.9.9"}, "198.51.100.1"},
		{"with ports", proxy, []string{"X-Forwarded-For: 198.51.100.1:5000 , 10.9.9.9:80"}, "198.51.100.1"},
		{"IPv6", proxy, []string{"X-Forwarded-For: 2001:db8::1, 2001:db8:5::9"}, "2001:db8::1"},
		{"IPv6 in brackets", proxy, []string{"X-Forwarded-For: [2001:db8::1]"}, "2001:db8::1"},
		{"IPv6 with a port", proxy, []string{"X-Forwarded-For: [2001:db8::1]:443"}, "2001:db8::1"},
		{"IPv4 as IPv6", "[::ffff:10.0.0.1]:1", []string{"X-Forwarded-For: ::ffff:198.51.100.1"}, "198.51.100.1"},
		{"a proxy's IPv4 as IPv6", proxy, []string{"X-Forwarded-For: 198.51.100.1, ::ffff:10.9.9.9"}, "198.51.100.1"},
		{"an IPv6 proxy", "[2001:db8:5::1]:1", []string{"X-Forwarded-For: 198.51.100.1"}, "198.51.100.1"},
		{"garbage", proxy, []string{"X-Forwarded-For: me"}, "10.0.0.1"},
		{"garbage on the right", proxy, []string{"X-Forwarded-For: 198.51.100.1, "}, "10.0.0.1"},
		{"garbage behind a proxy", proxy, []string{"X-Forwarded-For: unknown, 10.9.9.9"}, "10.0.0.1"},
		{"garbage to the left of the client", proxy, []string{"X-Forwarded-For: ,,\"'; drop, 198.51.100.1"}, "198.51.100.1"},
		{"a quote that the client left open", proxy, []string{"X-Forwarded-For: \"8.8.8.8, 198.51.100.1"}, "198.51.100.1"},
		{"a zone", proxy, []string{"X-Forwarded-For: fe80::1%eth0"}, "10.0.0.1"},
		{"empty", proxy, []string{"X-Forwarded-For: "}, "10.0.0.1"},
		{"a number", proxy, []string{"X-Forwarded-For: 3325256705"}, "10.0.0.1"},
		{"Forwarded", proxy, []string{"Forwarded: for=198.51.100.1;proto=https;by=10.0.0.1"}, "198.51.100.1"},
		{"Forwarded, for is not the first", proxy, []string{"Forwarded: proto=https;FOR=198.51.100.1"}, "198.51.100.1"},
		{"Forwarded, several", proxy, []string{"Forwarded: for=8.8.8.8, for=198.51.100.1;host=\"a,b;for=9.9.9.9\", for=10.9.9.9"}, "198.51.100.1"},
		{"Forwarded, IPv6", proxy, []string{`Forwarded: for="[2001:db8::1]:4711"`}, "2001:db8::1"},
		{"Forwarded, several lines", proxy, []string{"Forwarded: for=8.8.8.8", `Forwarded: for="198.51.100.1:80"`}, "198.51.100.1"},
		{"Forwarded, a quote that the client left open", proxy, []string{"Forwarded: for=\"8.8.8.8, for=198.51.100.1"}, "10.0.0.1"},
		{"Forwarded, unknown", proxy, []string{"Forwarded: for=unknown"}, "10.0.0.1"},
		{"Forwarded, obfuscated", proxy, []string{"Forwarded: for=_hidden, for=10.9.9.9"}, "10.0.0.1"},
		{"Forwarded without for", proxy, []string{"Forwarded: proto=https"}, "10.0.0.1"},
		{"Forwarded, for twice", proxy, []string{"Forwarded: for=198.51.100.1;for=8.8.8.8"}, "10.0.0.1"},
		{"both agree", proxy, []string{"X-Forwarded-For: 8.8.8.8, 198.51.100.1", "Forwarded: for=198.51.100.1"}, "198.51.100.1"},
		{"the client adds the header that the proxy passes on", proxy, []string{"X-Forwarded-For: 198.51.100.1", "Forwarded: for=8.8.8.8"}, "10.0.0.1"},
		{"and garbage", proxy, []string{"X-Forwarded-For: 198.51.100.1", "Forwarded: x"}, "10.0.0.1"},
		{"a peer with a zone", "[fe80::1%eth0]:1", nil, "fe80::1"},
		{"a peer without a port", "203.0.113.9", nil, "203.0.113.9"},
		{"a peer without an address", "@", []string{"X-Forwarded-For: 198.51.100.1"}, "invalid IP"},
	} {
		r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{}}
		for _, h := range tt.headers {
			name, value, _ := strings.Cut(h, ": ")
			r.Header.Add(name, value)
		}
		if got := ClientAddr(r, proxies).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// Whatever a client writes, behind a proxy that adds its address to one of the
// headers it is that address or the proxy's, and never one of its choosing.
func FuzzClientAddr(f *testing.F) {
	for _, s := range []string{"", "8.8.8.8", "8.8.8.8,", "\"", "for=8.8.8.8", "for=\"[::1]:1\";by=x", "10.0.0.1", "\\\"", "\"\\"} {
		f.Add(s, s, true)
		f.Add(s, "", false)
	}
	f.Fuzz(func(t *testing.T, listed, forwarded string, addsListed bool) {
		r := &http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{}}
		join := func(name, wrote, adds string) {
			if wrote != "" && adds != "" {
				adds = ", " + adds
			}
			if wrote+adds != "" {
				r.Header[name] = []string{wrote + adds}
			}
		}
		if addsListed {
			join("X-Forwarded-For", listed, "198.51.100.1")
			join("Forwarded", forwarded, "")
		} else {
			join("X-Forwarded-For", listed, "")
			join("Forwarded", forwarded, "for=198.51.100.1")
		}
		if got := ClientAddr(r, proxies).String(); got != "198.51.100.1" && got != "10.0.0.1" {
			t.Fatalf("%q is taken for %s", r.Header, got)
		}
	})
}
