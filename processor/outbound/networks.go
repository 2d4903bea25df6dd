package outbound

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
)

// ErrRefused is an address that must not be called.
var ErrRefused = errors.New("the address is private, or no public one: name its network in callback.allow_private, or provider.allow_private where a provider is called, if it is meant")

// closed are the networks that are not public (the IANA registries of
// special-purpose addresses, RFC 6890), and a metadata service on a public address. Of IPv6
// they are those within unicast.
var closed = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"224.0.0.0/4", "240.0.0.0/4",
	"168.63.129.16/32", // Azure's
	"2001::/23",        // with Teredo, 2001::/32
	"2001:db8::/32", "3fff::/20",
)

// Public addresses of IPv6 are in unicast, which is all that IANA allots; or they hold one
// of IPv4, which is who answers, and that is public. What is neither is refused: loopback,
// local and reserved networks, and the forms of IPv4 that no public network routes
// (::a.b.c.d, ::ffff:0:a.b.c.d of RFC 2765, 64:ff9b:1::/48 of RFC 8215).
var (
	unicast = netip.MustParsePrefix("2000::/3")
	nat64   = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052: the last four bytes
	sixToFo = netip.MustParsePrefix("2002::/16")    // RFC 3056: the bytes after the first two
)

// held returns the address of IPv4 that one of IPv6 holds, and whether there is one. In an
// address of ISATAP (RFC 5214) it is the last four bytes, behind 0:5efe or 200:5efe.
func held(a netip.Addr) (netip.Addr, bool) {
	if !a.Is6() {
		return a, false
	}
	b := a.As16()
	switch {
	case nat64.Contains(a), b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe:
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case sixToFo.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return a, false
}

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, s := range texts {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// Networks are those that may be called although they are not public.
type Networks []netip.Prefix

// Loopback is this machine, for those who run a server on it.
var Loopback = Networks(prefixes("127.0.0.0/8", "::1/128"))

// Control is what a net.Dialer asks about each address that a name resolved to, right
// before it connects.
func (n Networks) Control(network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return ErrRefused // no address of a network
	}
	return n.Judge(to.Addr())
}

// ParseNetworks reads networks and single addresses.
func ParseNetworks(texts []string) (out Networks, err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if a, notOne := netip.ParseAddr(text); notOne == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil || p != p.Masked() || p.Addr().Is4In6() {
			return nil, fmt.Errorf("%q is no network: write its first address and how many bits it has, such as 10.0.0.0/8, 127.0.0.1 or fd00::/8", text)
		}
		out = append(out, p)
	}
	return out, nil
}

func (n Networks) String() string {
	texts := make([]string, len(n))
	for i, p := range n {
		texts[i] = p.String()
	}
	return strings.Join(texts, ",")
}

// Judge returns ErrRefused for an address that is neither public nor in one of the
// networks. One that holds an address of IPv4 is as good as that: it is allowed where the
// network of either is named, and refused where either is not public.
func (n Networks) Judge(a netip.Addr) error {
	a = a.WithZone("").Unmap()
	v4, holds := held(a)
	for _, p := range n {
		if p.Contains(a) || holds && p.Contains(v4) {
			return nil
		}
	}
	if !public(a) || holds && !public(v4) {
		return ErrRefused
	}
	return nil
}

// public reports whether an address is of a public network, by itself.
func public(a netip.Addr) bool {
	if !a.IsValid() || a.Is6() && !unicast.Contains(a) && !nat64.Contains(a) {
		return false
	}
	return !slices.ContainsFunc(closed, func(p netip.Prefix) bool { return p.Contains(a) })
}

// JudgeURL returns ErrRefused for a URL whose host is an address that Judge refuses. A host
// that is a name is judged by Control, when it is called.
func (n Networks) JudgeURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return nil // nothing is called by it
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(u.Hostname(), "."))
	if err != nil {
		return nil
	}
	return n.Judge(a)
}
