package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// dial connects to a host. Errors name no address; the log has them.
func (c *Client) dial(ctx context.Context, network, hostPort string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, err
	}
	conn, err := c.policy.dial(ctx, network, host, port)
	if err != nil {
		c.hosts.report(host, err)
		return nil, unreachable(host, err)
	}
	return conn, nil
}

// dial resolves the host, drops the refused addresses and tries the rest in order. It connects to the address that
// was checked, never to the name again.
func (p *Policy) dial(ctx context.Context, network, host, port string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.ConnectTimeout)
	defer cancel()
	addrs, err := p.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	var first error
	for i, a := range addrs {
		conn, err := p.dialOne(ctx, network, net.JoinHostPort(a.String(), port), len(addrs)-i)
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// resolve returns the addresses of host that may be dialled, at least one, or a refusal.
func (p *Policy) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, p.checkAddress(a)
	}
	all, err := p.Lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	var good []netip.Addr
	var first error
	for _, a := range all {
		if err := p.checkAddress(a); err == nil {
			good = append(good, a.Unmap())
		} else if first == nil {
			first = err
		}
	}
	if len(good) == 0 && first == nil {
		return nil, fmt.Errorf("%s has no address", host)
	}
	if len(good) == 0 {
		return nil, fmt.Errorf("%s: %w", host, first)
	}
	return good, nil
}

// dialOne shares the remaining time among the remaining addresses, so that one unreachable address does not use it
// up.
func (p *Policy) dialOne(ctx context.Context, network, address string, left int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	if p.Dial != nil {
		return p.Dial(ctx, network, address)
	}
	d := net.Dialer{Control: p.control}
	return d.DialContext(ctx, network, address)
}

// control checks the socket's real destination just before connect(2).
func (p *Policy) control(network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return refusal("network " + network + " is not TCP")
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return refusal("address " + address + " is no IP address")
	}
	return p.checkAddress(to.Addr())
}

// refusal is the reason why a URL or an address is not followed.
type refusal string

func (r refusal) Error() string { return string(r) }

func isRefusal(err error) bool {
	var r refusal
	return errors.As(err, &r)
}
