package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/backup"
)

// docs/operating.md has the table of durableData.
func TestDataTable(t *testing.T) {
	text, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\n"+dataTable()+"\n") {
		t.Errorf("docs/operating.md lacks this table:\n%s", dataTable())
	}
}

// What may be left out says why, and what belongs to a backup is not disposable.
func TestDurableData(t *testing.T) {
	for _, e := range durableData() {
		if (e.How == backup.Left) != (e.Reason != "") {
			t.Errorf("%s: %s, reason %q", e.Name, e.How, e.Reason)
		}
		if e.What == "" {
			t.Errorf("%s: nothing says what it is", e.Name)
		}
	}
	for name, want := range map[string]backup.How{"stagepost.db": backup.Database, "stagepost.db-wal": backup.Left, "address.new": backup.Left, "work": backup.Linked} {
		if e := backup.Find(durableData(), name); e == nil || e.How != want {
			t.Errorf("%s: %+v, want %s", name, e, want)
		}
	}
	if e := backup.Find(durableData(), "stranger"); e != nil {
		t.Errorf("control: %+v stands for a stranger's file", e)
	}
}
