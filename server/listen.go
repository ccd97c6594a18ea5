package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Listen opens an address such as "127.0.0.1:7433" for so many connections at once (0: 4096). Addresses beyond the loopback are refused unless whoever comes has to say who he is
// (authenticated): anybody who reaches the server could do anything.
func Listen(ctx context.Context, address string, most int, authenticated bool) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: it must be HOST:PORT", address)
	}
	if !authenticated && !Loopback(address) {
		return nil, fmt.Errorf("listen on %q: without tokens (--tokens) only loopback addresses (127.0.0.1, ::1, localhost) are allowed: anybody who reaches the server could do anything", address)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", address, err)
	}
	if a, ok := l.Addr().(*net.TCPAddr); !authenticated && (!ok || !a.IP.IsLoopback()) {
		_ = l.Close()
		return nil, fmt.Errorf("listen on %q: %s resolves to %s, which is not a loopback address", address, host, l.Addr())
	}
	if most <= 0 {
		most = 4096
	}
	return &bounded{Listener: l, room: make(chan struct{}, most), closed: make(chan struct{})}, nil
}

// Loopback tells whether an address HOST:PORT names the loopback.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// HTTP makes the server that serves h with limits against slow clients (check S6): the header within 5 s, a request or an answer within
// 30 s unless its route says otherwise, idle connections for 60 s, headers up to 16 KiB.
func HTTP(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 60 * time.Second, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// bounded accepts no more connections than it has room for; others wait in the kernel's queue.
type bounded struct {
	net.Listener
	room   chan struct{}
	closed chan struct{}
	once   sync.Once
}

func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.room <- struct{}{}:
	case <-b.closed:
		return nil, net.ErrClosed
	}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.room
		return nil, err
	}
	return &conn{Conn: c, free: func() { <-b.room }}, nil
}

func (b *bounded) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

// conn gives its place back when it is closed.
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
