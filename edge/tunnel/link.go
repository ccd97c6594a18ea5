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
	ended  bool // Pool.mu guards it
}

// connectionKey is the key of the connection in the context of a dial.
type connectionKey struct{}

// connectionOf gives the connection that an agent has dialled to a transport that dials.
func connectionOf(ctx context.Context, _, _ string) (net.Conn, error) {
	c, ok := ctx.Value(connectionKey{}).(net.Conn)
	if !ok {
		return nil, errors.New("agents are not dialled")
	}
	return c, nil
}

// begin makes a client of a connection, which belongs to an agent once it has answered a request.
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
		p.o.Log.Debug("a connection of the tunnel is of no use", "agent", name, "error", err)
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

// add gives a connection to its agent.
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
		p.tell(name)
	}
}

// tell reports that an agent has come or gone, unless that was reported. What is reported last is how it is.
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

// drop takes out a connection that was closed.
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

// leave takes an agent away that has no connection any more.
func (p *Pool) leave(name string, a *agent) {
	p.mu.Lock()
	gone := p.agents[name] == a && len(a.links) == 0 && !p.closed
	if gone {
		delete(p.agents, name)
	}
	p.mu.Unlock()
	if gone {
		p.tell(name)
	}
}
