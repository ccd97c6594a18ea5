package ingest

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"strings"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/edge/unpack"
	"github.com/stagepost/stagepost/format/checkm"
)

// ownManifests are the names by which a container says what is in it (profile mrt-object-manifest).
var ownManifests = []string{workdir.ProducerName + "/mrt-manifest.txt", workdir.ProducerName + "/mrt-object-manifest.txt"}

// unpack takes the container apart into producer/, all or nothing. A directory that is there is complete.
func (t *task) unpack(ctx context.Context, limits profile.Limits) error {
	if t.dir.Has(workdir.ProducerName) {
		return nil
	}
	f, err := t.openPackage()
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	report, err := unpack.Unpack(ctx, f, info.Size(), path.Base(t.spec.Filename), t.dir.Root, workdir.ProducerName,
		unpack.Limits{Files: limits.Files, Bytes: limits.Bytes, Names: t.app.names(t.spec.Profile)})
	if err != nil {
		return err
	}
	for table, n := range map[string]int{"code page 437": report.CP437, "ISO-8859-1": report.Latin1} {
		if n > 0 {
			t.warn("%s in the container not in UTF-8 and read as %s.", plural(n, "name is", "names are"), table)
		}
	}
	if report.Files == 0 {
		return errors.Join(fail(CauseEmptyManifest, "the container holds no file"), t.dir.RemoveAll(workdir.ProducerName))
	}
	t.Log().Info("unpacked", "files", report.Files, "bytes", report.Bytes)
	return nil
}

// openPackage opens the container: what was fetched, or the batch's payload.
func (t *task) openPackage() (*os.File, error) {
	if t.spec.URL == "" {
		return t.app.openPayload(t.Job().Parent, &record.BatchSpec{Payload: record.Payload{Size: t.spec.Size}})
	}
	name, err := t.fileName()
	if err != nil {
		return nil, err
	}
	return t.dir.Open(path.Join(workdir.PackageName, name))
}

// crossCheck holds the container's own manifest, if it has one, against its files: none is missing, none is there that it does not
// name, and all match their sizes and digests.
func (t *task) crossCheck(ctx context.Context) error {
	for _, name := range ownManifests {
		if !t.dir.Has(name) {
			continue
		}
		listed, err := t.crossCheckRows(ctx, name)
		if err != nil {
			return err
		}
		return fs.WalkDir(t.dir.FS(), workdir.ProducerName, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || file == name || listed[trimTop(file)] {
				return err
			}
			return fail(CauseMismatch, "%s is not in %s", trimTop(file), path.Base(name))
		})
	}
	return nil
}

func (t *task) crossCheckRows(ctx context.Context, name string) (map[string]bool, error) {
	p, err := t.app.profile(t.spec.Profile)
	if err != nil {
		return nil, err
	}
	f, err := t.dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := map[string]bool{}
	for row, err := range rows(f, path.Base(name), checkm.ContainerObject, false, t.warnManifest) {
		if err != nil {
			return nil, err
		}
		file, err := p.Names.Rules().Clean(strings.TrimPrefix(row.FileName, workdir.ProducerName+"/"))
		if err != nil {
			return nil, err
		}
		if err := t.crossCheckFile(ctx, file, row, p.Strict); err != nil {
			return nil, err
		}
		all[file] = true
	}
	return all, nil
}

// crossCheckFile compares a file with its row. A size that is wrong where the digest is right is a warning, unless the profile is strict.
func (t *task) crossCheckFile(ctx context.Context, name string, row checkm.Row, strict bool) error {
	f, err := t.dir.Open(path.Join(workdir.ProducerName, name))
	if errors.Is(err, fs.ErrNotExist) {
		return fail(CauseMismatch, "%s is in the container's manifest, but not in the container", name)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fail(CauseMismatch, "%s is a directory", name)
	case row.Size >= 0 && info.Size() != row.Size && (strict || row.Digest.IsZero()):
		return fail(CauseMismatch, "%s has %d bytes, the container's manifest says %d", name, info.Size(), row.Size)
	case row.Digest.IsZero():
		return nil
	}
	h, err := checkm.NewHash(row.Digest.Algorithm)
	if err != nil {
		return fail(CauseMismatch, "%s: %w", name, err)
	}
	if _, err := io.Copy(h, workdir.LimitReader(ctx, f, math.MaxInt64-1)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if sum := h.Sum(nil); !row.Digest.Matches(sum) {
		return fail(CauseMismatch, "%s: its %s is %s, the container's manifest says %s", name, row.Digest.Algorithm, hex.EncodeToString(sum), row.Digest.Value)
	}
	if row.Size >= 0 && info.Size() != row.Size {
		t.warn(otherSize, name, info.Size(), row.Size)
	}
	return nil
}
