package ingest

import (
	"context"
	"slices"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/location"
)

// places looks at the object in all storage locations of the profile, before anything is written to one of them, and gives the leading one: that which has
// all versions that any of them has. A place that may not be used is a *location.Refusal. Places that contradict each other or the inventory, and an object
// that this installation did not store, end the job.
func (t *task) places(ctx context.Context, dirs []string) (all []*kept, lead *kept, err error) {
	ids := map[string]string{}
	for _, dir := range dirs {
		k, err := t.look(ctx, dir)
		if err != nil {
			return nil, nil, placeError(dir, err)
		}
		if other, twice := ids[k.root.ID]; twice {
			return nil, nil, fail(CauseStorage, "the profile names one storage location twice: %s and %s are the same; correct its list storage", other, dir)
		}
		ids[k.root.ID] = dir
		all = append(all, k)
	}
	id := t.Job().ID
	lead = slices.MaxFunc(all, func(a, b *kept) int { return len(a.older(id)) - len(b.older(id)) })
	for _, k := range all {
		if n := len(k.older(id)); n < len(lead.older(id)) && k.has(id) {
			return nil, nil, fail(CauseStorage, "the storage locations disagree about %s: %s lacks %s of %s, and has a later version; run: stagepost admin fsck",
				t.data.Identity.ARK, k.dir, lead.older(id)[n], lead.dir)
		}
		for i, name := range k.older(id) {
			if first := lead.older(id)[i]; location.Mark(k.object, name) != location.Mark(lead.object, first) {
				return nil, nil, fail(CauseStorage, "the storage locations disagree about %s: %s of %s is not %s of %s; run: stagepost admin fsck",
					t.data.Identity.ARK, name, k.dir, first, lead.dir)
			}
		}
	}
	return all, lead, t.recognize(ctx, all, lead)
}

// recognize refuses an object of which the inventory knows more versions than storage has, or that has versions of which the inventory knows nothing:
// somebody else stored them, or the inventory lost them.
func (t *task) recognize(ctx context.Context, all []*kept, lead *kept) error {
	ark := t.data.Identity.ARK
	known, err := t.app.inventory.Objects(ctx, inventory.Query{ARK: ark})
	if err != nil {
		return err
	}
	newest, recorded := 0, map[inventory.Place]bool{}
	for _, o := range known {
		newest = o.Head
		for _, v := range o.Versions {
			for _, p := range v.Places {
				recorded[p] = true
			}
		}
	}
	stored := 0
	for _, k := range all {
		n, err := location.Number(k.head())
		if err != nil {
			return err
		}
		stored = max(stored, n)
	}
	if stored < newest {
		return fail(CauseStorage, "version %d of %s is recorded, and no storage location has more than %d; run: stagepost admin fsck", newest, ark, stored)
	}
	jobs, err := t.app.inventory.JobsOf(ctx, ark)
	if err != nil {
		return err
	}
	ours := map[string]bool{}
	for _, id := range jobs {
		ours[id] = true
	}
	for _, name := range lead.older(t.Job().ID) {
		key := lead.object.Inventory().Versions[name].Key()
		if !ours[key] && !recorded[inventory.Place{Dir: lead.dir, Name: name}] {
			return fail(CauseIdentifiers, "%s has the object %s already, and the inventory does not know its version %s (%s): "+
				"submit under another identifier, or if the inventory lost it, stop the server and run: stagepost ingest inventory rebuild",
				lead.dir, ark, name, location.MadeBy(key))
		}
	}
	return nil
}
