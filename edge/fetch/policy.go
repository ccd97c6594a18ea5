package fetch

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"net/netip"
	"time"
)

// Policy defines the addresses, times and sizes of a Client. The zero Policy is safe.
type Policy struct {
	// Allow lists special networks that are allowed (for example 127.0.0.0/8 or a campus network). Defaults to none.
	// An address that embeds an IPv4 address (NAT64, 6to4) must also embed an allowed or public one.
	Allow []netip.Prefix
	// Ports lists the allowed ports. Defaults to 80, 443 and everything from 1024 on, which excludes mail, SSH, name
	// and file servers.
	Ports []uint16
	// FTP allows ftp URLs, at port 21 besides. Redirects to them are refused in any case.
	FTP bool
	// MaxBytes bounds one file. Defaults to 1 TiB.
	MaxBytes int64
	// MaxRedirects bounds the hops of one request. Defaults to 5; negative allows none.
	MaxRedirects int
	// ConnectTimeout bounds name lookup and dial, and then the TLS handshake. Defaults to 15 s.
	ConnectTimeout time.Duration
	// HeaderTimeout bounds the wait for the response header. Defaults to 20 s.
	HeaderTimeout time.Duration
	// IdleTimeout bounds the wait for the next bytes of a body. Defaults to 60 s.
	IdleTimeout time.Duration
	// TotalTimeout bounds one call of Download with all its attempts. Defaults to 24 h.
	TotalTimeout time.Duration
	// MinRate is the fewest bytes per second, averaged over RateWindow of reading (time spent on the local disk does
	// not count). Defaults to 1024; negative disables the check.
	MinRate int64
	// RateWindow defaults to 30 s.
	RateWindow time.Duration
	// Retries is the number of retries after temporary errors within one call. Defaults to 2; negative is none.
	Retries int
	// Backoff is the mean wait before the first retry; it doubles with each. Defaults to 1 s.
	Backoff time.Duration
	// MaxWait is the longest Retry-After that a call waits; a longer one ends the call with an error that carries it.
	// Defaults to 30 s.
	MaxWait time.Duration
	// UserAgent defaults to "stagepost".
	UserAgent string
	// RootCAs are the authorities for the certificates of https servers. Defaults to the system's.
	RootCAs *x509.CertPool

	// Log gets why hosts cannot be reached, with their addresses, which errors do not name. Defaults to none.
	Log *slog.Logger

	// Lookup resolves a host name. Defaults to the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial connects to an address that was checked ("ip:port", never a name). Defaults to a net.Dialer that checks
	// the address once more. Tests replace it.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// OwnAddresses lists this machine's addresses, which are refused even if they are public. Defaults to the
	// addresses of the network interfaces at each dial.
	OwnAddresses func() ([]netip.Addr, error)
}

const headerBytes = 64 << 10

func (p Policy) withDefaults() Policy {
	def(&p.MaxBytes, 1<<40)
	def(&p.ConnectTimeout, 15*time.Second)
	def(&p.HeaderTimeout, 20*time.Second)
	def(&p.IdleTimeout, 60*time.Second)
	def(&p.TotalTimeout, 24*time.Hour)
	def(&p.RateWindow, 30*time.Second)
	def(&p.Backoff, time.Second)
	def(&p.MaxWait, 30*time.Second)
	if p.MaxRedirects == 0 {
		p.MaxRedirects = 5
	}
	if p.MinRate == 0 {
		p.MinRate = 1024
	}
	if p.Retries == 0 {
		p.Retries = 2
	}
	if p.UserAgent == "" {
		p.UserAgent = "stagepost"
	}
	if p.Lookup == nil {
		p.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if p.OwnAddresses == nil {
		p.OwnAddresses = interfaceAddresses
	}
	return p
}

// def sets a limit that is zero or negative to its default.
func def[T ~int64](limit *T, value T) {
	if *limit <= 0 {
		*limit = value
	}
}

func (p *Policy) portAllowed(port uint16) bool {
	if len(p.Ports) == 0 {
		return port == 80 || port == 443 || port >= 1024
	}
	for _, q := range p.Ports {
		if q == port {
			return true
		}
	}
	return false
}
