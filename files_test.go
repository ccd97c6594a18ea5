package stagepost_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestNoLargeFiles refuses programs and data that were added by mistake.
func TestNoLargeFiles(t *testing.T) {
	const most = 1 << 20
	seen := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (path == "bin" || path != "." && strings.HasPrefix(d.Name(), ".")) {
			if d != nil && d.IsDir() {
				return filepath.SkipDir
			}
			return err
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			return err
		}
		if seen++; info.Size() > most {
			t.Errorf("%s has %d bytes: a repository of source has no such file", path, info.Size())
		}
		return nil
	})
	if err != nil || seen < 100 {
		t.Errorf("%d files, %v", seen, err)
	}
}

// TestNoSleep refuses time.Sleep in tests, which wait for signals, except in packages whose tests run on fake time
// (testing/synctest), and in bench, where clients pause between their requests.
func TestNoSleep(t *testing.T) {
	fake, sleepers := map[string]bool{}, map[string]string{}
	for file, imports := range sources(t) {
		dir := filepath.Dir(file)
		fake[dir] = fake[dir] || slices.Contains(imports, "testing/synctest")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") && file != "files_test.go" && dir != "bench" &&
			strings.Contains(string(text), "time.Sleep(") {
			sleepers[dir] = file
		}
	}
	for dir, file := range sleepers {
		if !fake[dir] {
			t.Errorf("%s sleeps, and no test of its package runs on fake time: wait for a signal", file)
		}
	}
	if len(sleepers) == 0 {
		t.Error("the control: no test on fake time sleeps: the search is broken")
	}
}
