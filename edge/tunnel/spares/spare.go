package spares

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// spare is a connection that waits for its use. One goroutine watches it until then.
type spare struct {
	net.Conn
	watched chan struct{} // closed when nobody reads from it any more
	dead    error         // why it is of no use; read it after watched is closed

	mu      sync.Mutex // guards the rest
	wanted  bool
	waiting bool // for nothing: the read may be cut short
}

// park makes a connection a spare of an agent.
func (p *Pool) park(name string, c net.Conn) {
	s := &spare{Conn: c, watched: make(chan struct{})}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		_ = c.Close()
		return
	}
	a := p.agents[name]
	came := a == nil
	if came {
		a = &agent{since: time.Now()}
		p.agents[name] = a
	}
	if a.going != nil {
		a.going.Stop()
		a.going = nil
	}
	a.spares, a.remote = append(a.spares, s), c.RemoteAddr().String()
	if len(a.spares) > p.o.Spares {
		_ = a.spares[0].Close() // taken out here, not by its watcher: the next one that comes must not meet it again
		a.spares = slices.Delete(a.spares, 0, 1)
	}
	p.busy.Go(func() {
		s.watch(p.o.Ping, p.o.Handshake)
		if !s.isWanted() {
			_ = s.Close()
			p.o.Log.Debug("a spare of the tunnel ended", "agent", name, "error", s.dead)
			p.drop(name, s)
		}
	})
	close(p.more)
	p.more = make(chan struct{})
	p.mu.Unlock()
	if came {
		p.tell(name)
	}
}

// tell says that an agent has come or gone, unless that has been said. What is said last is how it is.
func (p *Pool) tell(name string) {
	p.telling.Lock()
	defer p.telling.Unlock()
	p.mu.Lock()
	here := p.agents[name] != nil
	p.mu.Unlock()
	if here == p.told[name] {
		return
	}
	if here {
		p.told[name] = true
	} else {
		delete(p.told, name)
	}
	p.o.Changed(name, here)
}

// drop takes a spare out, or, if it is nil, one connection that was used.
func (p *Pool) drop(name string, s *spare) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.agents[name]
	if a == nil {
		return
	}
	if s == nil {
		a.used--
	} else if i := slices.Index(a.spares, s); i >= 0 {
		a.spares = slices.Delete(a.spares, i, i+1)
	}
	if a.used == 0 && len(a.spares) == 0 && a.going == nil && !p.closed {
		a.going = time.AfterFunc(p.o.Linger, func() { p.leave(name, a) })
	}
}

// leave takes an agent away that has no connection any more.
func (p *Pool) leave(name string, a *agent) {
	p.mu.Lock()
	gone := p.agents[name] == a && a.used == 0 && len(a.spares) == 0 && !p.closed
	if gone {
		delete(p.agents, name)
	}
	p.mu.Unlock()
	if gone {
		p.tell(name)
	}
}

// watch reads until the connection is wanted, closes or does not answer. Between pings nothing may come.
func (s *spare) watch(ping, answer time.Duration) {
	defer close(s.watched)
	for {
		if !s.wait(ping) {
			return
		}
		if s.dead = s.alive(answer); s.dead != nil {
			return
		}
	}
}

// wait tells whether the time has come for a ping: nothing has happened so long, and nobody wants the connection.
func (s *spare) wait(d time.Duration) bool {
	s.mu.Lock()
	if s.wanted {
		s.mu.Unlock()
		return false
	}
	s.waiting = true
	err := s.SetReadDeadline(time.Now().Add(d))
	s.mu.Unlock()
	var b byte
	if err == nil {
		if b, err = readByte(s.Conn); err == nil {
			err = unexpected(b)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = false
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		s.dead = err
		return false
	}
	return !s.wanted
}

// alive pings. It wants the answer also if the connection is wanted meanwhile: who wants it waits.
func (s *spare) alive(answer time.Duration) error {
	if err := writeByte(s.Conn, bytePing, answer); err != nil {
		return err
	}
	if err := s.SetReadDeadline(time.Now().Add(answer)); err != nil {
		return err
	}
	b, err := readByte(s.Conn)
	if err == nil && b != bytePing {
		err = unexpected(b)
	}
	return err
}

// isWanted tells whether somebody has begun to use it.
func (s *spare) isWanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted
}

// claim ends the watch and waits for its end.
func (s *spare) claim() error {
	s.mu.Lock()
	s.wanted = true
	var err error
	if s.waiting {
		err = s.SetReadDeadline(time.Unix(1, 0))
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	<-s.watched // soon, or within the time for the answer to a ping
	return s.dead
}

// begin tells the agent that its connection is used now, and waits for it to be ready.
func (s *spare) begin(ctx context.Context, within time.Duration) error {
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.claim(); err != nil {
		return err
	}
	if err := writeByte(s.Conn, byteBegin, within); err != nil {
		return err
	}
	if err := s.SetReadDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	b, err := readByte(s.Conn)
	if err != nil {
		return err
	}
	if b != byteBegin {
		return unexpected(b)
	}
	if !stop() {
		return context.Cause(ctx) // it is being closed
	}
	return s.SetDeadline(time.Time{})
}
