package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/edge/safename"
	"github.com/stagepost/stagepost/edge/unpack"
	"github.com/stagepost/stagepost/format/checkm"
	"github.com/stagepost/stagepost/format/noid"
)

// manifestFile is where an object's manifest lies in the job's directory.
const manifestFile = packageName + "/manifest.checkm"

// begin is the step of Pending: it refuses what can never become an object. The digest of an uploaded payload is checked here; an object's
// manifest is brought here and read to its end.
func (t *task) begin(ctx context.Context) error {
	if err := t.checkRow(); err != nil {
		return err
	}
	switch {
	case t.spec.Type == TypeObjectManifest:
		if err := t.bringManifest(ctx); err != nil {
			return err
		}
		return t.readManifest()
	case t.spec.URL == "":
		return t.takePayload(ctx)
	}
	return nil
}

// checkRow refuses rows of which no object can be made.
func (t *task) checkRow() error {
	s := &t.spec
	for field, text := range map[string]string{"title": s.Title, "creator": s.Creator, "date": s.Date, "note": s.Note} {
		if err := plain(text); err != nil {
			return fail(CauseBadRow, "%s: %w", field, err)
		}
	}
	for _, id := range s.LocalIDs {
		if err := plain(id); err != nil {
			return fail(CauseBadRow, "local id: %w", err)
		}
	}
	if s.PrimaryID != "" {
		if _, err := noid.ParseARK(s.PrimaryID); err != nil {
			return fail(CauseBadIdentifier, "primary id: %w", err)
		}
	}
	if s.URL == "" && s.Row > 0 {
		return fail(CauseBadRow, "the row names no URL")
	}
	if s.Digest.Type != "" {
		if _, err := checkm.NewHash(checkm.Algorithm(s.Digest.Type)); err != nil {
			return fail(CauseBadRow, "digest type %q: %w", s.Digest.Type, err)
		}
	}
	if s.Type == TypeContainer {
		if _, _, ok := unpack.KindOf(s.Filename); !ok {
			return fail(CauseWrongType, "%q is no container: its name ends in none of .zip .tar .tar.gz .tgz .tar.bz2 .gz .bz2", s.Filename)
		}
	}
	if _, err := t.fileName(); err != nil {
		return err
	}
	return nil
}

// fileName is the payload's name as we write it.
func (t *task) fileName() (string, error) {
	if t.spec.Filename == "" {
		return payloadName, nil
	}
	return safename.Clean(t.spec.Filename)
}

// bringManifest brings the object's manifest into the job's directory, complete or not at all.
func (t *task) bringManifest(ctx context.Context) error {
	p, err := t.app.profile(t.spec.Profile)
	if err != nil {
		return err
	}
	if t.spec.URL != "" {
		_, err := t.app.client(p).Download(ctx, t.spec.URL, t.dir.Root, manifestFile, fetch.Want{
			Algorithm: t.spec.Digest.Type, Digest: t.spec.Digest.Value, Size: t.spec.Size, MaxBytes: p.Limits.Manifest, Scratch: partsName,
		})
		return err
	}
	if t.spec.Size > p.Limits.Manifest {
		return fail(CauseTooLarge, "the manifest has %d bytes, profile %s allows %d", t.spec.Size, p.ID, p.Limits.Manifest)
	}
	f, err := t.payload(ctx)
	if err != nil {
		return err
	}
	defer f.Close()
	return t.dir.put(manifestFile, func(w io.Writer) error {
		_, err := io.Copy(w, f)
		return err
	})
}

// takePayload checks an uploaded file or container.
func (t *task) takePayload(ctx context.Context) error {
	f, err := t.payload(ctx)
	if err != nil {
		return err
	}
	return f.Close()
}

// payload opens the batch's payload at its beginning, after its digest was checked.
func (t *task) payload(ctx context.Context) (*os.File, error) {
	s := &batchSpec{Payload: payload{Size: t.spec.Size}}
	f, err := t.app.openPayload(t.Job().Parent, s)
	if err != nil {
		return nil, err
	}
	err = matches(ctx, f, t.spec.Digest)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// readManifest reads the object's manifest to its end. An object may be empty only of files, never of rows.
func (t *task) readManifest() error {
	n := 0
	for _, err := range t.rows() {
		if err != nil {
			return err
		}
		n++
	}
	if n == 0 {
		return fail(CauseEmptyManifest, "the manifest names no file")
	}
	t.data.Files = n
	return nil
}

// rows reads the rows of the object's manifest.
func (t *task) rows() func(func(checkm.Row, error) bool) {
	return func(yield func(checkm.Row, error) bool) {
		p, err := t.app.profile(t.spec.Profile)
		if err != nil {
			yield(checkm.Row{}, err)
			return
		}
		f, err := t.dir.Open(manifestFile)
		if err != nil {
			yield(checkm.Row{}, fmt.Errorf("the object's manifest: %w", err))
			return
		}
		defer f.Close()
		rows(f, path.Base(t.spec.Filename), checkm.Object, p.Strict)(yield)
	}
}
