package archiveserve_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/archive"
	archiveserve "github.com/stagepost/stagepost/app/archive/serve"
	"github.com/stagepost/stagepost/module"
)

// TestCheckWithoutConfiguration: a catalog without archives, as a migration from PostgreSQL leaves one, needs no
// configuration. The control: one with an archive does.
func TestCheckWithoutConfiguration(t *testing.T) {
	for _, archives := range []bool{false, true} {
		f, tsa := newFixture(t), newStamper(t, "tsa")
		f.configure("", tsa)
		must(t, f.start())
		if archives {
			f.completed(f.submit(archive.Request{Course: "algebra"}))
		}
		f.stop()
		must(t, os.Remove(filepath.Join(f.data, archiveserve.ConfigName)))
		s := &archiveserve.Settings{}
		found, err := s.CheckDir(t.Context(), module.Directory{Dir: f.data})
		missing := len(found.Faults) == 1 && strings.Contains(found.Faults[0], "there are archives, but")
		if err != nil || missing != archives {
			t.Errorf("archives: %t: %+v, %v", archives, found, err)
		}
	}
}
