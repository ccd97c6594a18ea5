package listen_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/server/listen"
	"github.com/stagepost/stagepost/server/servertest"
)

func TestListenOnLoopbackOnly(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "10.1.2.3:0", "example.com:0", "7433", "",
		"127.0.0.1", "[::ffff:10.0.0.1]:0", "localhost.evil.example:0"} {
		l, err := listen.Open(t.Context(), address, 0, false)
		if err == nil {
			_ = l.Close()
			t.Errorf("%q was opened", address)
		}
	}
	l, err := listen.Open(t.Context(), "127.0.0.1:0", 0, false)
	if err != nil {
		t.Fatalf("the control: %v", err)
	}
	_ = l.Close()
	// With tokens any address will do. 192.0.2.1 is reserved (RFC 5737), so that nothing is opened: the refusal is the
	// system's.
	for _, authenticated := range []bool{false, true} {
		l, err := listen.Open(t.Context(), "192.0.2.1:0", 0, authenticated)
		if err == nil {
			_ = l.Close()
			t.Fatal("192.0.2.1 was opened")
		}
		if asked := !strings.Contains(err.Error(), "only loopback addresses"); asked != authenticated {
			t.Errorf("authenticated %t: %v", authenticated, err)
		}
	}
}

// TestSlowClientsHinderNoOther opens connections that send a part of a request and then nothing: others are served
// meanwhile, and the slow ones are cut off.
func TestSlowClientsHinderNoOther(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	l, err := listen.Open(t.Context(), "127.0.0.1:0", 0, false)
	if err != nil {
		t.Fatal(err)
	}
	h := listen.HTTP(w.Server, servertest.Discard)
	if h.ReadHeaderTimeout <= 0 || h.ReadTimeout <= 0 || h.WriteTimeout <= 0 || h.IdleTimeout <= 0 ||
		h.MaxHeaderBytes <= 0 {
		t.Errorf("a limit is missing: %+v", h)
	}
	h.ReadHeaderTimeout = 300 * time.Millisecond
	go func() { _ = h.Serve(l) }()
	defer h.Close()
	slow := make([]net.Conn, 200)
	for i := range slow {
		if slow[i], err = (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer slow[i].Close()
		if _, err := io.WriteString(slow[i], "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: "); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	answer, err := http.Get("http://" + l.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if took := time.Since(began); answer.StatusCode != http.StatusOK || took > 2*time.Second {
		t.Errorf("got %s after %s", answer.Status, took)
	}
	for _, c := range slow {
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Fatalf("a slow client was not cut off: %v", err)
		}
	}
}

// TestConnectionsOfOneAddress: one address has a quarter of the connections; others are served beside it, and it is
// served again once one of its connections ends.
func TestConnectionsOfOneAddress(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	l, err := listen.Open(t.Context(), "127.0.0.1:0", 80, false)
	if err != nil {
		t.Fatal(err)
	}
	h := listen.HTTP(w.Server, servertest.Discard)
	go func() { _ = h.Serve(l) }()
	defer h.Close()
	served := func(from string) (net.Conn, bool) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			return c, false
		}
		line, err := bufio.NewReader(c).ReadString('\n')
		return c, err == nil && strings.Contains(line, "200")
	}
	var first net.Conn
	for i := range 20 {
		c, ok := served("127.0.0.2")
		if !ok {
			t.Fatalf("connection %d is not served", i+1)
		}
		first = c
	}
	if _, ok := served("127.0.0.2"); ok {
		t.Error("a quarter and one more are served")
	}
	if _, ok := served("127.0.0.3"); !ok {
		t.Error("another address is not served")
	}
	_ = first.Close()
	for { // the server reads the end of the connection in its own time
		if _, ok := served("127.0.0.2"); ok {
			break
		}
	}
}

// TestConnectionsAreBounded fills all slots and finds that they are free again afterwards.
func TestConnectionsAreBounded(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	l, err := listen.Open(t.Context(), "127.0.0.1:0", 2, false)
	if err != nil {
		t.Fatal(err)
	}
	h := listen.HTTP(w.Server, servertest.Discard)
	go func() { _ = h.Serve(l) }()
	defer h.Close()
	dial := func() net.Conn {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		return c
	}
	served := func(c net.Conn, within time.Duration) bool {
		_ = c.SetReadDeadline(time.Now().Add(within))
		line, err := bufio.NewReader(c).ReadString('\n')
		return err == nil && strings.Contains(line, "200")
	}
	first, second := dial(), dial()
	if !served(first, 5*time.Second) || !served(second, 5*time.Second) {
		t.Fatal("the first two are not served")
	}
	third := dial()
	defer third.Close()
	if served(third, 100*time.Millisecond) {
		t.Error("the third is served while two are open")
	}
	_ = first.Close()
	_ = second.Close()
	if !served(third, 5*time.Second) {
		t.Error("the third is not served when a slot is free")
	}
}

// TestManySlowClients: 2,000 connections from several addresses that send a part of a header take no slot from others:
// each request of others is answered while they are open. The control has no slots beside those
// that they take: a request waits until one of them is closed.
func TestManySlowClients(t *testing.T) {
	const slow, sources, asked = 2000, 10, 50
	for name, c := range map[string]struct {
		most   int
		served bool
	}{"as in a server": {4096, true}, "control": {slow, false}} {
		t.Run(name, func(t *testing.T) {
			w := servertest.Open(t, nil, nil)
			l, err := listen.Open(t.Context(), "127.0.0.1:0", c.most, false)
			if err != nil {
				t.Fatal(err)
			}
			h := listen.HTTP(w.Server, servertest.Discard)
			h.ReadHeaderTimeout = time.Minute
			cut := make(chan struct{}, 2*slow)
			opened := make(chan struct{}, 2*slow)
			h.ConnState = func(_ net.Conn, s http.ConnState) {
				switch s {
				case http.StateNew:
					opened <- struct{}{}
				case http.StateClosed:
					cut <- struct{}{}
				}
			}
			go func() { _ = h.Serve(l) }()
			defer h.Close()
			connect := func(from string) net.Conn {
				t.Helper()
				d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
				c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
				return c
			}
			all := make([]net.Conn, slow)
			for i := range all {
				all[i] = connect(fmt.Sprintf("127.0.1.%d", 1+i%sources))
				if _, err := io.WriteString(all[i], "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: "); err != nil {
					t.Fatal(err)
				}
			}
			for range slow {
				<-opened // the server has accepted it
			}
			if len(cut) > 0 {
				t.Fatalf("%d slow connections were closed at once", len(cut))
			}
			answered := func(within time.Duration) bool {
				c := connect("127.0.0.1")
				_ = c.SetDeadline(time.Now().Add(within))
				_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
				line, err := bufio.NewReader(c).ReadString('\n')
				return err == nil && strings.Contains(line, "200")
			}
			if !c.served {
				if answered(200 * time.Millisecond) {
					t.Error("it was answered although all slots are taken")
				}
				_ = all[0].Close()
				if !answered(time.Minute) {
					t.Error("it was not answered after a slot was free")
				}
				return
			}
			for i := range asked {
				if !answered(20 * time.Second) {
					t.Fatalf("request %d was not answered", i)
				}
			}
		})
	}
}
