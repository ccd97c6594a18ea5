package sqlite

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var flips = flag.Int("flips", 12, "bits to flip in the log and in the pages, one at a time")

// storeFiles are what a store keeps in its directory.
var storeFiles = []string{database, database + "-wal", headName, marker}

// snapshot gives a directory with what a killed process leaves: the files of an open store as they are.
func snapshot(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range storeFiles {
		putFile(t, dir, to, name)
	}
	return to
}

// putFile copies a file of a store to another directory, or removes it there.
func putFile(t testing.TB, from, to, name string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(from, name))
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.Remove(filepath.Join(to, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(to, name), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// refused requires that Open refuses a directory with these texts, and that it opens after an acceptance, which the
// audit log has.
func refused(t *testing.T, dir string, says ...string) {
	t.Helper()
	s, err := Open(dir, Options{})
	if err == nil {
		closeStore(t, s)
		t.Fatalf("it was opened, want it refused with %q", says)
	}
	wantKind(t, "open", err, job.Internal)
	for _, text := range append(says, "stagepost admin accept --data "+dir) {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error lacks %q: %v", text, err)
		}
	}
	missing, err := Accept(t.Context(), dir, "olga", "the disk broke")
	if err != nil || missing == "" {
		t.Errorf("accept: %q, %v", missing, err)
	}
	s = openStore(t, dir, Options{})
	list, err := s.Audit(t.Context(), 0, -1)
	if err != nil || len(list) != 1 || list[0].Actor != "olga" || list[0].Event != acceptLoss ||
		!strings.Contains(list[0].Note, missing) {
		t.Errorf("audit log: %+v, %v", list, err)
	}
	create(t, s, "tst_afterwards")
	closeStore(t, s)
	closeStore(t, openStore(t, dir, Options{}))
	_, err = Accept(t.Context(), dir, "olga", "again")
	wantKind(t, "accept where nothing is missing", err, job.Refused)
}

// A store that lost commits is refused, whatever took them; the control is the same store with all its files.
func TestDamagedLogIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{NoLog: true})
	create(t, s, "tst_1", "tst_2")
	closeStore(t, s) // everything is in the database, there is no log
	older := snapshot(t, dir)
	s = openStore(t, dir, Options{NoLog: true})
	create(t, s, "tst_3")
	create(t, s, "tst_4")
	killed := snapshot(t, dir)
	closeStore(t, s)
	stopped := snapshot(t, dir)
	for _, sound := range []string{snapshot(t, killed), snapshot(t, stopped), snapshot(t, older)} {
		clean(t, openStore(t, sound, Options{}))
	}
	for name, spoil := range map[string]func(dir string) []string{
		"log removed": func(dir string) []string {
			putFile(t, t.TempDir(), dir, database+"-wal")
			return []string{"gone back in time", "Missing: 2 commits, 2 jobs, 2 history entries"}
		},
		"log cut": func(dir string) []string {
			file := filepath.Join(dir, database+"-wal")
			info, err := os.Stat(file)
			if err == nil {
				err = os.Truncate(file, info.Size()-100)
			}
			if err != nil {
				t.Fatal(err)
			}
			return []string{"Missing: 1 commit, 1 job, 1 history entry."}
		},
		"older database": func(dir string) []string {
			putFile(t, older, dir, database)
			putFile(t, t.TempDir(), dir, database+"-wal")
			return []string{"Missing: 2 commits"}
		},
		"database of another directory": func(dir string) []string {
			other := t.TempDir()
			s := openStore(t, other, Options{})
			for i := range 9 {
				create(t, s, fmt.Sprint("tst_", i))
			}
			closeStore(t, s)
			putFile(t, other, dir, database)
			putFile(t, t.TempDir(), dir, database+"-wal")
			return []string{"belongs to another database"}
		},
		"a backup beside a newer head": func(dir string) []string {
			from := openStore(t, snapshot(t, older), Options{})
			putFile(t, t.TempDir(), dir, database)
			putFile(t, t.TempDir(), dir, database+"-wal")
			if err := from.Backup(t.Context(), filepath.Join(dir, database)); err != nil {
				t.Fatal(err)
			}
			return []string{"belongs to another database"}
		},
		"continued elsewhere": func(dir string) []string {
			other := snapshot(t, older)
			s := openStore(t, other, Options{NoLog: true})
			create(t, s, "tst_3")
			create(t, s, "tst_5")
			closeStore(t, s)
			putFile(t, other, dir, database)
			putFile(t, t.TempDir(), dir, database+"-wal")
			return []string{"both continued from the same one"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := snapshot(t, killed)
			refused(t, dir, spoil(dir)...)
		})
	}
}

// Without its head the newest commit is unknown.
func TestMissingHeadIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{})
	create(t, s, "tst_1")
	create(t, s, "tst_2")
	closeStore(t, s)
	for name, lost := range map[string][]string{"head": {headName}, "head and has-data": {headName, marker}} {
		t.Run(name, func(t *testing.T) {
			dir := snapshot(t, dir)
			for _, name := range lost {
				putFile(t, t.TempDir(), dir, name)
			}
			refused(t, dir, "head is missing")
		})
	}
	spoil := func(dir string, slots ...int64) {
		f, err := os.OpenFile(filepath.Join(dir, headName), os.O_RDWR, 0)
		for _, slot := range slots {
			_, e := f.WriteAt([]byte("X"), slot*slotSize+20)
			err = errors.Join(err, e)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for slot := range int64(headSlots) {
		one := snapshot(t, dir)
		spoil(one, slot)
		clean(t, openStore(t, one, Options{})) // the other slot suffices
	}
	both := snapshot(t, dir)
	spoil(both, 0, 1)
	refused(t, both, "head is damaged")

	// A head without its database is like a marker without one.
	alone := t.TempDir()
	putFile(t, dir, alone, headName)
	_, err := Open(alone, Options{})
	wantKind(t, "a head alone", err, job.Internal)
}

// The end of the audit log is in the head, so that a list that was cut there is noticed although its chain holds.
func TestCutAuditListIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{})
	enter := func(s *Store, note string) {
		t.Helper()
		a := job.Audit{By: lifecycle.Operator, Actor: "olga", Event: "test", Note: note, At: testTime}
		if err := s.Note(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		enter(s, fmt.Sprint(i))
	}
	closeStore(t, s)
	for name, c := range map[string]struct{ spoil, says string }{
		"last":     {"DELETE FROM audit WHERE a = 5", "1 entry of the audit log"},
		"some":     {"DELETE FROM audit WHERE a > 2", "3 entries of the audit log"},
		"all":      {"DELETE FROM audit", "5 entries of the audit log"},
		"replaced": {"UPDATE audit SET hash = zeroblob(32) WHERE a = 5", "entry 5 of the audit log was replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := snapshot(t, dir)
			s := openStore(t, dir, Options{}) // while a server runs, verify notices
			sql(t, dir, c.spoil)
			var wrong []string
			if _, _, err := s.Verify(t.Context(), "", lives,
				func(_ job.ID, err error) { wrong = append(wrong, err.Error()) }); err != nil {
				t.Fatal(err)
			}
			if len(wrong) != 1 || !strings.Contains(wrong[0], "audit") {
				t.Errorf("verify returned %q", wrong)
			}
			closeStore(t, s)
			refused(t, dir, c.says)
		})
	}
	clean(t, openStore(t, dir, Options{})) // the control
}

// What a bit that flips in the log takes away is noticed, or nothing is lost. The control reads the same file without
// the head.
func TestFlippedBits(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{})
	workload(t, s, newDisk(t))
	want := contentsOf(t, s)
	killed := snapshot(t, dir)
	closeStore(t, s)
	random := rand.New(rand.NewPCG(3, 4))
	unnoticed, silent := 0, 0
	for n := range *flips {
		dir := snapshot(t, killed)
		at := flip(t, filepath.Join(dir, database+"-wal"), random)
		s, err := Open(dir, Options{})
		if err != nil {
			wantKind(t, "open", err, job.Internal)
			if missing, err := Accept(t.Context(), dir, "olga", "a control"); err != nil || missing == "" {
				t.Logf("bit %d: %v", at, err) // the first page: nothing can be made of what is left
				continue
			}
			s = openStore(t, dir, Options{})
			if diff := cmp.Diff(want, contentsOf(t, s)); diff != "" {
				silent++
			}
			closeStore(t, s)
			continue
		}
		if diff := cmp.Diff(want, contentsOf(t, s)); diff != "" {
			unnoticed++
			t.Errorf("bit %d (%d): opened, and (-want +got):\n%s", at, n, diff)
		}
		closeStore(t, s)
	}
	t.Logf("%d bits flipped in the log: %d lost something, %d of these unnoticed", *flips, silent+unnoticed, unnoticed)
	if silent == 0 {
		t.Error("no flip lost anything: the test is blind")
	}
}

// A log that ends anywhere in the making of the database leaves a database that has no head file yet. It is noticed
// that there is one.
func TestLogOfNewDatabaseIsCut(t *testing.T) {
	const header, frame = 32, 24 + 4096 // https://sqlite.org/fileformat.html, section 4.1
	dir := t.TempDir()
	s := openStore(t, dir, Options{NoLog: true})
	made, err := os.Stat(filepath.Join(dir, database+"-wal"))
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "tst_1")
	killed := snapshot(t, dir)
	closeStore(t, s)
	clean(t, openStore(t, snapshot(t, killed), Options{})) // the control
	for size := int64(header); size <= made.Size(); size += frame {
		dir := snapshot(t, killed)
		if err := os.Truncate(filepath.Join(dir, database+"-wal"), size); err != nil {
			t.Fatal(err)
		}
		if s, err := Open(dir, Options{}); err == nil {
			t.Errorf("opened with a log of %d frames", (size-header)/frame)
			closeStore(t, s)
		} else {
			wantKind(t, "open", err, job.Internal)
		}
	}
}

// flip turns one bit of a file over, and returns its offset.
func flip(t *testing.T, file string, random *rand.Rand) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil || len(text) == 0 {
		t.Fatalf("%s: %d bytes, %v", file, len(text), err)
	}
	bit := random.IntN(8 * len(text))
	text[bit/8] ^= 1 << (bit % 8)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return bit
}
