package ingest

import (
	"context"
	"fmt"
	"iter"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/job"
)

// record is the step of Recording: it enters the version in the inventory, once, under the locks of object and inventory, which end with it.
// There is nothing to enter if the object was stored already.
func (t *task) record(ctx context.Context) error {
	p, err := t.app.profile(t.spec.Profile)
	if err != nil {
		return err
	}
	if t.data.Same != nil {
		return nil
	}
	who := t.data.Identity
	if who == nil || len(t.data.Places) == 0 {
		return job.Errorf(job.Internal, "record", t.Job().ID, "nothing was stored")
	}
	if t.data.Unchanged {
		t.data.Same = &record.SameObject{Identity: *who, Version: t.data.Version}
		t.data.Unchanged, t.data.Identity, t.data.Version, t.data.Places = false, nil, 0, nil
		return nil
	}
	j := t.Job()
	list, err := t.storedList()
	if err != nil {
		return err
	}
	locks, err := t.take(ctx,
		inventory.Want{Kind: inventory.ObjectLock, Name: who.ARK, Note: "adding a version"},
		inventory.Want{Kind: inventory.InventoryLock, Name: who.ARK, Note: "entering a version"})
	if err != nil {
		return t.again(err)
	}
	err = t.app.locks.Record(ctx, inventory.Entry{
		Object: inventory.Object{
			ARK: who.ARK, Owner: p.Owner, Collection: p.Collection, Profile: p.ID,
			Title: who.Title, Creator: who.Creator, Date: who.Date, LocalIDs: who.LocalIDs,
		},
		Job: string(j.ID), Batch: string(j.Parent), Submitter: t.spec.Submitter, Note: t.spec.Note,
		Version: t.data.Version, At: j.Created, Places: t.data.Places, Locks: locks,
	}, t.counted(list))
	if err == nil {
		t.app.line.freed(locks...)
	}
	return t.again(err)
}

// storedList gives the list that the version was stored from.
func (t *task) storedList() (string, error) {
	if t.data.List == "" || !t.dir.Has(t.data.List) {
		return "", fmt.Errorf("the list of the version's files is gone")
	}
	return t.data.List, nil
}

// counted reads the list and tells how far it came.
func (t *task) counted(list string) iter.Seq2[inventory.File, error] {
	return func(yield func(inventory.File, error) bool) {
		n := int64(0)
		for f, err := range workdir.Lines[listed](t.dir.Root, list) {
			if !yield(f.File, err) {
				return
			}
			n++
			t.Progress(n, max(n, int64(t.data.Files)), "files")
		}
	}
}
