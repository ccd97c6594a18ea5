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
	URL    string      // of the server, http or https; without a path, the path of the API
	Header http.Header // sent with every request for an upgrade, such as Authorization
	Name   string      // of the agent: lower-case letters, digits and -._, at most 63 bytes

	Requests int // that the server may send concurrently; defaults to 256

	// for https; defaults to the system's
	TLS *tls.Config
	// defaults to a net.Dialer with TCP keepalive
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// defaults to http.ProxyFromEnvironment
	Proxy func(*http.Request) (*url.URL, error)
	// for dialling, TLS and the server's answer together; defaults to 10 s
	Handshake time.Duration
	// of the server, after which the connection is closed; defaults to 60 s
	Silence time.Duration

	Backoff    time.Duration // before the second attempt; it doubles with each; defaults to 200 ms
	BackoffMax time.Duration // defaults to 30 s
	Refused    time.Duration // least pause after the server has refused the agent's credential; defaults to 1 min

	Log *slog.Logger // defaults to none
}

// Listener keeps one connection to the server. It is a net.Listener, whose connections carry HTTP/2 without TLS:
// [Listener.Server] serves them.
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

// Listen begins to connect to the server, until ctx ends or the listener is closed. It does not wait for the
// connection: it retries an unreachable server, and [Listener.Err] reports the cause. The error concerns the options.
func Listen(ctx context.Context, o Options) (*Listener, error) {
	target, err := url.Parse(o.URL)
	if err != nil || (target.Scheme != "http" && target.Scheme != "https") || target.Host == "" ||
		target.RawQuery != "" || target.User != nil {
		return nil, errors.New("tunnel: URL must be that of a server (https://HOST)")
	}
	if !validName(o.Name) {
		return nil, fmt.Errorf("tunnel: the name must be 1 to %d lower-case letters, digits and between them - . and "+
			"_, not %.80q", longestName, o.Name)
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
	}{{&o.Handshake, 10 * time.Second},
		{&o.Silence, time.Minute}, {&o.Backoff, 200 * time.Millisecond}, {&o.BackoffMax, 30 * time.Second},
		{&o.Refused, time.Minute}} {
		if *one.d <= 0 {
			*one.d = one.usual
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Server returns the server for the listener's connections. It logs their errors.
func (l *Listener) Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler: joining(h), Protocols: unencrypted(), ReadHeaderTimeout: l.o.Handshake, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(l.o.Log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: l.o.Requests,
			MaxReadFrameSize:     frameSize, MaxReceiveBufferPerStream: streamWindow,
			MaxReceiveBufferPerConnection: connectionWindow,
			SendPingTimeout:               l.o.Silence / 2, PingTimeout: l.o.Silence / 2, WriteByteTimeout: l.o.Silence,
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

// Close ends the attempts to connect and waits until no goroutine of the listener runs. An accepted connection
// continues.
func (l *Listener) Close() error {
	l.stop()
	l.busy.Wait()
	return nil
}

// Addr returns the agent's address on the server.
func (l *Listener) Addr() net.Addr { return address(l.o.Name) }

// Err returns the error of the last attempt to reach the server; nil if it succeeded.
func (l *Listener) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

type address string

func (address) Network() string  { return "tunnel" }
func (a address) String() string { return string(a) + suffix }

// keep keeps one connection, and opens another one when it ends.
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
		// it worked for longer than the pause before it: the server may have restarted
		if err == nil && time.Since(began) > paused {
			failed = 0
		}
		failed++
		l.o.Log.Debug("tunnel", "server", l.target.Host, "attempt", failed, "error", err)
		if paused = l.pause(failed, lasting(err) != nil); !l.rest(paused) {
			return
		}
	}
}

// once gives one connection to Accept and waits for its end. The error is the reason for no connection.
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

// lasting returns the refusal in an error, if only a person can resolve it.
func lasting(err error) *Refusal {
	var r *Refusal
	if errors.As(err, &r) && r.lasts() {
		return r
	}
	return nil
}

// note records the result of the last attempt, and logs a change. A lasting refusal is logged once, also after other
// failures.
func (l *Listener) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.err
	l.err = err
	switch r := lasting(err); {
	case err == nil && before != nil:
		l.o.Log.Info("the tunnel is connected", "server", l.target.Host)
	case r != nil && (lasting(before) == nil || *lasting(before) != *r):
		l.o.Log.Warn("the server refuses this agent", "server",
			l.target.Host, "agent", l.o.Name, "status", r.Status, "reason", r.Reason, "asked_again_after",
			l.o.Refused.String())
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
