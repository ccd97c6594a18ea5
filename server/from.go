package server

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/job"
)

// From returns the address that a request comes from: that of the connection, or what the trusted proxies on the way
// forward, from the last one back to the first address that is none of them. "unknown" if it cannot be read.
func (s *Server) From(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "unknown"
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

// withAddress returns a request whose context has the address that it comes from, for histories and the audit log.
func (s *Server) withAddress(r *http.Request) *http.Request {
	return r.WithContext(job.WithAddress(r.Context(), s.From(r)))
}

func (s *Server) isProxy(address netip.Addr) bool {
	return slices.ContainsFunc(s.Proxies, func(n netip.Prefix) bool { return n.Contains(address) })
}
