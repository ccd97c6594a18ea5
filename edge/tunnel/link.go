package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"
)

// link is a connection to an agent.
type link struct {
	client *http.ClientConn
	remote string
	ended  bool // guarded by Pool.mu
}

// connectionKey is the key of the connection in the context of a dial.
type connectionKey struct{}

// connectionOf returns the connection of an agent to a transport that dials.
func connectionOf(ctx context.Context, _, _ string) (net.Conn, error) {
	c, ok := ctx.Value(connectionKey{}).(net.Conn)
	if !ok {
		return nil, errors.New("agents are not dialled")
	}
	return c, nil
}

// begin makes an HTTP client of a connection, which is added to an agent after its first answer.
func (p *Pool) begin(name string, c net.Conn) {
	ctx, cancel := context.WithTimeout(p.life, p.o.Handshake)
	defer cancel()
	l := &link{remote: c.RemoteAddr().String()}
	c = &notifying{Conn: c, closed: func() { p.drop(name, l) }}
	var err error
	l.client, err = p.transport.NewClientConn(context.WithValue(ctx, connectionKey{}, c), "http", name+suffix+":80")
	if err == nil {
		err = l.probe(ctx, name)
	}
	if err != nil {
		p.o.Log.Debug("a connection of the tunnel failed its first request", "agent", name, "error", err)
		if l.client != nil {
			_ = l.client.Close()
		}
		_ = c.Close()
		return
	}
	p.add(name, l)
}

// probe sends a request that every server of the standard library answers (RFC 9110, section 9.3.7).
func (l *link) probe(ctx context.Context, name string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodOptions, "http://"+name+suffix, nil)
	if err != nil {
		return err
	}
	r.URL.Path = "*"
	answer, err := l.client.RoundTrip(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<10))
	if err = errors.Join(err, answer.Body.Close()); err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers the first request with %s", answer.Status)
	}
	return err
}

// add adds a connection to its agent.
func (p *Pool) add(name string, l *link) {
	p.mu.Lock()
	if p.closed || l.ended {
		p.mu.Unlock()
		_ = l.client.Close()
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
	a.links, a.remote = append(a.links, l), l.remote
	var oldest *link
	if len(a.links) > p.o.Connections {
		oldest = a.links[0]
		a.links = slices.Delete(a.links, 0, 1)
	}
	close(p.more)
	p.more = make(chan struct{})
	p.mu.Unlock()
	if oldest != nil {
		_ = oldest.client.Close()
	}
	if came {
		p.notify(name)
	}
}

// notify reports that an agent has connected or disconnected, unless it was reported. The last report is the current
// state.
func (p *Pool) notify(name string) {
	p.notifying.Lock()
	defer p.notifying.Unlock()
	p.mu.Lock()
	here := p.agents[name] != nil
	p.mu.Unlock()
	if here == p.reported[name] {
		return
	}
	if here {
		p.reported[name] = true
	} else {
		delete(p.reported, name)
	}
	p.o.Changed(name, here)
}

// drop removes a closed connection.
func (p *Pool) drop(name string, l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.ended = true
	a := p.agents[name]
	if a == nil {
		return
	}
	if i := slices.Index(a.links, l); i >= 0 {
		a.links = slices.Delete(a.links, i, i+1)
	}
	if len(a.links) == 0 && a.going == nil && !p.closed {
		a.going = time.AfterFunc(p.o.Linger, func() { p.leave(name, a) })
	}
}

// leave removes an agent without a connection.
func (p *Pool) leave(name string, a *agent) {
	p.mu.Lock()
	gone := p.agents[name] == a && len(a.links) == 0 && !p.closed
	if gone {
		delete(p.agents, name)
	}
	p.mu.Unlock()
	if gone {
		p.notify(name)
	}
}
