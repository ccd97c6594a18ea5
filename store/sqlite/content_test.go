package sqlite

import (
	"testing"
	"time"

	"github.com/stagepost/stagepost/internal/transfer"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/storetest"
)

// TestClear clears a store for a migration: its numbers begin anew in another series of commits, also after a crash
// between the head file and the commit. The control is a store that is not marked.
func TestClear(t *testing.T) {
	for _, marked := range []bool{true, false} {
		dir := t.TempDir()
		s := openStore(t, dir, Options{NoLog: true})
		workload(t, s, newDisk(t))
		_, before, err := s.Entries(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := s.Content()
		if marked {
			if err := c.SetMark(t.Context(), transfer.Mark{State: transfer.Unfinished, At: time.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		closeStore(t, s)
		s = openStore(t, dir, Options{Migrates: true, NoLog: true})
		last, after, err := s.Entries(t.Context())
		if err != nil || last != 0 || after == before {
			t.Errorf("entry %d of series %s after %s, %v", last, after, before, err)
		}
		if n, err := s.Content().Rows(t.Context()); err != nil || !n.Empty() {
			t.Errorf("it still has %+v, %v", n, err)
		}
		if faults := storetest.Check(t.Context(), s, storetest.Step); len(faults) > 0 {
			t.Errorf("faults: %q", faults)
		}
		closeStore(t, s)
		sql(t, dir, "UPDATE head SET series = 'another'") // as after a crash
		s, err = Open(dir, Options{Migrates: true, NoLog: true})
		if marked && err != nil {
			t.Errorf("the next attempt: %v", err)
		}
		if !marked && job.KindOf(err) != job.Internal {
			t.Errorf("control: %v", err)
		}
		if err == nil {
			closeStore(t, s)
		}
	}
}
