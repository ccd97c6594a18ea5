package postgres

import (
	"testing"
	"time"
)

// TestLinger: the writer waits until the callers that it answered have their next operations beside those that waited
// before, and no longer than it may.
func TestLinger(t *testing.T) {
	s := &Store{operations: make(chan *operation, mostOperations)}
	w := &writer{s: s}
	found := make(chan int)
	go func() {
		w.linger(4, time.Hour, time.Hour)
		found <- len(s.operations)
	}()
	for range 4 {
		s.operations <- new(operation)
	}
	if n := <-found; n != 4 {
		t.Errorf("lingered until %d operations waited, want 4", n)
	}
	w.linger(9, 0, time.Hour)
	w.linger(9, time.Hour, 0)
}
