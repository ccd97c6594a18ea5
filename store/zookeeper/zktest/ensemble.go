package zktest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Ensemble is servers that replicate one tree: it answers while most of them run.
type Ensemble struct {
	Servers []*Server
}

// StartEnsemble starts n servers, which are stopped when t ends. Each of them accepts clients when it returns.
func StartEnsemble(t testing.TB, n int) *Ensemble {
	t.Helper()
	if err := installed(); err != nil {
		t.Fatal(err)
	}
	addresses, err := free(3 * n)
	if err != nil {
		t.Fatal(err)
	}
	port := func(i int) string { _, p, _ := net.SplitHostPort(addresses[i]); return p }
	more := "initLimit=50\nsyncLimit=20\n"
	for i := range n {
		more += fmt.Sprintf("server.%d=127.0.0.1:%s:%s\n", i+1, port(n+i), port(2*n+i))
	}
	e := &Ensemble{}
	for i := range n {
		dir := t.TempDir()
		s := &Server{Address: addresses[i], dir: dir, more: more, ready: "binding to port"}
		if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		id := []byte(fmt.Sprint(i + 1))
		if err := os.WriteFile(filepath.Join(dir, "data", "myid"), id, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.run(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Kill)
		e.Servers = append(e.Servers, s)
	}
	for _, s := range e.Servers {
		s.Raw(t)
	}
	return e
}

// Addresses returns the addresses of all servers.
func (e *Ensemble) Addresses() []string {
	all := make([]string, len(e.Servers))
	for i, s := range e.Servers {
		all[i] = s.Address
	}
	return all
}

// Leader returns the number of the server that leads, -1 if none does.
func (e *Ensemble) Leader(t testing.TB) int {
	t.Helper()
	for i, s := range e.Servers {
		c, err := net.Dial("tcp", s.Address)
		if err != nil {
			continue
		}
		_, err = c.Write([]byte("srvr"))
		b := make([]byte, 4096)
		n := 0
		for err == nil && n < len(b) {
			var m int
			m, err = c.Read(b[n:])
			n += m
		}
		c.Close()
		if strings.Contains(string(b[:n]), "Mode: leader") {
			return i
		}
	}
	return -1
}
