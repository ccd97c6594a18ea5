package ingest

import (
	"context"
	"errors"
	"io/fs"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/location"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Location is a storage location as operators see it.
type Location = api.StorageLocation

// States of a storage location.
const (
	LocationUsable  = "usable"
	LocationUnused  = "unused"  // nothing was stored there yet: it is made when it is needed
	LocationRefused = "refused" // jobs that need it wait
)

// Locations gives the storage locations of profiles and inventory.
func (a *App) Locations(ctx context.Context) ([]Location, error) {
	dirs, err := a.locations.All(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Location, 0, len(dirs))
	for _, dir := range dirs {
		l := Location{Dir: dir, Path: a.locations.Path(dir), State: LocationUsable, Profiles: a.profilesOf(dir)}
		if id, err := location.Read(l.Path); err == nil {
			l.Location, l.Installation, l.Since = id.Location, id.Installation, id.Since
		}
		_, err := a.locations.Open(ctx, dir, false)
		var refused *location.Refusal
		switch {
		case errors.As(err, &refused):
			l.State, l.Reason, l.Remedy = LocationRefused, refused.Sentence, refused.Remedy
		case errors.Is(err, fs.ErrNotExist):
			l.State = LocationUnused
		case err != nil:
			l.State, l.Reason = LocationRefused, err.Error()
		}
		all = append(all, l)
	}
	return all, nil
}

// profilesOf names the profiles that store in a place.
func (a *App) profilesOf(dir string) []string {
	names := []string{}
	for _, id := range a.options.Profiles.IDs() {
		if p, ok := a.options.Profiles.Get(id); ok {
			for _, d := range p.Storage {
				if d == dir {
					names = append(names, id)
				}
			}
		}
	}
	return names
}

// Adoption gives a storage location to this installation.
type Adoption = api.Adoption

// Adopt makes a directory the storage location of this installation, also one that another installation owned, or that is not the one which the inventory
// knows by that name. Another installation
// that owned it is refused from then on. The reason stands in the audit list and in the location's file. It may be repeated.
func (a *App) Adopt(ctx context.Context, in Adoption) (Location, error) {
	if in.Note == "" {
		return Location{}, job.Errorf(job.Invalid, "adopt", "", "it needs a reason (note), which stands in the audit list")
	}
	if len(a.profilesOf(in.Dir)) == 0 {
		if id, err := a.inventory.Location(ctx, in.Dir); err != nil || id == "" {
			return Location{}, errors.Join(err, job.Errorf(job.NotFound, "adopt", "", "no profile stores in %q: name it as the profile does", in.Dir))
		}
	}
	err := a.engine.Operator().Audit(ctx, operator.Entry{By: lifecycle.Operator, Actor: in.Actor, Event: "adopt-location", Object: "location " + in.Dir, Note: in.Note})
	if err != nil {
		return Location{}, err
	}
	if err := a.locations.Adopt(ctx, in.Dir, in.Actor, in.Note); err != nil {
		return Location{}, job.Errorf(job.Unavailable, "adopt", "", "storage location %s: %w", in.Dir, err)
	}
	if err := a.wakeForLocation(ctx); err != nil {
		return Location{}, err
	}
	all, err := a.Locations(ctx)
	for _, l := range all {
		if l.Dir == in.Dir {
			return l, err
		}
	}
	return Location{}, err
}

// wakeForLocation makes the jobs due that wait for a storage location.
func (a *App) wakeForLocation(ctx context.Context) error {
	open := false
	q := job.Query{Kinds: []job.Kind{record.JobKind}, Causes: []string{causeLocation}, Ended: &open, Limit: 1000}
	for {
		page, err := a.engine.Store().List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			if err := a.engine.Nudge(ctx, page.Jobs[i].ID, causeLocation); err != nil {
				return err
			}
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}
