package tunnel

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
	Header http.Header // sent with every request for an upgrade, such as Authorization
	Name   string      // of the agent: lower-case letters, digits and -._, at most 63 bytes

	Requests int // that the server may send at once; defaults to 256

	TLS       *tls.Config                                                          // for https; defaults to the system's
	Dial      func(ctx context.Context, network, address string) (net.Conn, error) // defaults to a net.Dialer with TCP keepalive
	Proxy     func(*http.Request) (*url.URL, error)                                // defaults to http.ProxyFromEnvironment
	Handshake time.Duration                                                        // for dialling, TLS and the server's answer together; defaults to 10 s
	Silence   time.Duration                                                        // of the server, after which the connection is closed; defaults to 60 s

	Backoff    time.Duration // before the second attempt; it doubles with each; defaults to 200 ms
	BackoffMax time.Duration // defaults to 30 s
	Refused    time.Duration // least pause after the server has refused the agent's token (401, 403); defaults to 1 min

	Log *slog.Logger // defaults to none
}

// Listener keeps one connection to the server. It is a net.Listener, whose connections speak HTTP/2 without TLS: [Listener.Server] serves them.
type Listener struct {
	o         Options
	target    *url.URL
	transport *http.Transport
	ctx       context.Context
	stop      context.CancelFunc
	busy      sync.WaitGroup
	ready     chan net.Conn

	mu  sync.Mutex // guards err
	err error      // of the last attempt; nil when it worked
}

// Listen begins to connect to the server, until ctx ends or the listener is closed. It does not wait for the connection: a server that cannot be
// reached is tried again and again, and [Listener.Err] reports why. The error is about the options.
func Listen(ctx context.Context, o Options) (*Listener, error) {
	target, err := url.Parse(o.URL)
	if err != nil || (target.Scheme != "http" && target.Scheme != "https") || target.Host == "" || target.RawQuery != "" || target.User != nil {
		return nil, errors.New("tunnel: URL must be that of a server (https://HOST)")
	}
	if !validName(o.Name) {
		return nil, fmt.Errorf("tunnel: the name must be 1 to %d lower-case letters, digits and between them - . and _, not %.80q", longestName, o.Name)
	}
	if strings.Trim(target.Path, "/") == "" {
		target.Path = defaultPath
	}
	target.RawQuery = url.Values{"agent": {o.Name}}.Encode()
	l := &Listener{o: o.withDefaults(), target: target, ready: make(chan net.Conn)}
	l.ctx, l.stop = context.WithCancel(ctx)
	l.transport = l.newTransport()
	l.busy.Go(l.keep)
	return l, nil
}

func (o Options) withDefaults() Options {
	if o.Requests <= 0 {
		o.Requests = 256
	}
	if o.Dial == nil {
		d := &net.Dialer{KeepAlive: 15 * time.Second}
		o.Dial = d.DialContext
	}
	if o.Proxy == nil {
		o.Proxy = http.ProxyFromEnvironment
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
	return o
}

// Server makes the server for the listener's connections. What it says of connections goes to the log.
func (l *Listener) Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler: joining(h), Protocols: unencrypted(), ReadHeaderTimeout: l.o.Handshake, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(l.o.Log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: l.o.Requests, MaxReadFrameSize: frameSize, MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connectionWindow,
			SendPingTimeout: l.o.Silence / 2, PingTimeout: l.o.Silence / 2, WriteByteTimeout: l.o.Silence,
		},
	}
}

// Accept waits for the next connection to the server.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.ready:
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close ends the attempts to connect and waits until nothing of the listener runs any more. A connection that was accepted goes on.
func (l *Listener) Close() error {
	l.stop()
	l.busy.Wait()
	return nil
}

// Addr names the agent as the server addresses it.
func (l *Listener) Addr() net.Addr { return address(l.o.Name) }

// Err reports why the last attempt to reach the server failed; nil if it did not.
func (l *Listener) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

type address string

func (address) Network() string  { return "tunnel" }
func (a address) String() string { return string(a) + suffix }

// keep keeps one connection; when it ends, another.
func (l *Listener) keep() {
	failed, paused := 0, time.Duration(0)
	for l.ctx.Err() == nil {
		began := time.Now()
		err := l.once()
		if l.ctx.Err() != nil {
			return
		}
		if err != nil {
			l.note(err)
		}
		if err == nil && time.Since(began) > paused { // it worked for longer than the pause before it: the server may have been restarted
			failed = 0
		}
		failed++
		l.o.Log.Debug("tunnel", "server", l.target.Host, "attempt", failed, "error", err)
		if paused = l.pause(failed, lasting(err) != nil); !l.rest(paused) {
			return
		}
	}
}

// once gives one connection to Accept and waits for its end. The error says why there was none.
func (l *Listener) once() error {
	raw, err := l.upgrade()
	if err != nil {
		return err
	}
	l.note(nil)
	ended := make(chan struct{})
	c := &notifying{Conn: raw, closed: func() { close(ended) }}
	select {
	case l.ready <- c:
	case <-l.ctx.Done():
		return c.Close()
	}
	select {
	case <-ended:
	case <-l.ctx.Done():
	}
	return nil
}

// lasting gives the refusal that an error is, if that lasts until people do something.
func lasting(err error) *Refusal {
	var r *Refusal
	if errors.As(err, &r) && r.lasts() {
		return r
	}
	return nil
}

// note remembers how the last attempt went, and logs when that changes. A refusal that lasts is logged once, also when it comes after other failures.
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
