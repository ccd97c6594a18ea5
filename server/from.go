package server

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/engine/repeat"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/listen"
)

// unknownSender is the address of a sender whose connection has none that can be read.
const unknownSender = "unknown"

// From returns the address that a request comes from: that of the connection, or what the trusted proxies on the way
// forward, from the last one back to the first address that is none of them. "unknown" if it cannot be read.
func (s *Server) From(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return unknownSender
	}
	address := peer.Addr().Unmap().WithZone("")
	list := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(list) - 1; i >= 0 && s.isProxy(address); i-- {
		next, err := netip.ParseAddr(strings.TrimSpace(list[i]))
		if err != nil {
			break
		}
		address = next.Unmap().WithZone("")
	}
	return address.String()
}

// Party returns what limits count as one sender of requests without an identity: the address of [Server.From], or its
// network ([listen.Party]).
func (s *Server) Party(r *http.Request) string {
	from := s.From(r)
	if a, err := netip.ParseAddr(from); err == nil {
		return listen.Party(a).String()
	}
	return from
}

// withAddress returns a request whose context has the address that it comes from, for histories and the audit log, and
// notes whether it is repeated.
func (s *Server) withAddress(r *http.Request) *http.Request {
	return r.WithContext(job.WithAddress(repeat.With(r.Context()), s.From(r)))
}

// senders selects entries by the address of the sender. The zero value selects all entries.
type senders struct {
	text   string
	prefix netip.Prefix
}

// senders reads an address in any notation, a prefix such as 192.0.2.0/24, or "unknown", which [Server.From] returns.
func (p *Parameters) senders(name string) senders {
	s := senders{text: p.Text(name)}
	if s.text == "" || s.text == unknownSender {
		return s
	}
	if address, err := netip.ParseAddr(s.text); err == nil {
		address = address.Unmap().WithZone("")
		s.prefix = netip.PrefixFrom(address, address.BitLen())
		return s
	}
	prefix, err := netip.ParsePrefix(s.text)
	if err != nil {
		p.Wrong("%s must be an IP address, a prefix such as 192.0.2.0/24 or %q, not %.40q", name, unknownSender, s.text)
		return s
	}
	if address := prefix.Addr(); address.Is4In6() && prefix.Bits() >= 96 {
		prefix = netip.PrefixFrom(address.Unmap(), prefix.Bits()-96)
	}
	s.prefix = prefix
	return s
}

// have reports whether the address of an entry is selected.
func (s *senders) have(text string) bool {
	if s.text == "" || s.text == text {
		return true
	}
	address, err := netip.ParseAddr(text)
	return err == nil && s.prefix.Contains(address.Unmap().WithZone(""))
}

func (s *Server) isProxy(address netip.Addr) bool {
	return slices.ContainsFunc(s.Proxies, func(n netip.Prefix) bool { return n.Contains(address) })
}
