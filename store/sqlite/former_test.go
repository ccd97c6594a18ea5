package sqlite

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/store/sqlite/internal/rowlog"
)

// TestFormerEntries: history entries that an earlier version left in the log are applied, among those of this one.
func TestFormerEntries(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{})
	var g rowlog.Group
	columns := map[rowlog.Kind]int{rowlog.Event: 10, rowlog.Sent: 11, rowlog.Entry: 12}
	number := int64(0)
	for range eventsAtOnce {
		for _, kind := range []rowlog.Kind{rowlog.Entry, rowlog.Event, rowlog.Sent} {
			number++
			row := g.Row(kind)
			for i := 1; i <= columns[kind]; i++ {
				row.Int(i, number+int64(i)-1)
			}
			if err := row.Run(); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.writer.Lock()
	images, err := rowlog.Latest([][]byte{g.Content()})
	if err == nil {
		err = s.records.c.Exec("BEGIN IMMEDIATE")
	}
	if err == nil {
		err = s.applier.rowsOf(images)
	}
	if err == nil {
		err = s.records.c.Exec("COMMIT")
	}
	s.writer.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	got := texts(t, dir, "SELECT e || ' ' || note || ' ' || coalesce(address, '-') || ' ' || coalesce(worked, '-') "+
		"FROM event WHERE e <= 3 ORDER BY e", 1)
	if diff := cmp.Diff([]string{"1 10 11 12", "2 11 - -", "3 12 13 -"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if n := texts(t, dir, "SELECT count(*) FROM event", 1); n[0] != "24" {
		t.Errorf("%s entries", n[0])
	}
}
