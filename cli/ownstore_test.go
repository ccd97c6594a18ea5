package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/job"
)

// TestOwnStore refuses another store by the setting and by the file of the directory. The control has neither.
func TestOwnStore(t *testing.T) {
	var with struct {
		Store string `name:"store" default:"sqlite" doc:"x"`
	}
	s := NewCommon(&with)
	s.Data = t.TempDir()
	if err := s.OwnStore("leave it"); err != nil {
		t.Errorf("control: %v", err)
	}
	with.Store = "postgres://u:secret@h/jobs"
	err := s.OwnStore("leave it")
	if job.KindOf(err) != job.Refused || !strings.Contains(err.Error(), "u:xxxxx@h/jobs: leave it") {
		t.Errorf("by the setting: %v", err)
	}
	with.Store = "sqlite"
	if err := os.WriteFile(filepath.Join(s.Data, SharedFile), []byte("id"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.OwnStore("leave it"); job.KindOf(err) != job.Refused || !strings.Contains(err.Error(), SharedFile) {
		t.Errorf("by the directory: %v", err)
	}
}
