package ingest

import (
	"context"
	"slices"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/lifecycle"
)

// refill brings back working files that were cleared away while the job was failed, so that a retry into a later phase finds what it needs: the
// manifest, the files, what Processing made of them. A directory that Downloading has filled always has the list of what came.
func (t *task) refill(ctx context.Context) error {
	state := t.Job().State
	if t.spec.Type == TypeObjectManifest && state != record.Pending && !t.dir.Has(manifestFile) {
		t.Log().Warn("the object's manifest was cleared away: it is fetched again")
		if err := t.bringManifest(ctx); err != nil {
			return err
		}
	}
	if !slices.Contains([]lifecycle.State{record.Processing, record.Storing, record.Recording}, state) || t.dir.Has(fetchedList) {
		return nil
	}
	j := t.Job()
	if b := t.app.room.promise(ctx, &j, t.data.Space); b != nil {
		return engine.Wait(*b)
	}
	t.SetMessage("its working files are gone: Downloading starts again")
	t.Log().Warn("the working files were cleared away: Downloading starts again")
	if err := t.download(ctx); err != nil {
		return err
	}
	if state == record.Processing {
		return nil
	}
	if err := t.process(ctx); err != nil {
		return err
	}
	if state == record.Recording { // the version is stored: its list is made as it was for Storing
		list, err := t.versionList(ctx)
		if err != nil {
			return err
		}
		t.data.List = list
	}
	return nil
}
