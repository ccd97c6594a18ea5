package ingest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
)

// alreadyStored is the message of a job whose object was there already.
const alreadyStored = "already stored as version %d: nothing changed since"

// unchanged gives the newest version of the object if it is what the job brings: the same files of the depositor, and the same description. Then no
// version is added, so that a submission that is sent again does not make a second one. The version must be recorded and be the newest in every
// storage location. An update always adds a version, and so does a job that has begun to. It is nil if the job brings something new.
func (t *task) unchanged(ctx context.Context, places []*kept) (*inventory.Version, error) {
	if t.spec.Update || places[0].object == nil {
		return nil, nil
	}
	known, err := t.app.inventory.Objects(ctx, inventory.Query{ARK: t.data.Identity.ARK})
	if err != nil || len(known) == 0 {
		return nil, err
	}
	versions := known[0].Versions
	i := slices.IndexFunc(versions, func(v inventory.Version) bool { return v.Number == known[0].Head })
	if i < 0 {
		return nil, nil
	}
	for _, k := range places {
		newest := inventory.Place{Dir: k.dir, Name: k.head()}
		if k.before(t.Job().ID) != k.head() || !slices.Contains(versions[i].Places, newest) {
			return nil, nil
		}
	}
	same, err := t.sameFiles(ctx, known[0].ARK, versions[i].Number)
	if err != nil || !same {
		return nil, err
	}
	return &versions[i], nil
}

// sameFiles compares what the job brings with a recorded version.
func (t *task) sameFiles(ctx context.Context, ark string, version int) (bool, error) {
	own := map[string]string{}
	for f, err := range workdir.Lines[inventory.File](t.dir.Root, ownList) {
		if err != nil {
			return false, err
		}
		if counts(f.Path) {
			own[f.Path] = f.SHA512
		}
	}
	for f, err := range t.recorded(ctx, ark, version) {
		if err != nil {
			return false, err
		}
		if !counts(f.Path) {
			continue
		}
		if own[f.Path] != f.SHA512 {
			return false, nil
		}
		delete(own, f.Path)
	}
	return len(own) == 0, nil
}

// counts tells whether a file says what the object is: all that the depositor handed in, and the description. The others say how it came here.
func counts(path string) bool {
	return strings.HasPrefix(path, workdir.ProducerName+"/") || path == workdir.SystemName+"/"+record.ERCName
}

// keepVersion notes that the object is stored already, and ends the locks: nothing is written.
func (t *task) keepVersion(ctx context.Context, v *inventory.Version, places []*kept, locks []inventory.Lock) error {
	t.data.Unchanged, t.data.List, t.data.Places = true, "", nil
	for _, k := range places {
		t.data.Places = append(t.data.Places, inventory.Place{Dir: k.dir, Name: k.head()})
	}
	t.Log().Info("already stored", "ark", t.data.Identity.ARK, "version", v.Number)
	return t.app.ReleaseLocks(ctx, locks)
}

// conclude says in the message of a job that completes what its depositor would not expect.
func (t *task) conclude() {
	if text := remark(&t.data); text != "" {
		t.SetMessage(text)
	}
}

// remark is what the depositor of a stored object would not expect, or nothing.
func remark(d *record.JobData) string {
	if d.Same == nil {
		return ""
	}
	return fmt.Sprintf(alreadyStored, d.Same.Version)
}
