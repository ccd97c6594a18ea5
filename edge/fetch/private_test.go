package fetch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestErrorsNameNoAddress: the errors of names that lead to inner hosts, or that the resolver does not find, name no
// address; the log does. What the user wrote, an address in the URL, is the control.
func TestErrorsNameNoAddress(t *testing.T) {
	const inner, resolver, own = "10.9.8.7", "10.9.0.53:53", "10.9.1.1"
	at := func(text string) *net.TCPAddr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text)) }
	for name, c := range map[string]struct {
		url    string
		lookup error // of the resolver; nil: it gives the inner address
		allow  bool  // the inner network is allowed
		dial   error
		kind   Kind
		want   string
	}{
		"private": {url: "http://db.example.org/", kind: Refused, want: "no public address"},
		"unknown": {url: "http://db.example.org/", kind: Network, want: "no such host",
			lookup: &net.DNSError{Err: "no such host", Name: "db.example.org", Server: resolver, IsNotFound: true}},
		"resolver": {url: "http://db.example.org/", kind: Network, want: "the lookup of the name failed",
			lookup: &net.DNSError{Err: "server misbehaving", Name: "db.example.org", Server: resolver}},
		"resolver is away": {url: "http://db.example.org/", kind: Network, want: "does not answer in time",
			lookup: &net.DNSError{Err: "i/o timeout", Name: "db.example.org", Server: resolver, IsTimeout: true}},
		"refuses": {url: "http://db.example.org/", allow: true, kind: Network, want: syscall.ECONNREFUSED.Error(),
			dial: &net.OpError{Op: "dial", Net: "tcp", Addr: at(inner + ":80"),
				Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}},
		"breaks off": {url: "http://db.example.org/", allow: true, kind: Network, want: syscall.ECONNRESET.Error(),
			dial: &net.OpError{Op: "read", Net: "tcp", Source: at(own + ":4444"), Addr: at(inner + ":80"),
				Err: os.NewSyscallError("read", syscall.ECONNRESET)}},
		"address in the URL": {url: "http://" + inner + "/", kind: Refused, want: "address " + inner + " is private"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			p := Policy{Retries: -1, OwnAddresses: noOwn, Log: slog.New(slog.NewTextHandler(&log, nil)),
				Lookup: func(context.Context, string) ([]netip.Addr, error) {
					return []netip.Addr{netip.MustParseAddr(inner)}, c.lookup
				},
				Dial: func(context.Context, string, string) (net.Conn, error) { return nil, c.dial }}
			if c.allow {
				p.Allow = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
			}
			client := New(p)
			defer client.Close()
			_, err := client.Head(t.Context(), c.url)
			wantKind(t, err, c.kind)
			answer, plain := client.Transport().RoundTrip(httptest.NewRequest(http.MethodGet, c.url, nil))
			if plain == nil {
				answer.Body.Close()
				t.Fatal("the request was sent")
			}
			for _, err := range []error{err, plain} {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %q, want %q", err, c.want)
				}
				for _, secret := range []string{inner, resolver, own} {
					if strings.Contains(err.Error(), secret) && !strings.Contains(c.url, secret) {
						t.Errorf("%q names %s", err, secret)
					}
				}
			}
			if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "10.9.") {
				t.Errorf("the log has %d lines: %s", n, &log)
			}
			if c.dial != nil && !errors.Is(err, errors.Unwrap(errors.Unwrap(c.dial))) {
				t.Errorf("the cause is lost: %v", err)
			}
		})
	}
}

// TestReadErrorsNameNoAddress: nor do errors of a connection that was open.
func TestReadErrorsNameNoAddress(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = c.(*net.TCPConn).SetLinger(0) // the client gets a reset
		_ = c.Close()
	}))
	defer s.Close()
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	p := local()
	p.Retries = -1
	p.Lookup = func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	_, err := New(p).Head(t.Context(), "http://db.example.org:"+port+"/")
	wantKind(t, err, Network)
	if strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("got %q", err)
	}
}

// TestBodyErrorsNameNoAddress: nor do errors of an answer that is being read.
func TestBodyErrorsNameNoAddress(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart"))
		_, _ = c.Read(make([]byte, 1))    // the client has the beginning
		_ = c.(*net.TCPConn).SetLinger(0) // the client gets a reset
		_ = c.Close()
	}))
	defer s.Close()
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	var open net.Conn
	p := local()
	p.Lookup = func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	p.Dial = func(ctx context.Context, network, address string) (c net.Conn, err error) {
		open, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return open, err
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://db.example.org:"+port+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := New(p).Transport().RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.ReadFull(answer.Body, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	if _, err := open.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(answer.Body)
	if !errors.Is(err, syscall.ECONNRESET) || strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("got %v", err)
	}
}

// TestLogOfHostsIsBounded: many hosts, and one host many times, have a bounded number of lines.
func TestLogOfHostsIsBounded(t *testing.T) {
	var log bytes.Buffer
	h := hosts{log: slog.New(slog.NewTextHandler(&log, nil))}
	for i := range 1000 {
		h.report("example.org", errors.New("a fault"))
		h.report(strings.Repeat("x", i+1)+".example.org", errors.New("a fault"))
	}
	if n := strings.Count(log.String(), "\n"); n != mostHosts {
		t.Errorf("got %d lines, want %d", n, mostHosts)
	}
}
