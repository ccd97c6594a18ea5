package ingest

import (
	"context"
	"slices"

	"github.com/stagepost/stagepost/app/ingest/fixity"
	"github.com/stagepost/stagepost/app/ingest/fsck"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// newChecker makes the checker of the storage locations.
func newChecker(a *App) *fixity.Checker {
	return fixity.New(fixity.Options{
		Inventory: a.inventory, Locations: a.inventory.Dirs, Now: a.now, Log: a.log, Every: a.options.FixityEvery, Rate: a.options.FixityRate,
		Open: func(ctx context.Context, dir string) (*ocfl.Root, error) {
			root, err := a.locations.Open(ctx, dir, false)
			if err != nil {
				return nil, err
			}
			return root.Root, nil
		},
		Audit: func(ctx context.Context, event, object, note string) error {
			return a.engine.Operator().Audit(ctx, operator.Entry{By: lifecycle.Engine, Actor: "fixity", Event: lifecycle.Event(event), Object: object, Note: note})
		},
	})
}

// CheckFixity asks for a fixity check of all files in a storage location, or in all of them (""). A check that is under way goes on. It returns when the request is
// on disk; the work is done in the background, also after a restart.
func (a *App) CheckFixity(ctx context.Context, dir, actor, note string) error {
	dirs, err := a.inventory.Dirs(ctx)
	if err != nil {
		return err
	}
	if dir != "" {
		if !slices.Contains(dirs, dir) {
			return job.Errorf(job.NotFound, "fixity", "", "nothing is stored in a location %.200q: stagepost ingest storage lists them", dir)
		}
		dirs = []string{dir}
	}
	if err := a.engine.Operator().Audit(ctx, operator.Entry{Actor: actor, Event: "fixity-run", Object: dir, Note: note}); err != nil {
		return err
	}
	return a.checker.Start(ctx, dirs)
}

// Fixity gives what is known of the stored files.
func (a *App) Fixity(ctx context.Context) (fixity.Status, error) { return a.checker.Status(ctx) }

// FixitySummary gives what alarms need.
func (a *App) FixitySummary(ctx context.Context) (fixity.Summary, error) {
	return a.checker.Summary(ctx)
}

// Compare compares the records of jobs, the inventory and the storage locations with each other. It changes nothing, and work may go on meanwhile.
func (a *App) Compare(ctx context.Context) (fsck.Comparison, error) {
	return fsck.Compare(ctx, a.inventory, a.engine.Store(), a.options.Profiles, a.options.Dir)
}
