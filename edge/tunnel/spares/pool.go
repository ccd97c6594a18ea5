package spares

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// PoolOptions are those of the server's side. Authenticate is required.
type PoolOptions struct {
	// Authenticate gives the name of the agent that a request comes from, by its token and not by what it says. An agent that calls itself otherwise is
	// refused. The error is answered with 403.
	Authenticate func(r *http.Request) (name string, err error)

	// Fail writes a refusal. Defaults to plain text.
	Fail func(w http.ResponseWriter, r *http.Request, status int, err error)

	// Changed is called after an agent has come (its first connection is there) or gone (it had none for the time of Linger), one call after the other. It
	// must not block, and may call Agents. Close calls it for nobody.
	Changed func(name string, here bool)

	Spares    int           // parked at once for one agent; a newer one takes the place of the oldest; defaults to 16
	Ping      time.Duration // between signs of life to a spare; defaults to 15 s
	Handshake time.Duration // for a spare to answer; defaults to 5 s
	Linger    time.Duration // without a connection until an agent counts as gone; defaults to 5 s

	Log *slog.Logger // defaults to none
}

// Pool keeps the connections that agents have dialled until they are needed. It is safe for concurrent use.
type Pool struct {
	o    PoolOptions
	busy sync.WaitGroup // watchers of spares

	telling sync.Mutex      // held while Changed is called; guards told
	told    map[string]bool // who is here, as far as Changed was told

	mu     sync.Mutex // guards the rest
	agents map[string]*agent
	more   chan struct{} // closed and replaced when a spare comes
	closed bool
}

// agent is what the pool has of one agent. It is there as long as it has a connection, and a little longer.
type agent struct {
	spares []*spare // the newest last
	used   int
	since  time.Time
	remote string      // address of the newest connection
	going  *time.Timer // takes it away if nothing comes; nil while it has a connection
}

// Status tells of an agent that is there.
type Status struct {
	Name   string
	Spares int       // connections that are ready
	Used   int       // connections in use
	Since  time.Time // when it came
	Remote string    // the address that it came from last
}

// NewPool makes a pool. The error is about the options.
func NewPool(o PoolOptions) (*Pool, error) {
	if o.Authenticate == nil {
		return nil, errors.New("tunnel: a pool needs to know who its agents are (Authenticate)")
	}
	if o.Fail == nil {
		o.Fail = func(w http.ResponseWriter, _ *http.Request, status int, err error) {
			http.Error(w, err.Error(), status)
		}
	}
	if o.Changed == nil {
		o.Changed = func(string, bool) {}
	}
	if o.Spares <= 0 {
		o.Spares = 16
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
	return &Pool{o: o, agents: map[string]*agent{}, told: map[string]bool{}, more: make(chan struct{})}, nil
}

// ServeHTTP takes a connection over from an agent that asks for the upgrade. It returns at once; the connection stays.
func (p *Pool) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !asksForUpgrade(r.Header) || r.ProtoMajor != 1 {
		w.Header().Set("Upgrade", upgradeName)
		p.o.Fail(w, r, http.StatusUpgradeRequired, errors.New("this address is for agents, which ask with HTTP/1.1 for the upgrade to "+upgradeName))
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
	if p.isClosed() {
		p.o.Fail(w, r, http.StatusServiceUnavailable, errClosed)
		return
	}
	c, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		p.o.Fail(w, r, http.StatusInternalServerError, fmt.Errorf("the connection cannot be taken over: %w", err))
		return
	}
	if err := p.accept(c, buffered.Reader.Buffered()); err != nil {
		p.o.Log.Debug("tunnel", "agent", name, "error", err)
		_ = c.Close()
		return
	}
	p.park(name, c)
}

// check holds the name that an agent gives itself against the one that its token gives it.
func (p *Pool) check(name string, said []string) error {
	if !validName(name) {
		return fmt.Errorf("%.80q cannot be the name of an agent: it needs 1 to %d lower-case letters, digits and between them - . and _", name, longestName)
	}
	if len(said) != 1 || said[0] != name {
		return fmt.Errorf("the token is that of the agent %s, not of %.80q", name, strings.Join(said, ", "))
	}
	return nil
}

// accept says yes to a connection.
func (p *Pool) accept(c net.Conn, buffered int) error {
	if buffered > 0 {
		return errors.New("the agent spoke before it was asked")
	}
	if err := c.SetDeadline(time.Now().Add(p.o.Handshake)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + upgradeName + "\r\n\r\n")); err != nil {
		return err
	}
	return c.SetDeadline(time.Time{})
}

var errClosed = errors.New("the server stops")

func (p *Pool) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// Agents lists who is there, by name.
func (p *Pool) Agents() []Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Status, 0, len(p.agents))
	for name, a := range p.agents {
		all = append(all, Status{Name: name, Spares: len(a.spares), Used: a.used, Since: a.since, Remote: a.remote})
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Close closes the spares, refuses new ones, and waits until nobody watches any. Connections in use go on.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	close(p.more)
	p.more = make(chan struct{})
	for _, a := range p.agents {
		for _, s := range a.spares {
			_ = s.Close()
		}
		if a.going != nil {
			a.going.Stop()
		}
	}
	p.mu.Unlock()
	p.busy.Wait()
	return nil
}

// DialContext gives a connection to the agent of an address such as node-1.tunnel:80, which has just proved that it is there. If the agent has no spare it
// waits for one until ctx ends. It is for http.Transport.
func (p *Pool) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	name, ok := strings.CutSuffix(host, suffix)
	if err != nil || !ok || !validName(name) {
		return nil, fmt.Errorf("tunnel: %q is not the address of an agent (NAME%s:80)", address, suffix)
	}
	var last error
	for {
		if ctx.Err() != nil { // and do not spoil a spare
			return nil, fmt.Errorf("tunnel: %s: %w", name, errors.Join(context.Cause(ctx), last))
		}
		s, more, err := p.pick(name)
		if err != nil {
			return nil, fmt.Errorf("tunnel: %s: %w", name, err)
		}
		if s == nil {
			select {
			case <-more:
				continue
			case <-ctx.Done():
				return nil, fmt.Errorf("tunnel: the agent %s has no connection: %w", name, errors.Join(context.Cause(ctx), last))
			}
		}
		if last = s.begin(ctx, p.o.Handshake); last == nil {
			return &once{Conn: s.Conn, reader: s.Conn, closed: func() { p.drop(name, nil) }}, nil
		}
		p.o.Log.Debug("a spare of the tunnel was dead", "agent", name, "error", last)
		_ = s.Conn.Close()
		p.drop(name, nil)
	}
}

// pick takes the newest spare of an agent, which counts as used from now on; if there is none it gives what tells that one may have come.
func (p *Pool) pick(name string) (*spare, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, errClosed
	}
	a := p.agents[name]
	if a == nil || len(a.spares) == 0 {
		return nil, p.more, nil
	}
	last := len(a.spares) - 1
	s := a.spares[last]
	a.spares = a.spares[:last]
	a.used++
	return s, nil, nil
}
