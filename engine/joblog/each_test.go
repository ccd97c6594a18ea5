package joblog_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine/joblog"
	"github.com/stagepost/stagepost/job"
)

// TestEachFindsLogsOnly checks that other files, and logs in the wrong folder, are skipped, and that do is not called
// after it returned false.
func TestEachFindsLogsOnly(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, joblog.Options{})
	want := []job.ID{"let_0aa", "let_1bb", "let_2bb"}
	for _, id := range want {
		l.Logger(id, 1, "Sorting").Info("line")
	}
	for _, name := range []string{"aa/notes.txt", "aa/let_1bb.log", "bb/..log", "zzz/let_zzz.log", "stray.log"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got []job.ID
	err := l.Each(func(id job.ID, written time.Time) bool {
		if time.Since(written).Abs() > time.Hour {
			t.Errorf("%s was written at %s", id, written)
		}
		got = append(got, id)
		return l.Remove(id) == nil
	})
	if slices.Sort(got); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	l.Logger("let_0aa", 1, "Sorting").Info("line")
	l.Logger("let_1bb", 1, "Sorting").Info("line")
	n := 0
	if err := l.Each(func(job.ID, time.Time) bool { n++; return false }); err != nil || n != 1 {
		t.Errorf("asked %d times, %v", n, err)
	}
}
