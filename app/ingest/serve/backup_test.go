package ingestserve

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestKnowsMakers: a version of a job whose record names its object is of the backup's moment, one of a job that has no
// identifier yet is later, and so is one of a job without a record.
func TestKnowsMakers(t *testing.T) {
	dir := t.TempDir()
	sql := `CREATE TABLE jobs (id TEXT, data TEXT);
		INSERT INTO jobs VALUES ('ing_1', '{"identity":{"ark":"ark:/1/a"},"version":1}'), ('ing_2', '{"files":3}'), ('ing_3', NULL);`
	if out, err := exec.Command("sqlite3", filepath.Join(dir, "stagepost.db"), sql).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	known, err := OpenCopies(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer known.Close()
	for id, want := range map[string]bool{"ing_1": true, "ing_2": false, "ing_3": false, "ing_4": false} {
		if got, err := known.Has(id); err != nil || got != want {
			t.Errorf("%s: got %t, %v", id, got, err)
		}
	}
}
