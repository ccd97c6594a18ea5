package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
)

// after decodes what an attempt found out, which is in the change if it set it.
func after[T any](j *job.Job, c *job.Change) (T, error) {
	var d T
	text := c.Set.Data
	if len(text) == 0 {
		text = j.Data
	}
	if len(text) == 0 {
		return d, nil
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return d, job.Errorf(job.Internal, "decode", j.ID, "data: %w", err)
	}
	return d, nil
}

// owed is a postcondition that does not hold: the work of a state was reported as done, and is not.
func owed(j *job.Job, format string, args ...any) error {
	return fail(CauseStorage, "%s is not done: %w", j.State, fmt.Errorf(format, args...))
}

// jobOwes checks that a job leaves a phase with what the phase is for. A completed job has a version in the inventory and in every storage location.
func (a *App) jobOwes(ctx context.Context, j *job.Job, c *job.Change) error {
	d, err := after[record.JobData](j, c)
	if err != nil {
		return err
	}
	switch j.State {
	case record.Processing:
		if d.Identity == nil || d.Identity.ARK == "" {
			return owed(j, "the object has no identifier")
		}
	case record.Storing:
		if d.Identity == nil || d.Version == 0 || len(d.Places) == 0 {
			return owed(j, "no version was stored")
		}
	case record.Recording, record.Notify:
		by, err := a.recorded(ctx, j, &d)
		if err == nil && j.State == record.Notify {
			err = a.storedIn(ctx, j, &d, by)
		}
		return err
	}
	return nil
}

// recorded checks that the inventory has the version of a job, and gives the job that stored it: an earlier one if the object was stored already, as it is.
func (a *App) recorded(ctx context.Context, j *job.Job, d *record.JobData) (by string, err error) {
	if d.Same != nil {
		all, err := a.inventory.Objects(ctx, inventory.Query{ARK: d.Same.ARK})
		if err != nil {
			return "", err
		}
		for _, o := range all {
			for i := range o.Versions {
				if v := &o.Versions[i]; v.Number == d.Same.Version {
					d.Identity, d.Places = &d.Same.Identity, v.Places
					return v.Job, nil
				}
			}
		}
		return "", owed(j, "the inventory has no version %d of %s", d.Same.Version, d.Same.ARK)
	}
	if d.Identity == nil {
		return "", owed(j, "the object has no identifier")
	}
	ark, version, err := a.inventory.VersionOf(ctx, string(j.ID))
	switch {
	case errors.Is(err, inventory.ErrNotFound):
		return "", owed(j, "the inventory has no version of this job")
	case err != nil:
		return "", err
	case d.Identity.ARK != ark || d.Version != version:
		return "", owed(j, "the inventory has version %d of %s, the job another", version, ark)
	}
	return string(j.ID), nil
}

// storedIn checks that every storage location of the record has the version, which a job stored.
func (a *App) storedIn(ctx context.Context, j *job.Job, d *record.JobData, by string) error {
	if len(d.Places) == 0 {
		return owed(j, "no storage location has the version")
	}
	for _, p := range d.Places {
		root, err := a.locations.Open(ctx, p.Dir, true)
		if err != nil {
			return placeError(p.Dir, err)
		}
		object, err := root.Object(d.Identity.ARK)
		if errors.Is(err, ocfl.ErrNotFound) {
			return owed(j, "storage location %s does not have %s", p.Dir, d.Identity.ARK)
		}
		if err != nil {
			return placeError(p.Dir, err)
		}
		if !slices.Contains(object.Versions(), p.Name) || object.Inventory().Versions[p.Name].Key() != by {
			return owed(j, "storage location %s does not have %s of %s", p.Dir, p.Name, d.Identity.ARK)
		}
	}
	return nil
}

// batchOwes checks that a batch leaves a state with what the state is for: a payload that was read, all its jobs, a report.
func (a *App) batchOwes(_ context.Context, j *job.Job, c *job.Change) error {
	d, err := after[record.BatchData](j, c)
	if err != nil {
		return err
	}
	switch n := j.Children; {
	case j.State == record.Pending && (d.Type == "" || d.Jobs == 0):
		return owed(j, "the payload was not read")
	case j.State == record.Pending:
	case !n.Settled():
		return owed(j, "%d of %d jobs have ended", n.Created()-n.Open, n.Expected)
	case j.State == record.Processing:
	case d.Reports == 0 || d.Reported == "":
		return owed(j, "no report was made")
	case n.Created() == 0:
		return owed(j, "no job was made")
	case n.Failed > 0:
		return owed(j, "%d jobs failed", n.Failed)
	}
	return nil
}
