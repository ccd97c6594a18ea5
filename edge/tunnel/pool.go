package tunnel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// PoolOptions are the options of the server's side. Authenticate is required.
type PoolOptions struct {
	// Authenticate returns the name of the agent of a request, by its token. An agent that names itself differently
	// is refused. The error is answered with 403.
	Authenticate func(r *http.Request) (name string, err error)

	// Fail writes a refusal. Defaults to plain text.
	Fail func(w http.ResponseWriter, r *http.Request, status int, err error)

	// Changed is called after an agent has connected (its first connection) or disconnected (none for the time of
	// Linger). Calls are serialized. It must not block, and may call Agents. Close does not call it.
	Changed func(name string, here bool)

	Connections int           // concurrent, of one agent; a new one replaces the oldest; defaults to 4
	Ping        time.Duration // of silence, after which an agent is pinged; defaults to 15 s
	Handshake   time.Duration // for an agent to answer a ping, or the first request; defaults to 5 s
	Linger      time.Duration // without a connection until an agent counts as disconnected; defaults to 5 s

	Log *slog.Logger // defaults to none
}

// Pool keeps the connections of agents and sends requests over them: it is an http.RoundTripper. It is safe for
// concurrent use.
type Pool struct {
	o         PoolOptions
	transport *http.Transport // creates the clients of connections
	life      context.Context
	stop      context.CancelFunc
	busy      sync.WaitGroup // connections before their first answer

	notifying sync.Mutex      // held while Changed is called; guards reported
	reported  map[string]bool // connected agents, as reported to Changed

	mu     sync.Mutex // guards the rest
	agents map[string]*agent
	more   chan struct{} // closed and replaced when a connection is added
	closed bool
}

// agent is the state of one agent in the pool. It exists while the agent has a connection, and for Linger after that.
type agent struct {
	links  []*link // the newest last
	since  time.Time
	remote string      // address of the newest connection
	going  *time.Timer // removes it after Linger; nil while it has a connection
}

// Status is the status of a connected agent.
type Status struct {
	Name        string
	Connections int
	Requests    int       // without a complete answer
	Since       time.Time // when it connected
	Remote      string    // the address of its last connection
}

// NewPool returns a pool. The error concerns the options.
func NewPool(o PoolOptions) (*Pool, error) {
	if o.Authenticate == nil {
		return nil, errors.New("tunnel: the option Authenticate is missing")
	}
	if o.Fail == nil {
		o.Fail = func(w http.ResponseWriter, _ *http.Request, status int, err error) {
			http.Error(w, err.Error(), status)
		}
	}
	if o.Changed == nil {
		o.Changed = func(string, bool) {}
	}
	if o.Connections <= 0 {
		o.Connections = 4
	}
	if o.Ping <= 0 {
		o.Ping = 15 * time.Second
	}
	if o.Handshake <= 0 {
		o.Handshake = 5 * time.Second
	}
	if o.Linger <= 0 {
		o.Linger = 5 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Pool{o: o, agents: map[string]*agent{}, reported: map[string]bool{}, more: make(chan struct{})}
	p.life, p.stop = context.WithCancel(context.Background())
	p.transport = &http.Transport{
		Protocols: unencrypted(), DialContext: connectionOf, DisableCompression: true,
		ExpectContinueTimeout: time.Second,
		HTTP2: &http.HTTP2Config{
			MaxReadFrameSize: frameSize, MaxReceiveBufferPerStream: streamWindow,
			MaxReceiveBufferPerConnection: connectionWindow,
			SendPingTimeout:               o.Ping, PingTimeout: o.Handshake,
		},
	}
	return p, nil
}

// ServeHTTP takes over the connection of an agent that requests the upgrade. It returns at once; the connection
// remains.
func (p *Pool) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !asksForUpgrade(r.Header) || r.ProtoMajor != 1 {
		w.Header().Set("Upgrade", upgradeName)
		p.o.Fail(w, r, http.StatusUpgradeRequired,
			errors.New("this address is for agents, which ask with HTTP/1.1 for the upgrade to "+upgradeName))
		return
	}
	name, err := p.o.Authenticate(r)
	if err == nil {
		err = p.check(name, r.URL.Query()["agent"])
	}
	if err != nil {
		p.o.Fail(w, r, http.StatusForbidden, err)
		return
	}
	if p.life.Err() != nil {
		p.o.Fail(w, r, http.StatusServiceUnavailable, errClosed)
		return
	}
	c, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		p.o.Fail(w, r, http.StatusInternalServerError, fmt.Errorf("the connection cannot be hijacked: %w", err))
		return
	}
	if err := p.accept(c, buffered.Reader.Buffered()); err != nil {
		p.o.Log.Debug("tunnel", "agent", name, "error", err)
		_ = c.Close()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close()
		return
	}
	p.busy.Go(func() { p.begin(name, c) })
}

// check compares the name that an agent sends with the name of its token.
func (p *Pool) check(name string, said []string) error {
	if !validName(name) {
		return fmt.Errorf("%.80q cannot be the name of an agent: it needs 1 to %d lower-case letters, digits and "+
			"between them - . and _", name, longestName)
	}
	if len(said) != 1 || said[0] != name {
		return fmt.Errorf("the token is that of the agent %s, not of %.80q", name, strings.Join(said, ", "))
	}
	return nil
}

// accept answers the request for the upgrade.
func (p *Pool) accept(c net.Conn, buffered int) error {
	if buffered > 0 {
		return errors.New("the agent sent data before the answer")
	}
	if err := c.SetDeadline(time.Now().Add(p.o.Handshake)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + upgradeName +
		"\r\n\r\n")); err != nil {
		return err
	}
	return c.SetDeadline(time.Time{})
}

var errClosed = errors.New("the server stops")

// Agents lists the connected agents, by name.
func (p *Pool) Agents() []Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Status, 0, len(p.agents))
	for name, a := range p.agents {
		one := Status{Name: name, Connections: len(a.links), Since: a.since, Remote: a.remote}
		for _, l := range a.links {
			one.Requests += l.client.InFlight()
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Close closes all connections, which ends their requests, and refuses new ones.
func (p *Pool) Close() error {
	p.stop()
	p.mu.Lock()
	p.closed = true
	close(p.more)
	p.more = make(chan struct{})
	var all []*link
	for _, a := range p.agents {
		all = append(all, a.links...)
		if a.going != nil {
			a.going.Stop()
		}
	}
	p.mu.Unlock()
	for _, l := range all {
		_ = l.client.Close()
	}
	p.busy.Wait()
	return nil
}

// RoundTrip sends a request to the agent of an address such as http://node-1.tunnel. If the agent has no connection,
// it waits for one until the request's context ends. If the first connection ends before the answer begins, a safe
// request without a body is sent again over another one.
func (p *Pool) RoundTrip(r *http.Request) (*http.Response, error) {
	name, err := agentOf(r.URL)
	if err != nil {
		return nil, abandon(r, err)
	}
	for try := 1; ; try++ {
		l, err := p.await(r.Context(), name)
		if err != nil {
			return nil, abandon(r, fmt.Errorf("tunnel: %s: %w", name, err))
		}
		answer, err := l.client.RoundTrip(r)
		if err == nil {
			answer.Body = &joinedReader{ReadCloser: answer.Body}
		}
		if err == nil || l.client.Err() == nil || try == 3 || !repeatable(r) || r.Context().Err() != nil {
			return answer, err
		}
		p.o.Log.Debug("a connection of the tunnel ended", "agent", name, "error", err)
	}
}

// agentOf returns the agent of an address.
func agentOf(u *url.URL) (string, error) {
	if name, ok := strings.CutSuffix(u.Hostname(), suffix); ok && u.Scheme == "http" && validName(name) {
		return name, nil
	}
	return "", fmt.Errorf("tunnel: %q is not the address of an agent (http://NAME%s)", u.Scheme+"://"+u.Host, suffix)
}

// abandon closes the body of a request that is not sent, as http.RoundTripper requires.
func abandon(r *http.Request, err error) error {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return err
}

func repeatable(r *http.Request) bool {
	return (r.Body == nil || r.Body == http.NoBody) && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// await returns the newest connection of an agent.
func (p *Pool) await(ctx context.Context, name string) (*link, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		l, more, err := p.pick(name)
		if l != nil || err != nil {
			return l, err
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, fmt.Errorf("the agent has no connection: %w", context.Cause(ctx))
		}
	}
}

// pick returns the newest open connection of an agent; if there is none, a channel that is closed when a connection
// is added.
func (p *Pool) pick(name string) (*link, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, errClosed
	}
	if a := p.agents[name]; a != nil {
		for _, l := range slices.Backward(a.links) {
			if l.client.Err() == nil {
				return l, nil, nil
			}
		}
	}
	return nil, p.more, nil
}
