package catalog

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestTwoPersons deletes before the end of the retention time, and refuses what one person, or a hold, does not permit.
func TestTwoPersons(t *testing.T) { inEach(t, testTwoPersons) }

func testTwoPersons(t *testing.T, open opener) {
	c, ctx := open.new(t, Options{}), t.Context()
	later := day.AddDate(3, 0, 0)
	make := func(job string, retain time.Time) {
		must(t, c.Begin(ctx, Archive{Job: job, Source: "s", Created: day}))
		must(t, c.PutArtifacts(ctx, job, []Artifact{artifact("a")}))
		must(t, c.Plan(ctx, job, []string{"x"}, retain, day))
		_, err := c.RequestDeletion(ctx, Deletion{ID: "early-" + job, Job: job, RequestedBy: "eve", Requested: day})
		want(t, err, ErrConflict) // it is being made
		must(t, c.End(ctx, job, Complete, day))
	}
	make("j1", later)
	make("j2", time.Time{})
	d, err := c.RequestDeletion(ctx,
		Deletion{ID: "d1", Job: "j1", RequestedBy: "eve", Reason: "no use", Requested: day})
	if must(t, err); d.Kind != Early || d.State != Requested {
		t.Fatalf("got %+v", d)
	}
	_, err = c.BeginDeletion(ctx, "d1", day)
	want(t, err, ErrConflict)
	_, err = c.DecideDeletion(ctx, "d1", "eve", true, day)
	want(t, err, ErrSame)
	must(t, c.Hold(ctx, Hold{Job: "j1", Name: "court", By: "law", Since: day}))
	_, err = c.DecideDeletion(ctx, "d1", "bob", true, day)
	must(t, err)
	_, err = c.BeginDeletion(ctx, "d1", day)
	want(t, err, ErrHeld)
	_, err = c.RequestDeletion(ctx, Deletion{ID: "d2", Job: "j1", RequestedBy: "eve", Requested: later})
	want(t, err, ErrHeld)
	must(t, c.Release(ctx, "j1", "court", "law", day))
	_, err = c.BeginDeletion(ctx, "d1", day)
	must(t, err)
	_, err = c.EndDeletion(ctx, "d1", day)
	want(t, err, ErrConflict) // a copy exists
	must(t, deleteCopies(ctx, c, "j1"))
	stone, err := c.EndDeletion(ctx, "d1", day)
	if must(t, err); stone.ApprovedBy != "bob" || stone.Artifacts != 1 || stone.Copies != 1 || stone.Bytes != 10 {
		t.Errorf("got %+v", stone)
	}
	if again, err := c.Tombstone(ctx, "j1"); err != nil || again != stone {
		t.Errorf("got %+v, %v", again, err)
	}
	if all, err := c.Artifacts(ctx, "j1", "", 0); err != nil || len(all) != 1 {
		t.Errorf("the record of the artifacts is gone: %v, %v", all, err)
	}

	// no retention time: kept indefinitely
	d, err = c.RequestDeletion(ctx, Deletion{ID: "d3", Job: "j2", RequestedBy: "eve", Requested: later})
	if must(t, err); d.Kind != Early {
		t.Errorf("got %+v", d)
	}
	make("j3", later)
	d, err = c.RequestDeletion(ctx, Deletion{ID: "d4", Job: "j3", RequestedBy: "timer", Requested: later})
	if must(t, err); d.Kind != Retention || d.State != Approved {
		t.Errorf("got %+v", d)
	}
	must(t, c.Extend(ctx, "j3", later.AddDate(1, 0, 0)))
	_, err = c.BeginDeletion(ctx, "d4", later)
	want(t, err, ErrRetained)
	must(t, c.Extend(ctx, "j3", day)) // never earlier
	_, err = c.BeginDeletion(ctx, "d4", later)
	want(t, err, ErrRetained)
}

func TestOutlived(t *testing.T) { inEach(t, testOutlived) }

func testOutlived(t *testing.T, open opener) {
	c, ctx := open.new(t, Options{}), t.Context()
	later := day.AddDate(1, 0, 0)
	for job, retain := range map[string]time.Time{"j1": day, "j2": later, "j3": {}, "j4": day, "j5": day} {
		must(t, c.Begin(ctx, Archive{Job: job, Source: "s", Created: day}))
		must(t, c.PutArtifacts(ctx, job, []Artifact{artifact("a"), artifact("b")}))
		must(t, c.Plan(ctx, job, []string{"x", "y"}, retain, day))
		must(t, c.End(ctx, job, Complete, day))
	}
	must(t, c.Hold(ctx, Hold{Job: "j4", Name: "h", By: "law", Since: day}))
	_, err := c.RequestDeletion(ctx, Deletion{ID: "d", Job: "j5", RequestedBy: "timer", Requested: day})
	must(t, err)
	jobs, err := c.Outlived(ctx, day.Add(time.Hour), 0)
	if must(t, err); !slices.Equal(jobs, []string{"j1"}) {
		t.Errorf("got %v", jobs)
	}
}

// TestRemoval: rows of an object follow its versions by job, whatever their numbers were, and no removal is forgotten.
func TestRemoval(t *testing.T) { inEach(t, testRemoval) }

func testRemoval(t *testing.T, open opener) {
	c, ctx := open.new(t, Options{}), t.Context()
	for i, job := range []string{"j1", "j2", "j3", "j4"} {
		must(t, c.PlanVersion(ctx, "r", "o", job))
		must(t, c.PutVersion(ctx, Version{Location: "r", Object: "o", Name: "v" + string(rune('1'+i)), Job: job,
			Stored: day.AddDate(0, 0, i), LastFixity: day, NextFixity: day}))
	}
	due := func() int {
		all, err := c.DueVersions(ctx, "r", day, 0)
		must(t, err)
		return len(all)
	}
	if n := due(); n != 4 {
		t.Fatalf("control: %d versions are due", n)
	}
	left, err := c.BeginRemoval(ctx, "j1", "ann", "why", day)
	if must(t, err); len(left) != 1 || left[0].By != "ann" || due() != 0 {
		t.Fatalf("got %+v, %d versions are due", left, due())
	}
	want(t, c.PlanVersion(ctx, "r", "o", "j1"), ErrConflict)
	if open, err := c.Removals(ctx, 0); err != nil || len(open) != 1 || open[0].Reason != "why" {
		t.Errorf("got %+v, %v", open, err)
	}
	now := map[string]string{"j2": "v1", "j4": "v2"} // that of j3 is lost
	for range 2 {
		must(t, c.EndRemoval(ctx, left[0], now, day))
	}
	all, err := c.Versions(ctx, "r", "o")
	must(t, err)
	var names []string
	for _, v := range all {
		names = append(names, v.Job+" "+v.Name)
	}
	if !slices.Equal(names, []string{"j2 v1", "j3 v3", "j4 v2"}) || due() != 3 {
		t.Errorf("got %q, %d versions are due", names, due())
	}
	left, err = c.BeginRemoval(ctx, "j2", "ann", "why", day)
	must(t, err)
	must(t, c.Hold(ctx, Hold{Job: "j2", Name: "court", By: "law", Since: day}))
	if open, err := c.Removals(ctx, 0); err != nil || len(open) != 0 {
		t.Errorf("under a legal hold: %+v, %v", open, err)
	}
	must(t, c.EndRemoval(ctx, left[0], map[string]string{"j4": "v3"}, day))
	all, err = c.Versions(ctx, "r", "o")
	if must(t, err); len(all) != 2 || all[0].Name != "former-v3" || all[1].Name != "v3" {
		t.Errorf("got %+v", all)
	}
}

// TestRemovalOfEarlierVersions: with the schema comes the removal of versions that a deletion, or a failed job, left
// before there were removals.
func TestRemovalOfEarlierVersions(t *testing.T) {
	path, ctx := filepath.Join(t.TempDir(), Name), t.Context()
	c := openAt(t, path, Options{Installation: "here"})
	for i, job := range []string{"complete", "failed", "failed-held", "deleted"} {
		must(t, c.Begin(ctx, Archive{Job: job, Source: "s", Created: day}))
		must(t, c.PutVersion(ctx, Version{Location: "r", Object: "o", Name: fmt.Sprintf("v%d", i+1), Job: job,
			Stored: day, LastFixity: day, NextFixity: day}))
	}
	must(t, c.Hold(ctx, Hold{Job: "failed-held", Name: "court", By: "law", Since: day}))
	must(t, c.Release(ctx, "failed-held", "court", "law", day))
	_, err := c.write.ExecContext(ctx, `UPDATE archives SET outcome = 'failed' WHERE job LIKE 'failed%';
		UPDATE archives SET outcome = job WHERE job IN ('complete', 'deleted');
		DROP TABLE version_jobs; ALTER TABLE copies DROP COLUMN found; PRAGMA user_version = 3`)
	must(t, err)
	must(t, c.Close())
	c = openAt(t, path, Options{Installation: "here"})
	all, err := c.Removals(ctx, 0)
	if must(t, err); len(all) != 2 || all[0].Job != "deleted" || all[1].Job != "failed" || !all[0].Removing.Equal(day) {
		t.Errorf("got %+v", all)
	}
	left, err := c.BeginRemoval(ctx, "complete", "ann", "why", day)
	if must(t, err); len(left) != 1 || left[0].Object != "o" {
		t.Errorf("got %+v", left)
	}
}
