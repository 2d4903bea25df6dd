package outbound

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
)

// ErrRefused is an address that must not be called.
var ErrRefused = errors.New("the address is private, or no public one: name its network in callback.allow_private, or provider.allow_private where a provider is called, if it is meant")

// closed are the networks that are not public (the IANA registries of
// special-purpose addresses, RFC 6890), and a metadata service on a public address.
var closed = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"224.0.0.0/4", "240.0.0.0/4",
	"168.63.129.16/32", // Azure's
	"::/96",            // unspecified, loopback, and the old form of IPv4
	"64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
)

// Networks of IPv6 whose addresses hold one of IPv4, which is who answers.
var (
	nat64   = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052: the last four bytes
	sixToFo = netip.MustParsePrefix("2002::/16")    // RFC 3056: the bytes after the first two
)

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
// networks. What holds an address of IPv4 is judged as that.
func (n Networks) Judge(a netip.Addr) error {
	a = a.WithZone("").Unmap()
	switch b := a.As16(); {
	case nat64.Contains(a):
		a = netip.AddrFrom4([4]byte(b[12:16]))
	case sixToFo.Contains(a):
		a = netip.AddrFrom4([4]byte(b[2:6]))
	}
	for _, p := range n {
		if p.Contains(a) {
			return nil
		}
	}
	if !a.IsValid() {
		return ErrRefused
	}
	for _, p := range closed {
		if p.Contains(a) {
			return ErrRefused
		}
	}
	return nil
}
