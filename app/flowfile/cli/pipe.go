package flowcli

import (
	"context"
	"net"
	"sync"
)

// pipeListener takes connections that stay in this process: a server that no one else on the machine can reach.
type pipeListener struct {
	waiting chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{waiting: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial is for the client's side.
func (p *pipeListener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.waiting <- far:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept is part of net.Listener.
func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-p.waiting:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close is part of net.Listener.
func (p *pipeListener) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr is part of net.Listener.
func (p *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "this process" }
