package token

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stagepost/stagepost/server/identity"
)

// TestUses: the last use of a token is noted to the minute and written by Flush alone; refused tokens and tokens that
// are gone are not in the file; of two servers the later use counts.
func TestUses(t *testing.T) {
	ann, old := newToken(t), newToken(t)
	f := openFile(t, Entry{ann.Hash(), identity.Depositor, "ann", time.Time{}, "", "", ""},
		Entry{old.Hash(), identity.Depositor, "old", time.Now().Add(-time.Hour), "", "", ""})
	name := filepath.Join(t.TempDir(), UsesName)
	if _, err := f.check("/", "Bearer "+ann.Reveal()); err != nil || f.FlushUses() != nil { // the control: not noted
		t.Fatal(err)
	}
	f.Note(NewUses(name))
	f.now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	used := func() time.Time {
		t.Helper()
		_, all, err := f.List()
		if err != nil || len(all) > 1 {
			t.Errorf("%v, %v", all, err)
		}
		return all[shortOf(ann.Hash())]
	}
	if !used().IsZero() {
		t.Error("it was used before it was used")
	}
	for _, s := range []Secret{ann, old} {
		_, _ = f.check("/", "Bearer "+s.Reveal())
	}
	want := time.Date(2030, 1, 2, 3, 4, 0, 0, time.UTC)
	if got := used(); !got.Equal(want) {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := os.Stat(name); err == nil {
		t.Error("a request has written the file")
	}
	flush := func() {
		t.Helper()
		if err := f.FlushUses(); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	before, err := os.Stat(name)
	if err != nil || before.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", before, err)
	}
	flush()
	if again, err := os.Stat(name); err != nil || !os.SameFile(before, again) {
		t.Errorf("it was written without a use: %v", err)
	}

	other := NewUses(name) // of another server, an hour later
	other.note(ann.Hash(), want.Add(time.Hour))
	gone := newToken(t)
	other.note(gone.Hash(), want)
	if err := other.Flush(f.All()); err != nil {
		t.Fatal(err)
	}
	_, _ = f.check("/", "Bearer "+ann.Reveal())
	flush()
	all, err := ReadUses(name)
	if err != nil || len(all) != 1 || !all[shortOf(ann.Hash())].Equal(want.Add(time.Hour)) {
		t.Errorf("got %v, %v", all, err)
	}
	if err := os.WriteFile(name, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _ = f.check("/", "Bearer "+ann.Reveal())
	if f.FlushUses() == nil {
		t.Error("a file that cannot be read was replaced")
	}
}
