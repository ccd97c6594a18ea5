package ingest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest/location"
	"github.com/stagepost/stagepost/app/ingest/workdir"
)

// FuzzCursor reads hostile cursors: what is taken leads to a known list, and a row of it.
func FuzzCursor(f *testing.F) {
	for _, c := range []string{"", "work:3", "manifest:1", "inventory:producer/a", "inventory:", "work:-1", "x:y",
		"work:1:2", "inventory:\x00"} {
		f.Add(c)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		source, at, err := parseCursor(cursor)
		switch {
		case err != nil:
			if len(err.Error()) > 400 {
				t.Errorf("the error repeats %d bytes", len(err.Error()))
			}
		case cursor == "":
		case source+":"+at != cursor || source != fromWork && source != fromManifest && source != fromInventory:
			t.Errorf("%q is %q and %q", cursor, source, at)
		}
	})
}

// FuzzTrashName reads hostile names in the trash: what was written by this program is read back, and no other name has
// a time.
func FuzzTrashName(f *testing.F) {
	f.Add(workdir.Trashed(time.Unix(1_700_000_000, 123_000), "bat_X"))
	f.Add("20260504T120000.000000Z-")
	f.Add("20260504T120000.000000Z")
	f.Add("lost+found")
	f.Add("00000101T000000,000000Z-0")
	f.Fuzz(func(t *testing.T, name string) {
		if at, id, ok := workdir.ParseTrashed(name); ok && (id == "" || workdir.Trashed(at, id) != name) {
			t.Errorf("%q is %s and %q", name, at, id)
		}
	})
}

// FuzzObjectID reads hostile inventories in a storage location.
func FuzzObjectID(f *testing.F) {
	for _, text := range []string{`{"id":"ark:/1/2"}`, `{"a":[{"id":"x"}],"id":"y"}`, `{"id":3}`, `[`, ``, `{"id":`,
		`"id"`, `{"a":1}`, strings.Repeat("[", 1000)} {
		f.Add(text)
	}
	file := filepath.Join(f.TempDir(), "inventory.json")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if id, err := location.ObjectID(file); err == nil && id != "" && !strings.Contains(text, "id") &&
			!strings.Contains(text, `\u`) {
			t.Errorf("%q has the id %q", text, id)
		}
	})
}
