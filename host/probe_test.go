package host

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/store/sqlite"
)

// TestProbe asks a server whose store's commit loop hangs, whose engine's sweep therefore stands still, and one that is
// well.
func TestProbe(t *testing.T) {
	hang, free := make(chan struct{}), make(chan struct{})
	hangs := false
	store, err := sqlite.Open(t.TempDir(), sqlite.Options{OnCommit: func(int, time.Duration) {
		if hangs {
			hang <- struct{}{}
			<-free
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(store, nil, engine.Options{Sweep: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	r := &Server{Engine: e, Log: slog.New(slog.DiscardHandler), failed: make(chan struct{}), stalls: time.Hour}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.Probe(ctx); err != nil {
		t.Errorf("the control: %v", err)
	}
	hangs = true // the loop reads it only after the commit below
	go func() { _ = e.Operator().Audit(t.Context(), operator.Entry{Actor: "ann", Event: "test"}) }()
	<-hang
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := r.Probe(ctx); err == nil || !strings.Contains(err.Error(), "the store does not answer") {
		t.Errorf("a store that hangs: got %v", err)
	}
	run, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	hangs = false
	close(free)
	go func() { done <- e.Run(run) }()
	r.stalls = 0 // any standstill is too long, so the first moment between two sweeps is
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for r.healthy() == nil {
		<-tick.C
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	r.fail(errors.New("the disk is gone"))
	if err := r.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("a failed server: got %v", err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}
