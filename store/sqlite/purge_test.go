package sqlite

import (
	"strings"
	"testing"

	"github.com/stagepost/stagepost/job"
)

// After a purge the file names the job nowhere but in the audit log.
func TestPurgeLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{})
	workload(t, s, newDisk(t))
	clean(t, s)
	for view, want := range map[string]string{
		"jobs WHERE id = 'tst_purged'": "0", "storetest_step WHERE id = 'tst_purged'": "0",
		"history WHERE job = 'tst_purged'": "0",
		"tasks WHERE job = 'tst_purged'":   "0", "outbox WHERE job = 'tst_purged'": "0",
		"message WHERE key = 'tst_purged'":                "0",
		"job_key WHERE key = 'purged'":                    "0",
		"event WHERE job NOT IN (SELECT n FROM job_made)": "0", "task WHERE job NOT IN (SELECT n FROM job_made)": "0",
		"job_now": "12", "job_made": "12", "audit_list WHERE job = 'tst_purged'": "3",
	} {
		if got := texts(t, dir, "SELECT count(*) FROM "+view, 1)[0]; got != want {
			t.Errorf("%s: %s, want %s", view, got, want)
		}
	}
	given := strings.Join(texts(t, dir, "SELECT what || ' ' || n FROM given ORDER BY what", 1), ", ")
	if given != "history entry 31, message 7, number of storetest.step 7, row 9" {
		t.Errorf("numbers that are not given again: %s", given)
	}
}

// A purge whose transaction fails has not happened, in the file nor in memory.
func TestPurgeRolledBack(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{})
	create(t, s, "tst_1")
	closeStore(t, s)
	sql(t, dir, "UPDATE job_now SET ended = 2, sum = NULL; CREATE TRIGGER stop BEFORE DELETE ON job_made BEGIN "+
		"SELECT raise(ABORT, 'no'); END")
	s = openStore(t, dir, Options{})
	j, err := s.Get(t.Context(), "tst_1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Commit(t.Context(),
		job.Change{Job: j.ID, Version: j.Version, Purge: true, By: 4, Actor: "olga", At: testTime})
	wantKind(t, "commit", err, job.Unavailable)
	page, err := s.List(t.Context(), job.Query{})
	if err != nil || len(page.Jobs) != 1 {
		t.Errorf("jobs after it: %v, %v", page.Jobs, err)
	}
	list, err := s.Audit(t.Context(), 0, 9)
	if err != nil || len(list) != 0 {
		t.Errorf("entries after it: %v, %v", list, err)
	}
	tallies, err := s.Count(t.Context())
	if err != nil || len(tallies) != 1 || tallies[0].Jobs != 1 {
		t.Errorf("tallies after it: %v, %v", tallies, err)
	}
	create(t, s, "tst_2")
}
