package fetch

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// A special block is one that a public download must not reach.
type special struct {
	prefix netip.Prefix
	name   string
}

// special4 follows the IANA IPv4 special-purpose address registry (RFC 6890 and its successors), with multicast and
// one public address at which virtual machines of a large cloud reach their host.
var special4 = []special{
	block("0.0.0.0/8", "this network"),
	block("10.0.0.0/8", "private"),
	block("100.64.0.0/10", "shared (carrier-grade NAT)"),
	block("127.0.0.0/8", "loopback"),
	block("168.63.129.16/32", "cloud host service"),
	block("169.254.0.0/16", "link-local"),
	block("172.16.0.0/12", "private"),
	block("192.0.0.0/24", "protocol assignments"),
	block("192.0.2.0/24", "documentation"),
	block("192.31.196.0/24", "AS112"),
	block("192.52.193.0/24", "AMT"),
	block("192.88.99.0/24", "6to4 relay"),
	block("192.168.0.0/16", "private"),
	block("192.175.48.0/24", "AS112"),
	block("198.18.0.0/15", "benchmarking"),
	block("198.51.100.0/24", "documentation"),
	block("203.0.113.0/24", "documentation"),
	block("224.0.0.0/4", "multicast"),
	block("240.0.0.0/4", "reserved"),
}

// special6 names the blocks for the error text; addresses outside global6 are refused whether or not they are listed.
var special6 = []special{
	block("::/128", "unspecified"),
	block("::1/128", "loopback"),
	block("::ffff:0:0/96", "IPv4-mapped"),
	block("::/96", "IPv4-compatible"),
	block("64:ff9b::/96", "NAT64"),
	block("64:ff9b:1::/48", "local NAT64"),
	block("100::/64", "discard"),
	block("2001::/32", "Teredo"),
	block("2001::/23", "protocol assignments"),
	block("2001:db8::/32", "documentation"),
	block("2002::/16", "6to4"),
	block("2620:4f:8000::/48", "AS112"),
	block("3fff::/20", "documentation"),
	block("5f00::/16", "segment routing"),
	block("fc00::/7", "private (unique local)"),
	block("fe80::/10", "link-local"),
	block("fec0::/10", "site-local"),
	block("ff00::/8", "multicast"),
}

// global6 is the only part of IPv6 that is allocated for global unicast.
var global6 = netip.MustParsePrefix("2000::/3")

func block(prefix, name string) special {
	return special{netip.MustParsePrefix(prefix), name}
}

// checkAddress returns a refusal unless a may be dialled. It alone decides about addresses: the dialer calls it for
// each address of a name, and the socket's control function calls it again.
func (p *Policy) checkAddress(a netip.Addr) error {
	if a.Zone() != "" {
		return refusal(fmt.Sprintf("address %s has a zone", a))
	}
	if a.Is4In6() {
		a = a.Unmap()
	}
	if slices.ContainsFunc(p.Allow, func(q netip.Prefix) bool { return q.Contains(a) }) {
		if inner, ok := embedded(a); ok {
			return p.checkAddress(inner)
		}
		return nil
	}
	if name := specialName(a); name != "" {
		return refusal(fmt.Sprintf("address %s is %s", a, name))
	}
	own, err := p.OwnAddresses()
	if err != nil {
		return fmt.Errorf("list own addresses: %w", err)
	}
	for _, o := range own {
		if o.Unmap() == a {
			return refusal(fmt.Sprintf("address %s is this machine's own", a))
		}
	}
	return nil
}

func specialName(a netip.Addr) string {
	blocks := special4
	if a.Is6() {
		blocks = special6
	}
	for _, s := range blocks {
		if s.prefix.Contains(a) {
			return s.name
		}
	}
	if a.Is6() && !global6.Contains(a) || !a.IsValid() {
		return "not public"
	}
	return ""
}

// embedded returns the IPv4 address that an IPv6 address embeds: NAT64 (RFC 6052), 6to4 (RFC 3056), Teredo (RFC
// 4380), IPv4-compatible.
func embedded(a netip.Addr) (netip.Addr, bool) {
	if !a.Is6() {
		return netip.Addr{}, false
	}
	b := a.As16()
	var v4 [4]byte
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(a), netip.MustParsePrefix("::/96").Contains(a) &&
		!a.IsLoopback():
		copy(v4[:], b[12:])
	case netip.MustParsePrefix("2002::/16").Contains(a):
		copy(v4[:], b[2:6])
	case netip.MustParsePrefix("2001::/32").Contains(a):
		for i := range v4 {
			v4[i] = ^b[12+i]
		}
	default:
		return netip.Addr{}, false
	}
	return netip.AddrFrom4(v4), true
}

func interfaceAddresses() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var own []netip.Addr
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(n.IP); ok {
				own = append(own, addr.Unmap())
			}
		}
	}
	return own, nil
}
