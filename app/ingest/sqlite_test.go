package ingest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/sqlite"
)

// TestOnSQLite runs a batch on the store that servers use, and a second one after a restart in the same directory.
func TestOnSQLite(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha", "b.txt": "beta"})
	s.put("one.checkm", s.manifest("a.txt"))
	s.put("two.checkm", s.manifest("b.txt"))
	o := options(t, t.TempDir())
	for version := 1; version <= 2; version++ {
		edition := fmt.Sprintf(", edition %d", version)
		text := manifest("mrt-batch-manifest", s.row("one.checkm", "l1", "One"+edition),
			s.row("two.checkm", "l2", "Two"+edition))
		store, err := sqlite.Open(o.Dir, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := startOn(t, store, o)
		r := w.ingest(Submission{Key: strings.Repeat("k", version)}, text)
		if r.State != record.Completed || r.Completed != 2 || r.Jobs[0].Version != version {
			t.Errorf("got %s", r.Text())
		}
		for _, id := range []job.ID{r.Batch, r.Jobs[0].Job, r.Jobs[1].Job} {
			w.verify(id)
		}
		w.valid()
		w.stop()
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
