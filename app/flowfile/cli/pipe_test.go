package flowcli

import (
	"context"
	"errors"
	"net"
	"testing"
)

// TestPipeListener: a connection reaches who accepts; none is made when no one does any more.
func TestPipeListener(t *testing.T) {
	p := newPipeListener()
	go func() {
		if near, err := p.Dial(context.Background(), "tcp", "x:80"); err == nil {
			_, _ = near.Write([]byte("x"))
		}
	}()
	far, err := p.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := far.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Dial(ctx, "tcp", "x:80"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := p.Dial(t.Context(), "tcp", "x:80"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if _, err := p.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
