package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/backup"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/host"
	hostcli "github.com/stagepost/stagepost/host/cli"
	"github.com/stagepost/stagepost/host/stores"
	"github.com/stagepost/stagepost/store/sqlite"
)

// backedDir is a data directory of which backups are made.
type backedDir struct {
	t *testing.T
	k *host.Maintenance
}

func newBackedDir(t *testing.T) *backedDir {
	t.Helper()
	dir := t.TempDir()
	store, err := sqlite.Open(dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	s := newSettings()
	s.Data = dir
	b := &backedDir{t, &host.Maintenance{Store: stores.OfSQLite(store), Dir: dir, Settings: s}}
	b.inventory("PRAGMA journal_mode = WAL; " +
		"CREATE TABLE places (ark, version, place); CREATE TABLE versions (job); " +
		"PRAGMA user_version = 1")
	return b
}

// inventory runs statements on the inventory, whose log stays.
func (b *backedDir) inventory(text string) {
	b.t.Helper()
	db, err := host.OpenReading(filepath.Join(b.k.Dir, "inventory.db"), "_pragma=journal_mode(WAL)")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Exec(text); err != nil {
		b.t.Fatal(err)
	}
}

func (b *backedDir) backup(name string) string {
	b.t.Helper()
	done, err := b.k.Backup(b.t.Context(), client.Backup{Name: name, Actor: "ann"})
	if err != nil {
		b.t.Fatal(err)
	}
	return done.Dir
}

// A set into which a file of another one was put is refused, and the message names what the file is. The control is the
// set as it was made, which has what stood in the log of the inventory.
func TestWrongSets(t *testing.T) {
	mine, other := newBackedDir(t), newBackedDir(t)
	older := mine.backup("older")
	mine.inventory("INSERT INTO places VALUES ('ark:/99999/new', 1, '/mnt/storage')")
	stranger := other.backup("stranger")
	for what, c := range map[string]struct{ from, file, want string }{
		"older inventory": {older, "data/inventory.db",
			"inventory.db does not belong to this backup: it is a database of another moment"},
		"older store": {older, "data/stagepost.db",
			"stagepost.db does not belong to this backup: it is a database of another moment"},
		"other installation": {stranger, "data/stagepost.db",
			"it is of the installation " + other.k.Store.Installation + ", the backup is of " +
				mine.k.Store.Installation},
		"missing inventory": {"", "data/inventory.db", "inventory.db is missing from the backup"},
		"manifest of other": {stranger, "manifest.json", "manifest.json was changed after the backup"},
		"nothing":           {},
	} {
		set := mine.backup(strings.ReplaceAll(what, " ", "-"))
		if c.file != "" {
			if err := os.Remove(filepath.Join(set, c.file)); err != nil {
				t.Fatal(err)
			}
		}
		if c.from != "" {
			text, err := os.ReadFile(filepath.Join(c.from, c.file))
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(set, c.file), string(text))
		}
		target := filepath.Join(t.TempDir(), "new")
		m, err := backup.Restore(t.Context(), set, target, newSettings().SetReader())
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) || hostcli.Exists(target) {
				t.Errorf("%s: %v, want %q, and nothing written (%t)", what, err, c.want, hostcli.Exists(target))
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Outside) != 1 || m.Outside[0].Path != "/mnt/storage" {
			t.Errorf("outside: %+v", m.Outside)
		}
		if rows := tables(t, filepath.Join(target, "inventory.db"))["places"]; len(rows) != 1 {
			t.Errorf("the restored inventory has %v", rows)
		}
	}
}

// Backups are entered in the audit list with who made them.
func TestBackupIsAudited(t *testing.T) {
	b := newBackedDir(t)
	dir := b.backup("one")
	list, err := b.k.Store.Jobs.Audit(t.Context(), 0, 10)
	if err != nil || len(list) != 1 || list[0].Event != "backup" || list[0].Actor != "ann" || list[0].Object != dir {
		t.Errorf("audit list %+v, %v", list, err)
	}
}
