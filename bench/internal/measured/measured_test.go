package measured

import (
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/stagepost/stagepost/engine"
)

// TestWork checks what the name J8 states: 200 bytes, and seven steps, of which the first one reports its begin.
func TestWork(t *testing.T) {
	if raw, err := json.Marshal(Payload); err != nil || len(raw) != 200 {
		t.Errorf("the payload has %d bytes, %v", len(raw), err)
	}
	var begun atomic.Int32
	e, err := Open(t.TempDir(), 1, func() { begun.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Do(t.Context()); err != nil {
		t.Error(err)
	}
	j, err := e.engine.Complete(t.Context(), engine.Order{Kind: Kind, Spec: Payload})
	if err != nil || j.Seq != 8 {
		t.Errorf("%d entries of history, want 8: accepted, six transitions, completed; %v", j.Seq, err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if begun.Load() != 2 {
		t.Errorf("%d begins, want 2", begun.Load())
	}
}
