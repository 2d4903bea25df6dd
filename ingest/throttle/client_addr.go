package throttle

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ClientAddr tells from which address a request comes. That is the peer's, unless the
// peer is a trusted proxy: then it is the rightmost address that is none in X-Forwarded-For
// or Forwarded (RFC 7239), to whose right end each proxy adds the address
// that called it. What stands further left anyone may have written. Where all
// are trusted it is the leftmost.
//
// A proxy keeps one of the two headers and passes the other on as the client
// wrote it, and which is which cannot be told: if both are there, they must
// agree. Where they do not, and where something stands there that is no
// address (unknown, a name, an obfuscated identifier), it is the peer.
//
// The address is without zone and never an IPv4 address in IPv6's form. It is
// the zero Addr where the peer has no address.
func ClientAddr(r *http.Request, trusted []netip.Prefix) netip.Addr {
	peer := peerAddr(r.RemoteAddr)
	if !trusts(trusted, peer) {
		return peer
	}
	listed, forwarded := r.Header["X-Forwarded-For"], r.Header["Forwarded"]
	out := peer
	if len(listed) > 0 {
		a, ok := client(listed, lastComma, trusted, hostAddr)
		if !ok {
			return peer
		}
		out = a
	}
	if len(forwarded) > 0 {
		a, ok := client(forwarded, lastUnquoted(','), trusted, forAddr)
		if !ok || len(listed) > 0 && a != out {
			return peer
		}
		out = a
	}
	return out
}

func peerAddr(text string) netip.Addr {
	if ap, err := netip.ParseAddrPort(text); err == nil {
		return ap.Addr().Unmap().WithZone("")
	}
	a, _ := netip.ParseAddr(text)
	return a.Unmap().WithZone("")
}

func trusts(trusted []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
}

// client walks a list header from its right end. ok is false if what decides
// is no address. last finds the last separator of a line, or -1.
func client(lines []string, last func(string) int, trusted []netip.Prefix, read func(string) (netip.Addr, bool)) (out netip.Addr, ok bool) {
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, at := lines[i], 0; at >= 0; {
			at = last(rest)
			item := rest[at+1:]
			rest = rest[:max(at, 0)]
			a, good := read(strings.Trim(item, " \t"))
			if !good {
				return netip.Addr{}, false
			}
			if out = a; !trusts(trusted, a) {
				return out, true
			}
		}
	}
	return out, out.IsValid()
}

func lastComma(text string) int { return strings.LastIndexByte(text, ',') }

// lastUnquoted finds the last sep that is not within quotes.
func lastUnquoted(sep byte) func(string) int {
	return func(text string) int {
		quoted, at := false, -1
		for i := 0; i < len(text); i++ {
			switch c := text[i]; {
			case c == '\\' && quoted:
				i++
			case c == '"':
				quoted = !quoted
			case c == sep && !quoted:
				at = i
			}
		}
		return at
	}
}

// hostAddr reads an address, perhaps with a port: 192.0.2.1, 192.0.2.1:80,
// 2001:db8::1, [2001:db8::1], [2001:db8::1]:80.
func hostAddr(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		if inner, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(inner, "]") {
			a, err = netip.ParseAddr(inner[:len(inner)-1])
		} else {
			var ap netip.AddrPort
			ap, err = netip.ParseAddrPort(text)
			a = ap.Addr()
		}
	}
	return a.Unmap(), err == nil && a.Zone() == ""
}

// forAddr reads the for parameter of one element of Forwarded:
// for="[2001:db8::1]:4711";proto=https.
func forAddr(element string) (out netip.Addr, ok bool) {
	for rest, at := element, 0; at >= 0; {
		at = lastUnquoted(';')(rest)
		pair := rest[at+1:]
		rest = rest[:max(at, 0)]
		name, value, found := strings.Cut(strings.Trim(pair, " \t"), "=")
		if !found || !strings.EqualFold(name, "for") {
			continue
		}
		if ok { // twice: either could be anyone's
			return netip.Addr{}, false
		}
		if inner, quoted := strings.CutPrefix(value, `"`); quoted {
			value = strings.TrimSuffix(inner, `"`)
		}
		if out, ok = hostAddr(value); !ok {
			return netip.Addr{}, false
		}
	}
	return out, ok
}
