package pgtest

import (
	"io"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// ask sends the request for TLS, and returns the answer, which is one letter.
func ask(t *testing.T, dir string) string {
	c, err := net.Dial("unix", filepath.Join(dir, socket))
	if err != nil {
		t.Error(err)
		return ""
	}
	defer c.Close()
	answer := make([]byte, 1)
	if _, err := c.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47}); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(c, answer); err != nil {
		t.Error(err)
	}
	return string(answer)
}

// TestPartition: what is sent during a partition is answered after its end, and not before. Control: connections that
// do not pass the proxy are answered meanwhile.
func TestPartition(t *testing.T) {
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	p := s.Proxy(t)
	if got := ask(t, p.dir); got != "N" {
		t.Fatalf("before: %q", got)
	}
	heal := p.Partition()
	var healed atomic.Bool
	answered := make(chan string)
	go func() {
		got := ask(t, p.dir)
		if !healed.Load() {
			t.Error("it was answered during the partition")
		}
		answered <- got
	}()
	for range 100 {
		if got := ask(t, s.dir); got != "N" {
			t.Errorf("beside the proxy: %q", got)
		}
	}
	healed.Store(true)
	heal()
	if got := <-answered; got != "N" {
		t.Errorf("after: %q", got)
	}
}
