package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// Options are the settings of a session.
type Options struct {
	// Timeout is the time without contact after which the servers end the session, 10 s by default. Servers bound it
	// to 20 of their ticks, and grant less then.
	Timeout time.Duration
	// User and Password authenticate the session (digest); an empty User: it is not authenticated. Nodes at and below
	// the path Private are then created for this user alone; all others are for every client.
	User, Password string
	Private        string
	// Log gets the lines of the client library, which are about connections. Nil discards them.
	Log func(line string)
	// Dial opens connections, for tests. Nil uses TCP.
	Dial func(network, address string, timeout time.Duration) (net.Conn, error)
}

// defaultTimeout is that of Options.Timeout.
const defaultTimeout = 10 * time.Second

// Session is one session with the servers. Its methods are safe for concurrent use.
type Session struct {
	conn    *zk.Conn
	private string // the path at and below which nodes are for the session's user alone; "": there is none
	dial    func(network, address string, timeout time.Duration) (net.Conn, error)
	id      int64
	lost    chan struct{} // closed when the session has ended

	mu      sync.Mutex // guards what follows
	timeout time.Duration
	first   bool          // it was connected before
	up      chan struct{} // closed while a server is connected
	ended   bool
	silent  *time.Timer // runs while no server is connected
}

// errEnded is the cause of errors after the end of a session.
var errEnded = errors.New("the session has ended")

// Open opens a session. It waits until a server has granted it or ctx ends.
func Open(ctx context.Context, servers []string, o Options) (*Session, error) {
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Dial == nil {
		o.Dial = net.DialTimeout
	}
	s := &Session{dial: o.Dial, lost: make(chan struct{}), timeout: o.Timeout, up: make(chan struct{})}
	ready := s.up
	conn, _, err := zk.Connect(servers, o.Timeout, zk.WithLogInfo(false), zk.WithLogger(logger{o.Log}),
		zk.WithDialer(s.connect), zk.WithEventCallback(s.event))
	if err != nil {
		return nil, &Error{Refused, "open", fmt.Sprint(servers), err}
	}
	s.mu.Lock()
	s.conn = conn
	s.mu.Unlock()
	select {
	case <-ready:
		s.id = conn.SessionID()
		return s, s.authenticate(o)
	case <-ctx.Done():
		s.end()
		conn.Close()
		return nil, &Error{Unsent, "open", fmt.Sprint(servers), ctx.Err()}
	}
}

// authenticate names the user of the session. The library repeats it on other connections of the session.
func (s *Session) authenticate(o Options) error {
	if o.User == "" {
		return nil
	}
	if err := s.conn.AddAuth("digest", []byte(o.User+":"+o.Password)); err != nil {
		s.Close()
		return &Error{Refused, "open", "user " + o.User, err}
	}
	s.private = o.Private
	return nil
}

// logger passes lines of the library on.
type logger struct{ log func(string) }

// Printf is part of zk.Logger.
func (l logger) Printf(format string, args ...any) {
	if l.log != nil {
		l.log(fmt.Sprintf(format, args...))
	}
}

// connect opens a connection, but none after the end of the session: the library would use it for another session.
func (s *Session) connect(network, address string, timeout time.Duration) (net.Conn, error) {
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	if ended {
		return nil, errEnded
	}
	return s.dial(network, address, timeout)
}

// event follows the state of the connection. The library calls it, one call at a time, before it goes on.
func (s *Session) event(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e.State {
	case zk.StateHasSession:
		if s.silent != nil {
			s.silent.Stop()
			s.silent = nil
		}
		if !s.connected() {
			close(s.up)
		}
		s.first = true
	case zk.StateExpired:
		s.endLocked()
	case zk.StateDisconnected:
		if s.connected() {
			s.up = make(chan struct{})
		}
		if s.silent == nil && s.first && !s.ended {
			s.silent = time.AfterFunc(s.timeout, s.end)
		}
	}
}

// connected reports whether a server is connected. The caller has the lock.
func (s *Session) connected() bool {
	select {
	case <-s.up:
		return true
	default:
		return false
	}
}

// await waits until a server is connected, or the session or ctx has ended.
func (s *Session) await(ctx context.Context) {
	s.mu.Lock()
	up := s.up
	s.mu.Unlock()
	select {
	case <-up:
	case <-s.lost:
	case <-ctx.Done():
	}
}

// end ends the session.
func (s *Session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked()
}

func (s *Session) endLocked() {
	if s.ended {
		return
	}
	s.ended = true
	close(s.lost)
	if s.silent != nil {
		s.silent.Stop()
	}
	if s.conn != nil {
		go s.conn.Close() // it waits for the library, which may be in a callback
	}
}

// Close ends the session: the servers remove its ephemeral nodes.
func (s *Session) Close() {
	s.conn.Close() // while connections are allowed, so that the servers end the session too
	s.end()
}

// Lost returns a channel that is closed when the session has ended: the servers have reported its end, or no server was
// reached during the timeout, so that they may have ended it. Its ephemeral nodes are gone or will be.
func (s *Session) Lost() <-chan struct{} { return s.lost }

// ID returns the id of the session: the owner in the stat of its ephemeral nodes.
func (s *Session) ID() int64 { return s.id }

// answer is the result of a request of the library.
type answer[T any] struct {
	value T
	err   error
}

// do makes one request. It returns when the request is answered, the session or ctx has ended. The request may then
// still be carried out.
func do[T any](ctx context.Context, s *Session, op, path string, f func() (T, error)) (T, error) {
	var none T
	select {
	case <-s.lost:
		return none, &Error{Lost, op, path, errEnded}
	default:
	}
	if err := ctx.Err(); err != nil {
		return none, &Error{Unsent, op, path, err}
	}
	c := make(chan answer[T], 1)
	go func() {
		v, err := f()
		c <- answer[T]{v, err}
	}()
	select {
	case a := <-c:
		return a.value, classify(op, path, a.err)
	case <-ctx.Done():
		return none, &Error{Unknown, op, path, ctx.Err()}
	case <-s.lost:
		return none, &Error{Lost, op, path, errEnded}
	}
}
