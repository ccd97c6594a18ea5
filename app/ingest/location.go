package ingest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stagepost/stagepost/app/ingest/location"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
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

// waitFor makes a wait of a storage location that may not be used: a person has to do something, and the job goes on by itself afterwards.
func (t *task) waitFor(err error) error {
	var e *location.Refusal
	if !errors.As(err, &e) {
		return err
	}
	t.Log().Warn("storage location refused", "error", err)
	return engine.Wait(job.Blocker{ // the record keeps no remedy: the sentence has it
		Code: causeLocation, Sentence: e.Error(), Until: t.Now().Add(6 * t.app.options.Look), Holder: "storage location " + e.Dir,
	})
}

// storedAnywhere tells whether a storage location has an object of that name: those of the profile, and all others. A location of the profile that
// may not be used is a *location.Refusal. One that cannot be read is passed over: what it has is seen before anything is written to it.
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
