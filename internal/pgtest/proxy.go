package pgtest

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Proxy passes connections on to a server, and cuts one of them at a chosen call: instead of a write of the client,
// after a write, or instead of an answer, which the server has sent and which is lost.
type Proxy struct {
	server *Server
	dir    string

	mu    sync.Mutex // guards all below
	at    int        // the call, from 1; 0: none
	calls int
	cut   string
	once  func()        // called at the chosen call instead of cutting
	whole chan struct{} // open while the network is partitioned; nil: it is not
}

// Proxy starts a proxy, which ends with the test.
func (s *Server) Proxy(t testing.TB) *Proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "px")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{server: s, dir: dir}
	l, err := net.Listen("unix", filepath.Join(dir, socket))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.pass(client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
		_ = os.RemoveAll(dir)
	})
	return p
}

const socket = ".s.PGSQL.5432"

// Through gives the connection string of a database through the proxy.
func (p *Proxy) Through(database string) string {
	return strings.Replace(database, p.server.dir, p.dir, 1)
}

// Arm lets the proxy count calls from now on, and cut the one with a number, from 1; 0: none.
func (p *Proxy) Arm(at int) { p.arm(at, nil) }

// ArmDo is [Proxy.Arm] with a function that is called instead of cutting, before a write is passed on.
func (p *Proxy) ArmDo(at int, do func()) { p.arm(at, do) }

func (p *Proxy) arm(at int, do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.calls, p.cut, p.once = at, 0, "", do
}

// Calls gives the number of calls since the proxy was armed, and what was cut.
func (p *Proxy) Calls() (n int, cut string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls, p.cut
}

// Partition delays all that either side sends until heal is called, as a network does that loses all packets: no
// connection ends, and new ones get no answer. It is called again only after heal.
func (p *Proxy) Partition() (heal func()) {
	whole := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.whole = whole
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.whole = nil
		close(whole)
	}
}

// arrive waits until the network is not partitioned.
func (p *Proxy) arrive() {
	p.mu.Lock()
	whole := p.whole
	p.mu.Unlock()
	if whole != nil {
		<-whole
	}
}

// strikes reports whether the present call is the one that is cut.
func (p *Proxy) strikes(what string) bool {
	p.mu.Lock()
	p.calls++
	strikes := p.calls == p.at
	if strikes {
		p.cut = what
	}
	do := p.once
	p.mu.Unlock()
	if strikes && do != nil {
		do()
		return false
	}
	return strikes
}

// pass passes a connection on.
func (p *Proxy) pass(client net.Conn) {
	server, err := net.Dial("unix", filepath.Join(p.server.dir, socket))
	if err != nil {
		_ = client.Close()
		return
	}
	end := func() {
		_ = client.Close()
		_ = server.Close()
	}
	var sending sync.Mutex // held from a write until it counts as passed on: its answer counts after that
	var all sync.WaitGroup
	all.Go(func() {
		defer end()
		b := make([]byte, mostPassed)
		for {
			n, err := client.Read(b)
			if p.arrive(); err != nil || p.strikes("before a write") || !p.send(server, b[:n], &sending) {
				return
			}
		}
	})
	answers := make(chan []byte, 1024) // the server never waits for a write that waits for it
	all.Go(func() {
		defer close(answers)
		for {
			b := make([]byte, mostPassed)
			n, err := server.Read(b)
			if err != nil {
				return
			}
			answers <- b[:n]
		}
	})
	all.Go(func() {
		for b := range answers {
			p.arrive()
			sending.Lock()
			cut := p.strikes("an answer")
			sending.Unlock()
			if cut {
				break
			}
			if _, err := client.Write(b); err != nil {
				break
			}
		}
		end()
		for range answers { // the reader may wait for space
		}
	})
	all.Wait()
}

// mostPassed bounds what is passed on at once, in bytes.
const mostPassed = 1 << 16

// send passes a write on. It returns false if the connection ends there.
func (p *Proxy) send(to net.Conn, b []byte, sending *sync.Mutex) bool {
	sending.Lock()
	defer sending.Unlock()
	_, err := to.Write(b)
	return err == nil && !p.strikes("after a write")
}
