package orchestratorcli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/host"
	"github.com/stagepost/stagepost/internal/conn"
)

// TestImportOddRows: what cannot be taken over is reported before anything was, by the dry run in the same words, and
// does not keep the rest from being taken over where possible.
func TestImportOddRows(t *testing.T) {
	for _, id := range []string{"9007199254740993", "5000000000", "0", "-3"} {
		database := oldSite(t, "failed", "completed")
		db, err := conn.Open(database, conn.Create, "")
		if err == nil {
			err = db.Exec("UPDATE jobs SET id = " + id + " WHERE id = 20")
			db.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		i := newImporting(t, database)
		for _, dry := range []string{"--dry-run", "--dry-run=false"} {
			if code, out := i.command("--compute-services", i.services, dry); code == 0 ||
				!strings.Contains(out, "a job has the id "+id) {
				t.Errorf("%s %s: %d %s", id, dry, code, out)
			}
		}
	}
	database := oldSite(t, "failed", "queued", "completed")
	for n := range 2 { // names of another time: Latin-1
		if err := os.WriteFile(filepath.Join(filepath.Dir(database), fmt.Sprint("job-", n), "caf\xe9.txt"), []byte("x"),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	i := newImporting(t, database)
	dry, done := i.counts("--dry-run"), i.counts()
	if dry.Failed != done.Failed || done.Failed != 1 {
		t.Errorf("the dry run has %+v, the import %+v", dry, done)
	}
	all := i.serve(func(*host.Server) {})
	if j := all[20]; j.State != compute.Invalid || !strings.Contains(j.Message, "not all of its files") {
		t.Errorf("a queued job that would run without a file: %s, %s", j.State, j.Message)
	}
	if all[10].State != compute.Failed || all[30].State != compute.Completed {
		t.Errorf("the others: %s, %s", all[10].State, all[30].State)
	}
}
