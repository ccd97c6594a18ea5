// Package listen opens the addresses of a server, with limits for connections and slow clients.
package listen

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Open opens an address such as "127.0.0.1:7433" for at most so many connections at once (0: 4096). Without
// authentication it refuses addresses beyond the loopback: each client that reaches the server may do everything.
func Open(ctx context.Context, address string, most int, authenticated bool) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%q is not HOST:PORT", address)
	}
	if !authenticated && !Loopback(address) {
		return nil, fmt.Errorf("%s: without authentication (settings tokens, users, oidc.issuer, proxy.user, ca.dir) "+
			"only loopback addresses (127.0.0.1, ::1, localhost) are allowed: each client that reaches the server "+
			"could do anything", address)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		var failed *net.OpError
		var wrong *net.AddrError
		switch {
		case errors.As(err, &wrong) && wrong.Err == "invalid port":
			err = errors.New("the port must be a number from 0 to 65535")
		case errors.As(err, &failed):
			err = failed.Err // the text has its operation and address already
		}
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	if a, ok := l.Addr().(*net.TCPAddr); !authenticated && (!ok || !a.IP.IsLoopback()) {
		_ = l.Close()
		return nil, fmt.Errorf("%s: %s resolves to %s, which is not a loopback address", address, host, l.Addr())
	}
	if most <= 0 {
		most = 4096
	}
	return &bounded{
		Listener: l, slots: make(chan struct{}, most), closed: make(chan struct{}), from: map[netip.Addr]int{},
		share: max(min(most, 16), most/4),
	}, nil
}

// Loopback reports whether an address HOST:PORT names the loopback.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// HTTP returns a server of h with limits against slow clients: the header within 5 s, a request or an answer within 30
// s unless its route extends the deadline, idle connections for 60 s, headers up to 16 KiB.
func HTTP(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 60 * time.Second, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(),
			slog.LevelDebug),
	}
}

// bounded accepts at most as many connections as it has slots; others wait in the kernel's queue. One address has a
// quarter of the slots, 16 at least; further connections from it are closed.
type bounded struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
	share  int // connections of one address

	mu   sync.Mutex         // guards from
	from map[netip.Addr]int // open connections
}

func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.slots <- struct{}{}:
	case <-b.closed:
		return nil, net.ErrClosed
	}
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			<-b.slots
			return nil, err
		}
		from := addressOf(c)
		if b.enter(from) {
			return &conn{Conn: c, free: func() { b.leave(from); <-b.slots }}, nil
		}
		_ = c.Close()
	}
}

// addressOf returns the address that a connection comes from; of IPv6 the network of 64 bits.
func addressOf(c net.Conn) netip.Addr {
	a, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return Party(a.Addr())
}

// Party returns what counts as one client of an address: of IPv6 the network of 64 bits, which one client has whole.
func Party(from netip.Addr) netip.Addr {
	from = from.Unmap().WithZone("")
	if from.Is6() {
		if net, err := from.Prefix(64); err == nil {
			from = net.Addr()
		}
	}
	return from
}

// enter counts a connection, if its address may have one more.
func (b *bounded) enter(from netip.Addr) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.from[from] >= b.share {
		return false
	}
	b.from[from]++
	return true
}

func (b *bounded) leave(from netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.from[from]--; b.from[from] == 0 {
		delete(b.from, from)
	}
}

func (b *bounded) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

// conn frees its slot when it is closed.
type conn struct {
	net.Conn
	once sync.Once
	free func()
}

func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.free)
	return err
}
