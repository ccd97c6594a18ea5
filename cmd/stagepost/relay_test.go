package main

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// relay passes connections on to the server at its present address: each process of the server has another port.
type relay struct {
	net.Listener
	to atomic.Value // string

	mu   sync.Mutex                  // guards lost
	lost map[direction]chan struct{} // what is sent in the direction waits until the channel is closed
}

// direction is a direction in which a relay passes data.
type direction int

const (
	toServer direction = iota
	fromServer
)

func newRelay(t *testing.T) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, lost: map[direction]chan struct{}{}}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go r.pass(in)
		}
	}()
	return r
}

// partition delays all that is sent in the directions until heal is called, as a network does that loses all packets:
// no connection ends, and new ones get no answer. It is called again only after heal.
func (r *relay) partition(directions ...direction) (heal func()) {
	whole := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range directions {
		r.lost[d] = whole
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		clear(r.lost)
		close(whole)
	}
}

// arrive waits until data in the direction arrives.
func (r *relay) arrive(d direction) {
	r.mu.Lock()
	whole := r.lost[d]
	r.mu.Unlock()
	if whole != nil {
		<-whole
	}
}

// pass copies in both directions until one side ends.
func (r *relay) pass(in net.Conn) {
	to, known := r.to.Load().(string) // not before the first server has started
	if !known {
		_ = in.Close()
		return
	}
	out, err := net.Dial("tcp", to)
	if err != nil {
		_ = in.Close()
		return
	}
	go r.copy(out, in, toServer)
	r.copy(in, out, fromServer)
}

// copy copies in one direction until one side ends, and then ends both.
func (r *relay) copy(to, from net.Conn, d direction) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			r.arrive(d)
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
