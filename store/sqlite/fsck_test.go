package sqlite

import (
	"strings"
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/internal/sizes"
)

// damages are statements that spoil what the workload left, the message of fsck for each, and whether it can be
// repaired.
var damages = []struct {
	name, sql, says string
	derived         bool
}{
	{"ended flag", "UPDATE job_now SET ended = 1 - ended WHERE n = 3", "as to having ended", true},
	{"children counts", "UPDATE job_now SET children = '[3,9,0,0,0,0,0]' WHERE n = 1", "counts its jobs", true},
	// Expected is the record's own
	{"no children counts", "UPDATE job_now SET children = NULL WHERE n = 1", "counts its jobs", false},
	{"back link", "UPDATE event SET back = back + 1 WHERE seq = 2", "points back", true},
	{"last entry", "UPDATE job_now SET last = last - 1 WHERE n = 2", "last history entry", true},
	{"lost key", "DELETE FROM job_key WHERE n = 1", "cannot be found by its key", true},
	{"key of another", "UPDATE job_key SET n = 2 WHERE n = 1", "key", true},
	{"lost word of a job", "DELETE FROM job_word WHERE n = 1 AND word = 'maps'",
		`cannot be found by its word "maps"`, true},
	{"word of another", "UPDATE job_word SET n = 2 WHERE n = 1 AND word = 'maps'",
		`word "maps" names a job that does not have it`, true},
	{"word of no job", "INSERT INTO job_word VALUES ('maps', 777)", "names a job that does not have it", true},
	{"words", "UPDATE job_made SET words = 'maps batch' WHERE n = 1", "words are in order", false},
	{"orphan entry", "INSERT INTO event (e, job, seq, move, at, epoch) VALUES (9999, 777, 1, 1, 0, 0)",
		"belongs to no job", true},
	{"orphan task", "UPDATE task SET job = 777 WHERE job = 2", "belongs to no job", true},
	{"orphan data", "INSERT INTO job_data VALUES (777, '{}')", "data of no job", true},
	{"orphan message", "UPDATE message SET job = 'tst_gone', settled = NULL WHERE m = 1", "its job does not exist",
		true},
	{"hold", "UPDATE hold SET scope = 'nonsense' WHERE owner = '1'", "is filed under", true},
	{"lost entry", "DELETE FROM event WHERE e = (SELECT max(e) FROM event)", "history entries", false},
	{"lost word", "DELETE FROM word WHERE w = (SELECT state FROM job_now WHERE n = 2)", "not in the dictionary", false},
	{"lost move", "DELETE FROM move WHERE m = 1", "not in the dictionary", false},
	{"half a record", "DELETE FROM job_now WHERE n = 2", "half of the record", false},
	{"parent", "UPDATE job_made SET parent = 777 WHERE n = 3", "does not exist", false},
	{"priority", "UPDATE job_now SET priority = 100 WHERE n = 2", "priority is 100", false},
	{"number", "UPDATE job_made SET number = 1 WHERE n = 3", "has number 1", false},
	{"number out of order", "UPDATE job_made SET number = 1000 WHERE n = 2", "cannot be found by its number", false},
	{"tags", "UPDATE job_now SET tags = 'nonsense' WHERE n = 2", "tags:", false},
	{"word of tags", "UPDATE job_now SET tags = 9999 WHERE n = 2", "not in the dictionary", false},
	{"children counted that were never there", "UPDATE job_now SET children = '[3,0,1,1,0,0,9]' WHERE n = 1",
		"expects 3 jobs", false},
	{"hash", "UPDATE job_now SET head = x'00' WHERE n = 2", "hash", false},
	{"state", "UPDATE job_now SET state = (SELECT w FROM word WHERE text = 'alice') WHERE n = 2", "no state", false},
}

func TestFsck(t *testing.T) {
	whole := t.TempDir()
	s := openStore(t, whole, Options{})
	workload(t, s, newDisk(t))
	clean(t, s) // the control: nothing is wrong with it
	s = openStore(t, whole, Options{})
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := s.Backup(t.Context(), dir+"/"+database); err != nil {
				t.Fatal(err)
			}
			sql(t, dir, d.sql)
			report, err := FsckDir(t.Context(), dir, lives, false)
			if err != nil {
				t.Fatal(err)
			}
			if !says(&report, d.says) || report.Clean() {
				t.Fatalf("the report lacks %q: %v", d.says, report.Faults)
			}
			report, err = FsckDir(t.Context(), dir, lives, true)
			if err != nil {
				t.Fatal(err)
			}
			if report.Clean() != d.derived {
				t.Errorf("clean after the repair: %t, want %t: %v", report.Clean(), d.derived, report.Faults)
			}
			if d.derived {
				clean(t, openStore(t, dir, Options{}))
			}
		})
	}
}

func says(r *Report, text string) bool {
	for _, f := range r.Faults {
		if strings.Contains(f.String(), text) {
			return true
		}
	}
	return false
}

// What is in memory is checked too, and loaded anew by a repair.
func TestFsckMemory(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	create(t, s, "tst_1", "tst_2")
	s.lines.apply([]lineChange{{n: 1, line: line{kind: 1, state: 99}}})
	var bytes sizes.Sum
	bytes.Add(5)
	s.ledger.LoadEnded(job.KindState{Kind: "storetest.step", State: "Done"}, "", 3, bytes)
	report, err := s.Fsck(t.Context(), lives, true)
	if err != nil || !says(&report, "listed wrongly") || !says(&report, "3 jobs too many counted") ||
		!says(&report, "5 bytes too many counted") {
		t.Errorf("got %v %v", report.Faults, err)
	}
	page, err := s.List(t.Context(), job.Query{States: []lifecycle.State{"Waiting"}})
	if err != nil || len(page.Jobs) != 2 {
		t.Errorf("after the repair: %d jobs, %v", len(page.Jobs), err)
	}
	clean(t, s)
}

// Any change of what was written shows.
func TestVerify(t *testing.T) {
	whole := t.TempDir()
	s := openStore(t, whole, Options{})
	workload(t, s, newDisk(t))
	jobs, entries, err := s.Verify(t.Context(), "", lives, func(id job.ID, err error) { t.Error(id, err) })
	if r, wrong := s.Fsck(t.Context(), lives, false); err != nil || wrong != nil || jobs != r.Jobs ||
		entries != r.Events || entries <= jobs {
		t.Errorf("verify checked %d jobs and %d entries, %v; fsck %+v, %v", jobs, entries, err, r, wrong)
	}
	for name, spoil := range map[string]string{
		"note":    "UPDATE event SET note = 'another' WHERE note IS NOT NULL",
		"time":    "UPDATE event SET at = at + 1 WHERE seq = 1",
		"actor":   "UPDATE event SET actor = 'mallory' WHERE seq = 2",
		"epoch":   "UPDATE event SET epoch = epoch + 1 WHERE seq = 2",
		"move":    "UPDATE event SET move = 1 WHERE seq = 2",
		"swapped": "UPDATE event SET job = job + 1 WHERE seq = 2 AND job = 2",
		"lost":    "DELETE FROM event WHERE seq = 2",
		"record":  "UPDATE job_now SET state = (SELECT state FROM job_now WHERE n = 1) WHERE n = 2",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := s.Backup(t.Context(), dir+"/"+database); err != nil {
				t.Fatal(err)
			}
			sql(t, dir, spoil)
			spoilt := openStore(t, dir, Options{})
			wrong := 0
			checked, _, err := spoilt.Verify(t.Context(), "", lives, func(job.ID, error) { wrong++ })
			if err != nil || checked != 12 || wrong == 0 {
				t.Errorf("%d of %d wrong, %v", wrong, checked, err)
			}
			_, _, err = spoilt.Verify(t.Context(), "tst_nobody", lives, func(job.ID, error) {})
			wantKind(t, "a job that does not exist", err, job.NotFound)
		})
	}
}
