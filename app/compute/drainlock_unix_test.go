//go:build unix

package compute_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
)

// TestDrainOnASlowDisk: while the file of drained agents is read, the agents can be listed.
func TestDrainOnASlowDisk(t *testing.T) {
	o := quick(t)
	w := newHarness(t, o, map[string]compute.Executor{"a1": newFake()})
	file := filepath.Join(o.Dir, "compute", "drained.json")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := w.app.Drain(t.Context(), "a1", true, "op", "")
		done <- err
	}()
	pipe, err := os.OpenFile(file, os.O_WRONLY, 0) // when it is being read
	if err != nil {
		t.Fatal(err)
	}
	listed := make(chan []compute.Agent, 1)
	go func() { listed <- w.app.Agents() }()
	select {
	case all := <-listed:
		if len(all) != 1 || all[0].Drain != nil {
			t.Errorf("got %+v", all)
		}
	case <-time.After(10 * time.Second):
		t.Error("the agents cannot be listed")
	}
	if _, err := pipe.WriteString("{}"); err != nil {
		t.Fatal(err)
	}
	if err := pipe.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if all := w.app.Agents(); len(all) != 1 || all[0].Drain == nil {
		t.Errorf("after the drain: %+v", all)
	}
}
