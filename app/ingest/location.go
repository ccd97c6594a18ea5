package ingest

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/fixity"
	"github.com/stagepost/stagepost/app/ingest/fsck"
	"github.com/stagepost/stagepost/app/ingest/location"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// causeLocation is the code of the wait for a storage location that may not be used as it is.
const causeLocation = "storage-location"

// now is the time of the engine, or of the system before there is an engine.
func (a *App) now() time.Time {
	if a.engine == nil {
		return time.Now()
	}
	return a.engine.Clock().Now()
}

// waitFor makes a wait of a storage location that may not be used: a person has to do something, and the job goes on by
// itself afterwards.
func (t *task) waitFor(err error) error {
	var e *location.Refusal
	if !errors.As(err, &e) {
		return err
	}
	t.Log().Warn("storage location refused", "error", err)
	return engine.Wait(job.Blocker{ // the record keeps no remedy: the sentence has it
		Code: causeLocation, Sentence: e.Error(), Until: t.Now().Add(6 * t.app.options.Look),
		Holder: "storage location " + e.Dir,
	})
}

// storedAnywhere reports whether a storage location has an object of that name: those of the profile, and all others. A
// location of the profile that may not be used is a *location.Refusal. One that cannot be read is passed over: what it
// has is seen before anything is written to it.
func (t *task) storedAnywhere(dirs []string) func(context.Context, string) (bool, error) {
	return func(ctx context.Context, ark string) (bool, error) {
		others, err := t.app.locations.All(ctx)
		if err != nil {
			return false, err
		}
		for i, dir := range append(slices.Clone(dirs), others...) {
			own := i < len(dirs)
			root, err := t.app.locations.Open(ctx, dir, own)
			var refused *location.Refusal
			switch {
			case own && errors.As(err, &refused):
				return false, err
			case err == nil:
				if has, err := root.Has(ark); err == nil && has {
					return true, nil
				}
			}
		}
		return false, ctx.Err()
	}
}

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

// profilesOf names the profiles that store in a location.
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

// Adopt makes a directory the storage location of this installation, also one that another installation owned, or that
// is not the one which the inventory has under that name. Another installation that owned it is refused from then on.
// The reason is entered in the audit log and in the location's file. It may be repeated.
func (a *App) Adopt(ctx context.Context, in Adoption) (Location, error) {
	if in.Note == "" {
		return Location{}, job.Errorf(job.Invalid, "adopt", "",
			"it needs a reason (note), which is entered in the audit log")
	}
	if len(a.profilesOf(in.Dir)) == 0 {
		if id, err := a.inventory.Location(ctx, in.Dir); err != nil || id == "" {
			return Location{}, errors.Join(err,
				job.Errorf(job.NotFound, "adopt", "", "no profile stores in %q: name it as the profile does", in.Dir))
		}
	}
	err := a.engine.Operator().Audit(ctx, operator.Entry{By: lifecycle.Operator, Actor: in.Actor,
		Event:  "adopt-location",
		Object: "location " + in.Dir, Note: in.Note})
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

// newChecker makes the checker of the storage locations.
func newChecker(a *App) *fixity.Checker {
	return fixity.New(fixity.Options{
		Inventory: a.inventory, Locations: a.inventory.Dirs, Now: a.now, Log: a.log, Every: a.options.FixityEvery,
		Pace: a.options.FixityPace, Leads: func() bool { return a.engine.Leads() },
		Open: func(ctx context.Context, dir string) (*ocfl.Root, error) {
			root, err := a.locations.Open(ctx, dir, false)
			if err != nil {
				return nil, err
			}
			return root.Root, nil
		},
		Audit: func(ctx context.Context, event, object, note string) error {
			return a.engine.Operator().Audit(ctx, operator.Entry{By: lifecycle.Engine, Actor: "fixity",
				Event: lifecycle.Event(event), Object: object, Note: note})
		},
	})
}

// StartFixity requests a fixity check of all files in storage locations. A check that is in progress continues. It
// returns when the request is on disk; the work is done in the background, also after a restart.
func (a *App) StartFixity(ctx context.Context, dirs []string) error {
	return a.checker.Start(ctx, dirs)
}

// Fixity gives the state of the fixity checks. No stored file is read.
func (a *App) Fixity(ctx context.Context) (api.Fixity, error) { return a.checker.Status(ctx) }

// FixityObjects lists up to q.Limit objects with the state of their checks, those after q.After.
func (a *App) FixityObjects(ctx context.Context, q api.FixityQuery) ([]api.FixityObject, error) {
	return a.checker.Objects(ctx, q)
}

// FixitySummary gives what alarms need.
func (a *App) FixitySummary(ctx context.Context) (fixity.Summary, error) {
	return a.checker.Summary(ctx)
}

// Compare compares the records of jobs, the inventory and the storage locations with each other. It changes nothing,
// and work may go on meanwhile.
func (a *App) Compare(ctx context.Context) (fsck.Comparison, error) {
	return fsck.Compare(ctx, a.inventory, a.engine.Store(), a.options.Profiles, a.options.Dir)
}
