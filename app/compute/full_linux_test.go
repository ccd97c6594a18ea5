package compute_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
)

// TestNoRoomOnTheDisk: what cannot be stored is Unavailable, and nothing is left. Who may not mount a small file system
// has a directory in which nothing can be made.
func TestNoRoomOnTheDisk(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := quick(t)
		small := os.Geteuid() == 0 && syscall.Mount("tmpfs", o.Dir, "tmpfs", 0, "size=1m") == nil
		if small {
			t.Cleanup(func() {
				if err := syscall.Unmount(o.Dir, syscall.MNT_DETACH); err != nil {
					t.Error(err)
				}
			})
		}
		w := newHarness(t, o, nil)
		u := begin(t, w.app)
		stage := filepath.Join(o.Dir, "compute", "stage")
		entries, err := os.ReadDir(stage)
		if err != nil || len(entries) != 1 {
			t.Fatal(entries, err)
		}
		chmod := func(mode os.FileMode) {
			if err := os.Chmod(filepath.Join(stage, entries[0].Name()), mode); err != nil && !small {
				t.Error(err)
			}
		}
		if !small {
			chmod(0o500)
		}
		if err := u.File("big", bytes.NewReader(make([]byte, 8<<20))); job.KindOf(err) != job.Unavailable ||
			strings.Contains(err.Error(), o.Dir) {
			t.Errorf("a full disk: %v", err)
		}
		if !small {
			chmod(0o700)
		}
		u.Discard()
		left(t, o.Dir, "stage", 0)
		if _, err := w.order(compute.Order{Owner: "ada", Service: "example"},
			map[string]string{compute.Script: hello}); err != nil {
			t.Errorf("a small one afterwards: %v", err)
		}
	})
}
