package ingest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/edge/safename"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
)

// store is the step of Storing: it adds the version to every storage place and reads it back from each. The job is the version's key, so
// that a second attempt finds what the first one stored; its epoch names the stage.
func (t *task) store(ctx context.Context) error {
	p, err := t.app.profile(t.spec.Profile)
	if err != nil {
		return err
	}
	who := t.data.Identity
	if who == nil {
		return job.Errorf(job.Internal, "store", t.Job().ID, "the object has no identifier")
	}
	if err := t.lockObject(ctx, who.ARK); err != nil {
		return err
	}
	list, err := t.versionList(ctx)
	if err != nil {
		return err
	}
	t.data.List, t.data.Places = list, nil
	for i, dir := range p.Storage {
		name, err := t.storeIn(ctx, dir, list)
		if err != nil {
			return placeError(dir, err)
		}
		t.data.Places = append(t.data.Places, inventory.Place{Dir: dir, Name: name})
		t.Progress(int64(i+1), int64(len(p.Storage)), "places")
	}
	if t.data.Version, err = strconv.Atoi(strings.TrimPrefix(t.data.Places[0].Name, "v")); err != nil {
		return job.Errorf(job.Internal, "store", t.Job().ID, "version %q: %w", t.data.Places[0].Name, err)
	}
	t.app.room.spend(t.Job().ID, 0)
	return nil
}

// lockObject makes the job the only one that writes the object until Recording is over. The lock of a job that ended is taken over.
func (t *task) lockObject(ctx context.Context, ark string) error {
	me := string(t.Job().ID)
	for range 2 {
		holder, err := t.app.inventory.Lock(ctx, ark, me)
		if err != nil || holder == me {
			return err
		}
		j, err := t.app.engine.Store().Get(ctx, job.ID(holder))
		if err != nil && job.KindOf(err) != job.NotFound {
			return err
		}
		if err == nil && !j.Ended {
			return engine.Wait(engine.Blocker{
				Code: "object", Sentence: fmt.Sprintf("%s is adding a version to %s", holder, ark), Until: t.Now().Add(t.app.pause()),
				Holder: holder, Remedy: "nothing: it goes on when that job has recorded its version",
			})
		}
		if err := t.app.inventory.Unlock(ctx, ark, holder); err != nil {
			return err
		}
	}
	return job.Errorf(job.Unavailable, "store", t.Job().ID, "the lock of %s changed hands", ark)
}

// placeError gives an error its place, and the cause storage unless it is known to be another.
func placeError(dir string, err error) error {
	var e *errCaused
	if err = named(err); final(err) || errors.As(err, &e) {
		return fmt.Errorf("storage place %s: %w", dir, err)
	}
	return &errCaused{cause: CauseStorage, again: true, err: fmt.Errorf("storage place %s: %w", dir, err)}
}

// storeIn adds the version to one place and reads it back.
func (t *task) storeIn(ctx context.Context, dir, list string) (string, error) {
	root, err := t.app.root(dir)
	if err != nil {
		return "", err
	}
	j := t.Job()
	v := ocfl.Version{Created: j.Created.UTC().Truncate(time.Second), User: ocfl.User{Name: t.spec.Submitter}, Message: t.spec.Note}
	if v.User.Name == "" {
		v.User.Name = "stagepost"
	}
	if v.Message == "" {
		v.Message = "ingested"
	}
	ark := t.data.Identity.ARK
	for f, err := range lines[listed](t.dir.Root, list) {
		if err != nil {
			return "", err
		}
		open := func() (io.ReadCloser, error) { return t.dir.Open(f.Path) }
		if f.Kept {
			open = func() (io.ReadCloser, error) { return t.openKept(root, f.Path) }
		}
		v.Files = append(v.Files, ocfl.File{Path: f.Path, Digest: f.SHA512, Size: f.Size, Open: open})
	}
	added, err := root.AddVersion(ctx, ark, v, ocfl.Options{Stage: t.Fence(), Key: string(j.ID)})
	if err != nil {
		return "", err
	}
	read, err := root.VerifyVersion(ctx, ark, added.Version)
	if err != nil {
		return "", fmt.Errorf("read back %s of %s: %w", added.Version, ark, err)
	}
	t.Log().Info("stored", "ark", ark, "version", added.Version, "new_files", added.Stored, "read_back", read.Bytes)
	return added.Version, nil
}

// openKept opens a file of the version before in a place.
func (t *task) openKept(root *ocfl.Root, path string) (io.ReadCloser, error) {
	o, err := root.Object(t.data.Identity.ARK)
	if err != nil {
		return nil, err
	}
	return o.Open("", path)
}

// root opens a storage place, making it if there is none.
func (a *App) root(dir string) (*ocfl.Root, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.roots[dir]; r != nil {
		return r, nil
	}
	r, err := ocfl.InitRoot(a.place(dir), ocfl.DefaultLayout())
	if err != nil {
		return nil, err
	}
	a.roots[dir] = r
	return r, nil
}

// place gives the directory of a storage place.
func (a *App) place(dir string) string {
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(a.options.Dir, dir)
}

// listed is a file of the version that is stored: the job's own, or one that stays from the version before.
type listed struct {
	inventory.File
	Kept bool `json:"kept,omitempty"`
}

// versionList gives the list of the version's files: the job's own and, in an update, those of the newest version that it neither
// replaces nor deletes. The list is named for the version it builds on.
func (t *task) versionList(ctx context.Context) (string, error) {
	head := 0
	if t.spec.Update {
		before, err := t.app.inventory.Objects(ctx, inventory.Query{ARK: t.data.Identity.ARK})
		if err != nil {
			return "", err
		}
		if len(before) > 0 {
			head = before[0].Head
		}
	}
	name := fmt.Sprintf("%s/version-on-%d.jsonl", listName, head)
	if t.dir.has(name) {
		return name, nil
	}
	return name, t.dir.put(name, func(w io.Writer) error { return t.writeVersion(ctx, w, head) })
}

func (t *task) writeVersion(ctx context.Context, w io.Writer, head int) error {
	e := json.NewEncoder(w)
	gone, err := t.deleted()
	if err != nil {
		return err
	}
	for f, err := range lines[inventory.File](t.dir.Root, ownList) {
		if err != nil {
			return err
		}
		if t.spec.Update && f.Path == producerName+"/"+deleteName {
			continue
		}
		gone[f.Path] = true
		if err := e.Encode(listed{File: f}); err != nil {
			return err
		}
	}
	if head == 0 {
		return nil
	}
	for after := ""; ; {
		page, err := t.app.inventory.Files(ctx, t.data.Identity.ARK, head, after, 1000)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, f := range page {
			after = f.Path
			if gone[f.Path] || strings.HasPrefix(f.Path, systemName+"/") {
				continue
			}
			if err := e.Encode(listed{File: f, Kept: true}); err != nil {
				return err
			}
		}
	}
}

// deleted reads the names that an update takes out of the object, one on each line.
func (t *task) deleted() (map[string]bool, error) {
	gone := map[string]bool{}
	if !t.spec.Update {
		return gone, nil
	}
	f, err := t.dir.Open(producerName + "/" + deleteName)
	if errors.Is(err, fs.ErrNotExist) {
		return gone, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for in.Scan() {
		if strings.TrimSpace(in.Text()) == "" {
			continue
		}
		name, err := safename.Clean(strings.TrimPrefix(strings.TrimSpace(in.Text()), producerName+"/"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", deleteName, err)
		}
		gone[producerName+"/"+name] = true
	}
	return gone, in.Err()
}
