package copies

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/edge/storage"
)

// Delete executes an approved request to delete an archive (see [catalog.Catalog.RequestDeletion]): it deletes every
// copy and every version of an OCFL object, enters each, and ends with the tombstone. A location that
// refuses, as one with object lock does, or that is down, leaves the request open; the error is an [*Error], and a
// repetition continues.
func (s *Store) Delete(ctx context.Context, id string) (catalog.Tombstone, error) {
	d, err := s.o.Catalog.BeginDeletion(ctx, id, s.o.Now())
	if err != nil {
		return catalog.Tombstone{}, err
	}
	if err := s.erase(ctx, d.Job, d.RequestedBy, d.Reason); err != nil {
		return catalog.Tombstone{}, err
	}
	return s.o.Catalog.EndDeletion(ctx, id, s.o.Now())
}

// Expire deletes archives whose retention time has ended, as far as no legal hold covers them, and gives their jobs.
// One that cannot be deleted does not keep the others.
func (s *Store) Expire(ctx context.Context) (deleted []string, err error) {
	jobs, err := s.o.Catalog.Outlived(ctx, s.o.Now(), 1000)
	if err != nil {
		return nil, err
	}
	open, err := s.o.Catalog.Deletions(ctx, catalog.Executing, 1000) // a crash, or a location that was down
	if err != nil {
		return nil, err
	}
	approved, err := s.o.Catalog.Deletions(ctx, catalog.Approved, 1000)
	for _, d := range approved {
		if d.Kind == catalog.Retention { // others are executed by a person
			open = append(open, d)
		}
	}
	for _, d := range open {
		jobs = append(jobs, d.Job)
	}
	var errs []error
	for _, job := range jobs {
		id := "retention/" + job
		for _, d := range open {
			if d.Job == job {
				id = d.ID
			}
		}
		_, e := s.o.Catalog.RequestDeletion(ctx, catalog.Deletion{ID: id, Job: job, RequestedBy: s.o.Agent,
			Reason: "the retention time has ended", Requested: s.o.Now()})
		if e == nil {
			_, e = s.Delete(ctx, id)
		}
		if ctx.Err() != nil {
			return deleted, ctx.Err()
		}
		if e != nil {
			errs = append(errs, e)
			continue
		}
		deleted = append(deleted, job)
	}
	return deleted, errors.Join(append(errs, err)...)
}

// Discard removes all copies of a job that failed, complete ones and parts of uploads, and its versions of objects.
// It is refused for an archive that is complete ([catalog.ErrConflict]) or held ([catalog.ErrHeld]).
func (s *Store) Discard(ctx context.Context, job, reason string) error {
	a, err := s.o.Catalog.Archive(ctx, job)
	if err != nil {
		return err
	}
	if a.Outcome == catalog.Complete {
		return fmt.Errorf("%w: archive %s is complete: request its deletion", catalog.ErrConflict, job)
	}
	holds, err := s.o.Catalog.Holds(ctx, job)
	if err != nil {
		return err
	}
	for _, h := range holds {
		if h.Released.IsZero() {
			return fmt.Errorf("%w: archive %s is held by %q", catalog.ErrHeld, job, h.Name)
		}
	}
	return s.erase(ctx, job, s.o.Agent, reason)
}

// Abandon removes what unfinished uploads of a job left in the locations, and copies that were not verified.
func (s *Store) Abandon(ctx context.Context, job string) error {
	return s.removeAll(ctx, job, s.o.Agent, "abandoned", func(c *catalog.Copy) bool { return c.Verified.IsZero() })
}

// removeAll removes the copies of a job that a condition selects.
func (s *Store) removeAll(
	ctx context.Context, job, by, reason string, selected func(*catalog.Copy) bool,
) error {
	all, err := s.o.Catalog.Copies(ctx, job, "")
	if err != nil {
		return err
	}
	failed := map[string]*Missing{}
	usable := map[string]error{} // of each location, asked once
	out := &Error{Op: "delete copies of", Job: job, Transient: true}
	for _, c := range all {
		if !c.Deleted.IsZero() || !selected(&c) {
			continue
		}
		err, asked := usable[c.Location]
		if !asked {
			err = s.Ready(ctx, c.Location)
			usable[c.Location] = err
		}
		if err == nil {
			err = s.remove(ctx, c, by, reason)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			continue
		}
		if failed[c.Location] == nil {
			failed[c.Location] = &Missing{Location: c.Location}
		}
		failed[c.Location].Copies++
		failed[c.Location].Err = err
		out.Transient = out.Transient && temporary(err)
	}
	for _, name := range s.set.Load().order {
		if m := failed[name]; m != nil {
			out.Missing = append(out.Missing, *m)
			delete(failed, name)
		}
	}
	for _, m := range failed {
		out.Missing = append(out.Missing, *m)
	}
	if len(out.Missing) > 0 {
		return out
	}
	return nil
}

// remove removes the file of a copy, and a part of it, and enters that. A repetition changes nothing. The caller has
// checked that the location is ready: one that is not mounted is not taken for one without the file.
func (s *Store) remove(ctx context.Context, c catalog.Copy, by, reason string) error {
	t := s.used(c.Location)
	if c.Verified.IsZero() {
		if err := t.At.Abandon(ctx, c.Key, &storage.Progress{State: c.Progress}); err != nil {
			return err
		}
	}
	if err := s.unhold(ctx, t, &c); err != nil {
		return err
	}
	if err := t.At.Delete(ctx, c.Key); err != nil {
		return err
	}
	return s.o.Catalog.PutDeleted(ctx, c.CopyKey, by, reason, s.o.Now())
}
