package catalog

import (
	"slices"
	"testing"
	"time"
)

// TestTwoPersons deletes before the end of the retention time, and refuses what one person, or a hold, does not permit.
func TestTwoPersons(t *testing.T) {
	c, ctx := open(t, Options{}), t.Context()
	later := day.AddDate(3, 0, 0)
	make := func(job string, retain time.Time) {
		must(t, c.Begin(ctx, Archive{Job: job, Source: "s", Created: day}))
		must(t, c.PutArtifacts(ctx, job, []Artifact{artifact("a")}))
		must(t, c.Plan(ctx, job, []string{"x"}, retain, day))
		_, err := c.RequestDeletion(ctx, "early-"+job, job, "eve", "", day)
		want(t, err, ErrConflict) // it is being made
		must(t, c.End(ctx, job, Complete, day))
	}
	make("j1", later)
	make("j2", time.Time{})
	d, err := c.RequestDeletion(ctx, "d1", "j1", "eve", "no use", day)
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
	_, err = c.RequestDeletion(ctx, "d2", "j1", "eve", "", later)
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

	d, err = c.RequestDeletion(ctx, "d3", "j2", "eve", "", later) // no retention time: kept indefinitely
	if must(t, err); d.Kind != Early {
		t.Errorf("got %+v", d)
	}
	make("j3", later)
	d, err = c.RequestDeletion(ctx, "d4", "j3", "timer", "", later)
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

func TestOutlived(t *testing.T) {
	c, ctx := open(t, Options{}), t.Context()
	later := day.AddDate(1, 0, 0)
	for job, retain := range map[string]time.Time{"j1": day, "j2": later, "j3": {}, "j4": day, "j5": day} {
		must(t, c.Begin(ctx, Archive{Job: job, Source: "s", Created: day}))
		must(t, c.PutArtifacts(ctx, job, []Artifact{artifact("a"), artifact("b")}))
		must(t, c.Plan(ctx, job, []string{"x", "y"}, retain, day))
		must(t, c.End(ctx, job, Complete, day))
	}
	must(t, c.Hold(ctx, Hold{Job: "j4", Name: "h", By: "law", Since: day}))
	_, err := c.RequestDeletion(ctx, "d", "j5", "timer", "", day)
	must(t, err)
	jobs, err := c.Outlived(ctx, day.Add(time.Hour), 0)
	if must(t, err); !slices.Equal(jobs, []string{"j1"}) {
		t.Errorf("got %v", jobs)
	}
}
