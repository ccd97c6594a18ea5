package ingest

import (
	"context"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/format/noid"
	"github.com/stagepost/stagepost/job"
)

// What the inventory tells of stored objects.
type (
	Object      = inventory.Object
	ObjectQuery = inventory.Query
	StoredFile  = inventory.File
	Permit      = inventory.Permit
)

// Objects gives stored objects in order of their ARKs. An ARK may be in any form.
func (a *App) Objects(ctx context.Context, q ObjectQuery) ([]Object, error) {
	if q.ARK != "" {
		ark, err := noid.ParseARK(q.ARK)
		if err != nil {
			return nil, job.Errorf(job.Invalid, "objects", "", "%w", err)
		}
		q.ARK = ark.String()
	}
	return a.inventory.Objects(ctx, q)
}

// Files gives up to limit files of a version (0: the newest) after a path, in order of their paths.
func (a *App) Files(ctx context.Context, ark string, version int, after string, limit int) ([]StoredFile, error) {
	return a.inventory.Files(ctx, ark, version, after, limit)
}
