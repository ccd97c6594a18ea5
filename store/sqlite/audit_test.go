package sqlite

import (
	"strings"
	"sync"
	"testing"

	"github.com/stagepost/stagepost/job"
)

// Any change of the audit log shows, in a backup as in the store itself.
func TestVerifyAudit(t *testing.T) {
	whole := t.TempDir()
	s := openStore(t, whole, Options{})
	workload(t, s, newDisk(t))
	list, err := s.Audit(t.Context(), 0, 1000)
	if err != nil || len(list) != 12 { // three of holds in each round, and three of the job that is purged
		t.Fatalf("%d entries, %v", len(list), err)
	}
	for name, c := range map[string]struct{ spoil, says string }{
		"nothing":  {"SELECT 1", ""},
		"note":     {"UPDATE audit SET note = 'another' WHERE a = 4", "entry 4 "},
		"who":      {"UPDATE audit SET who = 'mallory' WHERE a = 5", "entry 5 "},
		"time":     {"UPDATE audit SET at = at + 1 WHERE a = 1", "entry 1 "},
		"actor":    {"UPDATE audit SET actor = 8 WHERE a = 12", "entry 12 "},
		"job":      {"UPDATE audit SET job = 'tst_another' WHERE a = 6", "entry 6 "},
		"seen":     {"UPDATE audit SET seen = 3 WHERE a = 6", "entry 6 "},
		"hash":     {"UPDATE audit SET hash = x'00' WHERE a = 7", "entry 7 "},
		"lost":     {"DELETE FROM audit WHERE a = 9", "entry 9 is missing"},
		"no first": {"DELETE FROM audit WHERE a = 1", "entry 1 is missing"},
		"swapped": {"UPDATE audit SET a = 100 WHERE a = 3; UPDATE audit SET a = 3 WHERE a = 4; UPDATE audit SET a = " +
			"4 WHERE a = 100", "entry 3 "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := s.Backup(t.Context(), dir+"/"+database); err != nil {
				t.Fatal(err)
			}
			sql(t, dir, c.spoil)
			spoilt := openStore(t, dir, Options{})
			var wrong []string
			checked, _, err := spoilt.Verify(t.Context(), "", lives,
				func(id job.ID, err error) { wrong = append(wrong, string(id)+err.Error()) })
			if err != nil || checked != 12 {
				t.Errorf("%d jobs checked, %v", checked, err)
			}
			if c.says == "" && len(wrong) > 0 || c.says != "" &&
				(len(wrong) != 1 || !strings.Contains(wrong[0], c.says)) {
				t.Errorf("wrong: %q, want %q", wrong, c.says)
			}
		})
	}
}

// Verify reads the list page by page.
func TestVerifyLongAudit(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 50 {
				err := s.Note(t.Context(), job.Audit{By: 4, Actor: "olga", Event: "test", At: testTime})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	clean(t, s)
	sql(t, dir, "UPDATE audit SET note = 'x' WHERE a = 2100")
	s = openStore(t, dir, Options{})
	wrong := 0
	if _, _, err := s.Verify(t.Context(), "", lives, func(job.ID, error) { wrong++ }); err != nil || wrong != 1 {
		t.Errorf("%d wrong, %v", wrong, err)
	}
}
