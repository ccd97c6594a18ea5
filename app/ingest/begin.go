package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/edge/safename"
	"github.com/stagepost/stagepost/edge/unpack"
	"github.com/stagepost/stagepost/format/checkm"
	"github.com/stagepost/stagepost/format/noid"
	"github.com/stagepost/stagepost/internal/durable"
)

// manifestFile is where an object's manifest lies in the job's directory.
const manifestFile = workdir.PackageName + "/manifest.checkm"

// begin is the step of Pending: it refuses what can never become an object. The digest of an uploaded payload is
// checked here; an object's manifest is brought here and read to its end.
func (t *task) begin(ctx context.Context) error {
	p, err := t.app.profile(t.spec.Profile)
	if err != nil {
		return err
	}
	if err := checkSpec(&t.spec, p.Names.Rules()); err != nil {
		return err
	}
	switch {
	case t.spec.Type == TypeObjectManifest:
		if err := t.dir.Defer(); err != nil {
			return err
		}
		if err := t.bringManifest(ctx, t.dir.Set()); err != nil {
			return err
		}
		if err := t.readManifest(); err != nil {
			return err
		}
		t.data.Unsynced, err = t.sumOf(ctx, manifestFile)
		return err
	case t.spec.URL == "":
		return t.takePayload(ctx)
	}
	return nil
}

// checkSpec refuses rows of which no object can be made.
func checkSpec(s *record.JobSpec, names safename.Rules) error {
	for field, text := range map[string]string{"title": s.Title, "creator": s.Creator, "date": s.Date, "note": s.Note} {
		if err := record.CheckText(text); err != nil {
			return fail(CauseBadRow, "%s: %w", field, err)
		}
	}
	for _, id := range s.LocalIDs {
		if err := record.CheckText(id); err != nil {
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
	if err := checkSource(s.URL, s.Digest); err != nil {
		return fail(CauseBadRow, "%w", err)
	}
	if s.Type == TypeContainer {
		if _, _, ok := unpack.KindOf(s.Filename); !ok {
			return notContainer(s.Filename)
		}
	}
	_, err := specFileName(s, names)
	return err
}

// specFileName is the payload's name as we write it.
func specFileName(s *record.JobSpec, names safename.Rules) (string, error) {
	if s.Filename == "" {
		return workdir.PayloadName, nil
	}
	return names.Clean(s.Filename)
}

// names gives the rules for the names of a profile's files. They do not matter any more where the profile is gone: what
// is stored is stored.
func (a *App) names(profile string) safename.Rules {
	if p, ok := a.options.Profiles.Get(profile); ok {
		return p.Names.Rules()
	}
	return safename.AsGiven
}

func (t *task) fileName() (string, error) { return specFileName(&t.spec, t.app.names(t.spec.Profile)) }

// bringManifest brings the object's manifest into the job's directory, complete or not at all. The set syncs it;
// without one it is synced before it has its name.
func (t *task) bringManifest(ctx context.Context, set *durable.Set) error {
	p, err := t.app.profile(t.spec.Profile)
	if err != nil {
		return err
	}
	// Downloading syncs the directory's name, and the manifest. Where they are lost before, refill brings them again.
	if err = t.dir.Mkdir(workdir.PackageName, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	fresh := err == nil
	if t.spec.URL != "" {
		got, err := t.app.fetch(ctx, p, t.spec.URL, t.dir.Root, manifestFile, fetch.Want{
			Algorithm: t.spec.Digest.Type, Digest: t.spec.Digest.Value, Size: t.spec.Size, MaxBytes: p.Limits.Manifest,
			Scratch: workdir.PartsName, Set: set, New: fresh,
		})
		if err == nil && t.spec.Size >= 0 && got.Size != t.spec.Size {
			t.warn(otherSize, "the object's manifest", got.Size, t.spec.Size)
		}
		return err
	}
	if t.spec.Size > p.Limits.Manifest {
		return fail(CauseTooLarge, "the manifest has %d bytes, profile %s allows %d", t.spec.Size, p.ID,
			p.Limits.Manifest)
	}
	f, err := t.payload(ctx)
	if err != nil {
		return err
	}
	defer f.Close()
	put := t.dir.Put
	if set == nil {
		put = func(name string, write func(io.Writer) error) error { return workdir.PutFile(t.dir.Root, name, write) }
	}
	return put(manifestFile, func(w io.Writer) error {
		_, err := io.Copy(w, f)
		return err
	})
}

// sumOf gives the SHA-256 of a file of the work directory; it is empty if there is none.
func (t *task) sumOf(ctx context.Context, name string) (string, error) {
	f, err := t.dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if err := workdir.Copy(ctx, h, f); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// torn reports whether a file that the last phase wrote without a sync is not what it wrote.
func (t *task) torn(ctx context.Context, name string) (bool, error) {
	if t.data.Unsynced == "" {
		return false, nil
	}
	sum, err := t.sumOf(ctx, name)
	return sum != t.data.Unsynced, err
}

// adopt gives a file that the last phase wrote without a sync to the set of what is synced.
func (t *task) adopt(name string) error {
	if t.data.Unsynced == "" {
		return nil
	}
	return t.dir.Adopt(name)
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
	f, err := t.app.openPart(t.Job().Parent, t.spec.Part, t.spec.Size)
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
	for _, err := range t.rowsWith(t.warnManifest) {
		if err != nil {
			return err
		}
		n++
	}
	if n == 0 {
		return errNoFile()
	}
	t.data.Files = n
	return nil
}

// rows reads the rows of the object's manifest.
func (t *task) rows() iter.Seq2[checkm.Row, error] { return t.rowsWith(nil) }

func (t *task) rowsWith(warn func([]*checkm.Error)) iter.Seq2[checkm.Row, error] {
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
		rows(f, path.Base(t.spec.Filename), checkm.Object, p.Strict, warn)(yield)
	}
}
