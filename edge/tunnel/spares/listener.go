package spares

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Options of the agent's side. URL and Name are required.
type Options struct {
	URL    string      // of the server, http or https; without a path that of the API
	Header http.Header // sent with every request, such as Authorization
	Name   string      // of the agent: lower-case letters, digits and -._, at most 63 bytes

	Spare int // connections kept ready; defaults to 2
	Most  int // connections at once, used ones included; defaults to 256

	TLS       *tls.Config                                                          // for https; defaults to the system's
	Dial      func(ctx context.Context, network, address string) (net.Conn, error) // defaults to a net.Dialer with TCP keepalive
	Handshake time.Duration                                                        // for dialling, TLS and the server's answer together; defaults to 10 s
	Silence   time.Duration                                                        // of the server, after which a spare is dead; defaults to 60 s. More than the Pool's Ping

	Backoff    time.Duration // before the second attempt; it doubles with each; defaults to 200 ms
	BackoffMax time.Duration // defaults to 30 s
	Refused    time.Duration // least pause after the server has refused the agent's token (401, 403); defaults to 1 min

	Log *slog.Logger // defaults to none
}

// Listener gives the connections that the server has begun to use. It is a net.Listener.
type Listener struct {
	o      Options
	target *url.URL
	ctx    context.Context
	stop   context.CancelFunc
	busy   sync.WaitGroup
	room   chan struct{} // a place for each connection
	ready  chan net.Conn

	mu  sync.Mutex // guards err
	err error      // of the last attempt; nil when it worked
}

// Listen begins to keep spare connections to the server, until ctx ends or the listener is closed. It does not wait for the first: a server that cannot be
// reached is tried again and again, and [Listener.Err] tells why. The error is about the options.
func Listen(ctx context.Context, o Options) (*Listener, error) {
	target, err := url.Parse(o.URL)
	if err != nil || (target.Scheme != "http" && target.Scheme != "https") || target.Host == "" || target.RawQuery != "" || target.User != nil {
		return nil, errors.New("tunnel: URL must be that of a server (https://HOST)")
	}
	if !validName(o.Name) {
		return nil, fmt.Errorf("tunnel: the name must be 1 to %d lower-case letters, digits and between them - . and _, not %.80q", longestName, o.Name)
	}
	if o.Spare <= 0 {
		o.Spare = 2
	}
	if o.Most <= 0 {
		o.Most = 256
	}
	if o.Dial == nil {
		d := &net.Dialer{KeepAlive: 15 * time.Second}
		o.Dial = d.DialContext
	}
	for _, one := range []struct {
		d     *time.Duration
		usual time.Duration
	}{{&o.Handshake, 10 * time.Second}, {&o.Silence, time.Minute}, {&o.Backoff, 200 * time.Millisecond}, {&o.BackoffMax, 30 * time.Second}, {&o.Refused, time.Minute}} {
		if *one.d <= 0 {
			*one.d = one.usual
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if strings.Trim(target.Path, "/") == "" {
		target.Path = defaultPath
	}
	target.RawQuery = url.Values{"agent": {o.Name}}.Encode()
	l := &Listener{o: o, target: target, room: make(chan struct{}, o.Most), ready: make(chan net.Conn)}
	l.ctx, l.stop = context.WithCancel(ctx)
	for range min(o.Spare, o.Most) {
		l.busy.Go(l.keep)
	}
	return l, nil
}

// Accept waits for the server to begin to use a connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.ready:
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close ends the spare connections and waits until nothing of the listener runs any more. Connections that were accepted go on.
func (l *Listener) Close() error {
	l.stop()
	l.busy.Wait()
	return nil
}

// Addr names the agent as the server dials it.
func (l *Listener) Addr() net.Addr { return address(l.o.Name) }

// Err tells why the last attempt to reach the server failed; nil if it did not.
func (l *Listener) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

type address string

func (address) Network() string  { return "tunnel" }
func (a address) String() string { return string(a) + suffix }

// keep keeps one spare connection; when it is used or dead, another.
func (l *Listener) keep() {
	failed := 0
	for {
		select {
		case l.room <- struct{}{}:
		case <-l.ctx.Done():
			return
		}
		began := time.Now()
		c, err := l.spare()
		if l.ctx.Err() != nil {
			<-l.room
			if c != nil {
				_ = c.Conn.Close()
			}
			return
		}
		l.note(err)
		if err == nil {
			l.give(c)
			failed = 0
			continue
		}
		<-l.room
		if time.Since(began) > l.o.Silence/2 { // it was a good spare for a while: the server may have been restarted
			failed = 0
		}
		failed++
		l.o.Log.Debug("tunnel", "server", l.target.Host, "attempt", failed, "error", err)
		if !l.rest(l.pause(failed, lasting(err) != nil)) {
			return
		}
	}
}

// lasting gives the refusal that an error is, if that lasts until people do something.
func lasting(err error) *Refusal {
	var r *Refusal
	if errors.As(err, &r) && r.lasts() {
		return r
	}
	return nil
}

// note remembers how the last attempt went, and tells when that changes. A refusal that lasts is told once, also when it comes after other failures.
func (l *Listener) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.err
	l.err = err
	switch r := lasting(err); {
	case err == nil && before != nil:
		l.o.Log.Info("the tunnel is connected", "server", l.target.Host)
	case r != nil && (lasting(before) == nil || *lasting(before) != *r):
		l.o.Log.Warn("the server refuses this agent", "server", l.target.Host, "agent", l.o.Name, "status", r.Status, "reason", r.Reason, "asked_again_after", l.o.Refused.String())
	case r == nil && err != nil && before == nil:
		l.o.Log.Warn("the tunnel has no connection", "server", l.target.Host, "error", err)
	}
}

// give hands a connection to Accept; its place is free again when it is closed.
func (l *Listener) give(c *once) {
	select {
	case l.ready <- c:
	case <-l.ctx.Done():
		_ = c.Close()
	}
}

// rest waits before the next attempt.
func (l *Listener) rest(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.ctx.Done():
		return false
	}
}
