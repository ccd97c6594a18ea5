package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/host/stores"
	"github.com/stagepost/stagepost/job"
)

// TestFailingDisk: a directory that accepts no writes is named with the system's reason, in health and in why, until it
// does again.
func TestFailingDisk(t *testing.T) {
	s := &space{dir: filepath.Join(t.TempDir(), "gone"), store: &stores.Store{}}
	err := s.Writable(t.Context())
	if err == nil || !strings.Contains(err.Error(), s.dir+" accepts no writes") || job.IsFull(err) {
		t.Errorf("got %v", err)
	}
	if in := s.impaired(); in == nil || in.Since.IsZero() || in.Err.Error() != err.Error() {
		t.Errorf("got %+v", in)
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Writable(t.Context()); err != nil || s.impaired() != nil {
		t.Errorf("control: %v, %+v", err, s.impaired())
	}
	if left, err := os.ReadDir(s.dir); err != nil || len(left) != 0 {
		t.Errorf("the probe left %v, %v", left, err)
	}
}

// TestAdmit: uploads leave the reserve free.
func TestAdmit(t *testing.T) {
	s := &space{dir: t.TempDir(), store: &stores.Store{}}
	if err := s.Admit(0); err != nil {
		t.Errorf("control: %v", err)
	}
	s.reserve = 1 << 60
	if err := s.Admit(5); !job.IsFull(err) ||
		!strings.Contains(fmt.Sprint(err), fmt.Sprintf("keeps %d in reserve, and 5 more are needed", s.reserve)) {
		t.Errorf("got %v", err)
	}
}
