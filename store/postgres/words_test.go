package postgres

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
)

// wordRows returns the rows of the index of words.
func wordRows(t *testing.T, s *Store) []string {
	t.Helper()
	rows, err := s.pool.Query(t.Context(), `SELECT word || ' ' || coalesce(id, '-') FROM job_word
 LEFT JOIN job_made USING (n) ORDER BY 1`)
	check(t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	check(t, err)
	return list
}

// TestWordsLeave: the index has no rows of words that no job has any more, whatever operations one transaction has.
func TestWordsLeave(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{CallerTime: true})
	ctx := t.Context()
	jobs, err := s.Create(ctx, newJob(storetest.Step, "tst_1", func(j *job.Job) { j.Words = "crete maps" }),
		newJob(storetest.Step, "tst_2", func(j *job.Job) { j.Words = "maps" }), newJob(storetest.Step, "tst_3"))
	check(t, err)
	if got := wordRows(t, s); !slices.Equal(got, []string{"crete tst_1", "maps tst_1", "maps tst_2"}) {
		t.Errorf("created: %q", got)
	}
	texts := []string{"atlas maps", "atlas", "globe", ""}
	reword := func(j job.Job, version int64, text *string) job.Change {
		return job.Change{Job: j.ID, Version: version, At: start, Set: job.Fields{Words: text}}
	}
	results, err := s.Commit(ctx, reword(jobs[0], 1, &texts[0]), reword(jobs[0], 2, &texts[1]),
		reword(jobs[2], 1, &texts[2]), reword(jobs[1], 1, &texts[3]))
	check(t, err)
	for _, r := range results {
		check(t, r.Err)
	}
	if got := wordRows(t, s); !slices.Equal(got, []string{"atlas tst_1", "globe tst_3"}) {
		t.Errorf("changed: %q", got)
	}
	j := results[1].Job
	for _, e := range []lifecycle.Event{"cancel", "delete"} {
		c, err := storetest.Transition(storetest.Step, j, e, lifecycle.Operator, start)
		check(t, err)
		r, err := s.Commit(ctx, c)
		check(t, err)
		check(t, r[0].Err)
		j = r[0].Job
	}
	r, err := s.Commit(ctx, reword(j, j.Version, &texts[0]), job.Change{Job: j.ID, Version: j.Version + 1, Purge: true,
		By: lifecycle.Timer, Actor: "retention", At: start})
	check(t, err)
	check(t, r[1].Err)
	if got := wordRows(t, s); !slices.Equal(got, []string{"globe tst_3"}) {
		t.Errorf("purged: %q", got)
	}
}

// TestWordsOfFormerSchema: a database of schema 9 opens, its jobs have no words and get some.
func TestWordsOfFormerSchema(t *testing.T) {
	database := newDatabase(t)
	s := openStore(t, database, Options{CallerTime: true})
	ctx := t.Context()
	check(t, oneJob(ctx, s, "tst_1"))
	_, err := s.pool.Exec(ctx, `DROP TABLE job_word; DROP INDEX job_failed; ALTER TABLE job_made DROP COLUMN words;
ALTER TABLE event DROP COLUMN form; ALTER TABLE audit DROP COLUMN form;
DROP INDEX job_overdue, job_aged; CREATE INDEX job_expires ON job_now (expires) WHERE expires <> 0 AND ended = 0;
DROP TYPE made_row, now_row, transition_row, event_row, tally_row; DELETE FROM schema_version WHERE version > 9`)
	check(t, err)
	check(t, s.Close())
	s = openStore(t, database, Options{CallerTime: true})
	j, err := s.Get(ctx, "tst_1")
	check(t, err)
	text := "maps"
	r, err := s.Commit(ctx, job.Change{Job: j.ID, Version: j.Version, At: start, Set: job.Fields{Words: &text}})
	check(t, err)
	check(t, r[0].Err)
	page, err := s.List(ctx, job.Query{Words: []string{"ma"}})
	if err != nil || j.Words != "" || len(page.Jobs) != 1 || page.Jobs[0].Words != "maps" {
		t.Errorf("words %q, found %+v, %v", j.Words, page.Jobs, err)
	}
}
