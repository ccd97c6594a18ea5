package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/backup"
)

// docs/operating.md has the table of durableData.
func TestDataTable(t *testing.T) {
	text, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\n"+newSettings().DataTable()+"\n") {
		t.Errorf("docs/operating.md lacks this table:\n%s", newSettings().DataTable())
	}
}

// TestBackupOfDemo makes a data directory with ingest, access, flows and compute jobs. durableData names every entry of
// it, and a restored backup is the same.
func TestBackupOfDemo(t *testing.T) {
	t.Parallel()
	here, restored := t.TempDir(), filepath.Join(t.TempDir(), "new")
	printed(t, here)
	dir := filepath.Join(here, "demo-data-1")
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"admin", "backup", "--data", dir, "one"},
		{"admin", "restore", filepath.Join(dir, "backups", "one"), "--data", restored}} {
		if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	m, err := backup.ReadManifest(filepath.Join(dir, "backups", "one"))
	if err != nil || len(m.Unknown) > 0 {
		t.Errorf("durableData does not name %v: state there how a backup takes it, or why it may be left out; %v",
			m.Unknown, err)
	}
	if n := sameData(t, dir, restored); n < 100 {
		t.Errorf("only %d files were compared", n)
	}
}

// An entry that backups leave out has a reason; the others have none.
func TestDurableData(t *testing.T) {
	for _, e := range newSettings().DurableData() {
		if (e.How == backup.Left) != (e.Reason != "") {
			t.Errorf("%s: %s, reason %q", e.Name, e.How, e.Reason)
		}
		if e.What == "" {
			t.Errorf("%s: it has no description", e.Name)
		}
	}
	for name, want := range map[string]backup.How{"stagepost.db": backup.Database, "stagepost.db-wal": backup.Left,
		"address.new": backup.Left, "work": backup.Linked} {
		if e := backup.Find(newSettings().DurableData(), name); e == nil || e.How != want {
			t.Errorf("%s: %+v, want %s", name, e, want)
		}
	}
	if e := backup.Find(newSettings().DurableData(), "stranger"); e != nil {
		t.Errorf("control: %+v stands for a stranger's file", e)
	}
}
