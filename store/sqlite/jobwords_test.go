package sqlite

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
)

// worded creates a job with words.
func worded(t *testing.T, s *Store, id, words string) job.Job {
	t.Helper()
	made, err := s.Create(t.Context(), newJob(storetest.Step, id, testTime, func(j *job.Job) { j.Words = words }))
	if err != nil {
		t.Fatal(err)
	}
	return made[0]
}

// reword replaces the words of a job.
func reword(t *testing.T, s *Store, j job.Job, words string) job.Job {
	t.Helper()
	r, err := s.Commit(t.Context(), job.Change{Job: j.ID, Version: j.Version, At: testTime,
		Set: job.Fields{Words: &words}})
	if err != nil || r[0].Err != nil {
		t.Fatal(err, r)
	}
	return r[0].Job
}

func wantWords(t *testing.T, s *Store, words []string, want ...job.ID) {
	t.Helper()
	page, err := s.List(t.Context(), job.Query{Words: words, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var got []job.ID
	for i := range page.Jobs {
		got = append(got, page.Jobs[i].ID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with %q (-want +got):\n%s", words, diff)
	}
}

// TestWordsInLog: words are found, replaced and removed while the tables have earlier ones, after a crash, and without
// the log.
func TestWordsInLog(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, unapplied())
	first, second := worded(t, s, "tst_1", "crete maps"), worded(t, s, "tst_2", "charts maps")
	if err := s.applier.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	worded(t, s, "tst_3", "atlas maps")
	first = reword(t, s, first, "atlas globe")
	reword(t, s, second, "")
	check := func(s *Store) {
		t.Helper()
		wantWords(t, s, []string{"maps"}, "tst_3")
		wantWords(t, s, []string{"atl"}, "tst_3", "tst_1")
		wantWords(t, s, []string{"maps", "at"}, "tst_3")
		wantWords(t, s, []string{"cr"})
		wantWords(t, s, []string{"atlas", "g"}, "tst_1")
	}
	check(s)
	for _, o := range []Options{unapplied(), {NoLog: true}} {
		again := openStore(t, killed(t, dir), o)
		check(again)
		clean(t, again)
	}
	if err := s.applier.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(s)
	reword(t, s, first, "crete")
	clean(t, s)
}

// TestWordsLeave: the index has no rows of words that no job has any more. The control counts them before.
func TestWordsLeave(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{})
	var changes []job.Change
	for i := range 20 {
		j := worded(t, s, fmt.Sprint("tst_", i), "a b c")
		if i%2 == 0 {
			reword(t, s, j, "")
			continue
		}
		for _, e := range []lifecycle.Event{"cancel", "delete"} {
			c, err := storetest.Transition(storetest.Step, j, e, lifecycle.Operator, testTime)
			if err != nil {
				t.Fatal(err)
			}
			r, err := s.Commit(t.Context(), c)
			if err != nil || r[0].Err != nil {
				t.Fatal(err, r)
			}
			j = r[0].Job
		}
		changes = append(changes, job.Change{Job: j.ID, Version: j.Version, Purge: true, By: lifecycle.Timer,
			At: testTime})
	}
	if err := s.applier.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows := func() string {
		return texts(t, dir, "SELECT count(*) FROM job_word", 1)[0]
	}
	if n := rows(); n != "30" {
		t.Errorf("control: %s rows", n)
	}
	results, err := s.Commit(t.Context(), changes...)
	if err != nil || slices.ContainsFunc(results, func(r job.Result) bool { return r.Err != nil }) {
		t.Fatal(err, results)
	}
	clean(t, s)
	if n := rows(); n != "0" {
		t.Errorf("%s rows are left", n)
	}
}

// TestWordsOfFormerSchema: a database of schema 10 opens, its jobs have no words and get some. The control is the
// database before it was made one of schema 10.
func TestWordsOfFormerSchema(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{})
	worded(t, s, "tst_1", "maps")
	worded(t, s, "tst_2", "")
	wantWords(t, s, []string{"maps"}, "tst_1")
	clean(t, s)
	sql(t, dir, `DROP TRIGGER job_words; DROP TRIGGER job_wordless; DROP INDEX job_worded; DROP TABLE job_word;
UPDATE job_made SET words = NULL; ALTER TABLE job_made DROP COLUMN words; UPDATE job_now SET sum = NULL WHERE n = 1;
DELETE FROM schema_version WHERE version > 10`)
	s = openStore(t, dir, Options{})
	wantWords(t, s, []string{"maps"})
	j, err := s.Get(t.Context(), "tst_2")
	if err != nil || j.Words != "" {
		t.Fatal(j.Words, err)
	}
	reword(t, s, j, "maps")
	wantWords(t, s, []string{"ma"}, "tst_2")
	clean(t, s)
	if n := texts(t, dir, "SELECT word || ' ' || n FROM job_word", 1); !slices.Equal(n, []string{"maps 2"}) {
		t.Errorf("rows %q", n)
	}
}
