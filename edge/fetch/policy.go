package fetch

import (
	"context"
	"crypto/x509"
	"net"
	"net/netip"
	"time"
)

// Policy says what a Client may reach and how long and how much it may take. The zero Policy is safe and works.
type Policy struct {
	// Allow lists networks that are reached although they are special (for example 127.0.0.0/8 or a campus
	// network). Defaults to none. An address that carries an IPv4 address inside (NAT64, 6to4) must also
	// carry an allowed or public one.
	Allow []netip.Prefix
	// Ports lists the ports that may be reached. Defaults to 80, 443 and everything from 1024 on, which keeps
	// mail, SSH, name and file servers out of reach.
	Ports []uint16
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
	// TotalTimeout bounds one call of Download with all its tries. Defaults to 24 h.
	TotalTimeout time.Duration
	// MinRate is the fewest bytes per second, averaged over RateWindow of reading (time spent on the own disk
	// does not count). Defaults to 1024; negative switches the check off.
	MinRate int64
	// RateWindow defaults to 30 s.
	RateWindow time.Duration
	// Retries is how often a temporary error is tried again within one call. Defaults to 2; negative is none.
	Retries int
	// Backoff is the mean wait before the first retry; it doubles with each. Defaults to 1 s.
	Backoff time.Duration
	// MaxWait is the longest Retry-After that is waited for within a call; a longer one ends the call with an
	// error that carries it. Defaults to 30 s.
	MaxWait time.Duration
	// UserAgent defaults to "stagepost".
	UserAgent string
	// RootCAs are the authorities that https servers are checked against. Defaults to the system's.
	RootCAs *x509.CertPool

	// Lookup resolves a host name. Defaults to the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial connects to an address that was checked ("ip:port", never a name). Defaults to a net.Dialer that checks
	// the address once more. Tests put their own network here.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// OwnAddresses lists this machine's addresses, which are refused even where they are public. Defaults to the
	// addresses of the network interfaces, asked at each dial.
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

// def sets a limit that is zero or negative, and so would refuse everything, to its default.
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
