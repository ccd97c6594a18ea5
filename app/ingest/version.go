package ingest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"mime"
	"path"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/location"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/edge/safename"
	"github.com/stagepost/stagepost/format/erc"
)

// listed is a file of the version that is stored: the job's own, or one that stays from the version before.
type listed struct {
	inventory.File
	Kept   bool   `json:"kept,omitempty"`
	Text   []byte `json:"text,omitempty"`   // its content, which no file of the work directory has
	Source string `json:"source,omitempty"` // the file of the work directory that has its content. Defaults to Path
}

// open opens a file of the job's own in its work directory.
func (f *listed) open(dir *workdir.Dir) (io.ReadCloser, error) {
	if f.Text != nil {
		return io.NopCloser(bytes.NewReader(f.Text)), nil
	}
	return dir.Open(cmp.Or(f.Source, f.Path))
}

// versionList is versionListOn for the version before in the leading storage location.
func (t *task) versionList(ctx context.Context) (string, error) {
	p, err := t.app.profile(t.spec.Profile)
	if err != nil {
		return "", err
	}
	_, lead, err := t.survey(ctx, p.Storage)
	if err != nil {
		return "", t.waitFor(err)
	}
	return t.versionListOn(ctx, lead)
}

// versionListOn gives the list of the version's files: the job's own and, in an update, those of the version before
// that it neither replaces nor deletes. The version before is the newest in the leading storage location, recorded or
// not: a job that failed after it had stored may be sent back, and its files must not be lost. The list is named for
// the version it builds on. Without an update it is that of the job's own files.
func (t *task) versionListOn(ctx context.Context, lead *kept) (string, error) {
	if !t.spec.Update {
		return ownList, nil
	}
	base := lead.before(t.Job().ID)
	n, err := location.Number(base)
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("%s/version-on-%d.jsonl", workdir.ListName, n)
	return name, t.dir.Put(name, func(w io.Writer) error { return t.writeVersion(ctx, w, lead, base) })
}

func (t *task) writeVersion(ctx context.Context, w io.Writer, lead *kept, base string) error {
	e := json.NewEncoder(w)
	gone, err := t.deleted()
	if err != nil {
		return err
	}
	for f, err := range workdir.Lines[listed](t.dir.Root, ownList) {
		if err != nil {
			return err
		}
		if f.Path == workdir.ProducerName+"/"+record.DeleteName {
			continue
		}
		gone[f.Path] = true
		if err := e.Encode(f); err != nil {
			return err
		}
	}
	if base == "" {
		return nil
	}
	own, err := t.ownNames()
	if err != nil {
		return err
	}
	files, err := t.filesOf(ctx, lead, base)
	if err != nil {
		return err
	}
	for f, err := range files {
		if err != nil {
			return err
		}
		if gone[f.Path] || strings.HasPrefix(f.Path, workdir.SystemName+"/") {
			continue
		}
		if err := own.Beside(trimTop(f.Path)); err != nil {
			return fmt.Errorf("a file of version %s would stay beside a new one; to take it out, name it in %s: %w",
				base, record.DeleteName, err)
		}
		if err := e.Encode(listed{File: f, Kept: true}); err != nil {
			return err
		}
	}
	return nil
}

// filesOf returns the files of a version in a location, in order of their paths: from the inventory if it has the
// version, else from storage itself.
func (t *task) filesOf(ctx context.Context, k *kept, version string) (iter.Seq2[inventory.File, error], error) {
	known, err := t.app.inventory.Objects(ctx, inventory.Query{ARK: t.data.Identity.ARK})
	if err != nil {
		return nil, err
	}
	for _, o := range known {
		for _, v := range o.Versions {
			if slices.Contains(v.Places, inventory.Place{Dir: k.dir, Name: version}) {
				return t.recorded(ctx, o.ARK, v.Number), nil
			}
		}
	}
	t.Log().Warn("the newest version is not recorded: its files are read from storage", "ark", t.data.Identity.ARK,
		"version", version)
	return t.unrecorded(ctx, k, version), nil
}

func (t *task) recorded(ctx context.Context, ark string, version int) iter.Seq2[inventory.File, error] {
	return func(yield func(inventory.File, error) bool) {
		for after := ""; ; {
			page, err := t.app.inventory.Files(ctx, ark, version, after, 1000)
			if err != nil {
				yield(inventory.File{}, err)
			}
			if err != nil || len(page) == 0 {
				return
			}
			for _, f := range page {
				if after = f.Path; !yield(f, nil) {
					return
				}
			}
		}
	}
}

// unrecorded reads every file, since storage keeps no size and but one digest.
func (t *task) unrecorded(ctx context.Context, k *kept, version string) iter.Seq2[inventory.File, error] {
	return func(yield func(inventory.File, error) bool) {
		files, err := k.object.Files(version)
		if err != nil {
			yield(inventory.File{}, err)
			return
		}
		for _, stored := range files {
			f := inventory.File{Path: stored.Path, SHA512: stored.Digest,
				MIME: mime.TypeByExtension(path.Ext(stored.Path))}
			in, err := k.object.Open(version, stored.Path)
			if err == nil {
				h := sha256.New()
				f.Size, err = io.Copy(h, workdir.LimitReader(ctx, in, math.MaxInt64-1))
				f.SHA256 = hex.EncodeToString(h.Sum(nil))
				err = errors.Join(err, in.Close())
			}
			if !yield(f, err) || err != nil {
				return
			}
		}
	}
}

// ownNames are the names of the files that the job brings. They were checked one by one when they were fetched.
func (t *task) ownNames() (*safename.Set, error) {
	names := &safename.Set{Rules: t.app.names(t.spec.Profile)}
	for f, err := range workdir.Lines[inventory.File](t.dir.Root, ownList) {
		if err != nil {
			return nil, err
		}
		if name, own := strings.CutPrefix(f.Path, workdir.ProducerName+"/"); own {
			if _, err := names.AddFile(name); err != nil {
				return nil, err
			}
		}
	}
	return names, nil
}

// warnDeleted warns of names in mrt-delete.txt that the version before does not have.
func (t *task) warnDeleted(ctx context.Context, first *kept) error {
	left, err := t.deleted()
	if err != nil || len(left) == 0 {
		return err
	}
	base := first.before(t.Job().ID)
	if base != "" {
		files, err := t.filesOf(ctx, first, base)
		if err != nil {
			return err
		}
		for f, err := range files {
			if err != nil {
				return err
			}
			delete(left, f.Path)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		t.warn("%s names %s, which the version before does not have.", record.DeleteName, trimTop(name))
	}
	return nil
}

// maxDelete bounds mrt-delete.txt, in bytes.
const maxDelete = 64 << 20

// deleted reads the names that an update takes out of the object, one on each line.
func (t *task) deleted() (map[string]bool, error) {
	gone := map[string]bool{}
	if !t.spec.Update {
		return gone, nil
	}
	f, err := t.openProducer(record.DeleteName)
	if f == nil {
		return gone, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxDelete+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxDelete {
		return nil, fail(CauseTooLarge, "%s has more than %d bytes", record.DeleteName, maxDelete)
	}
	text, _ := erc.Text(data)
	in := bufio.NewScanner(strings.NewReader(text))
	for in.Scan() {
		if strings.TrimSpace(in.Text()) == "" {
			continue
		}
		name, err := t.app.names(t.spec.Profile).Clean(strings.TrimPrefix(strings.TrimSpace(in.Text()),
			workdir.ProducerName+"/"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", record.DeleteName, err)
		}
		gone[workdir.ProducerName+"/"+name] = true
	}
	return gone, in.Err()
}
