package ingest

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math"
	"mime"
	"path"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/workdir"
)

// ownList lists the files that the job brings, with size and digests, in order of their paths.
const ownList = workdir.ListName + "/own.jsonl"

// process is the step of Processing: it unpacks and checks containers, finds out who the object is, describes it and takes the digests.
func (t *task) process(ctx context.Context) error {
	p, err := t.app.profile(t.spec.Profile)
	if err != nil {
		return err
	}
	if t.spec.Type == TypeContainer {
		if err := t.unpack(ctx, p.Limits); err != nil {
			return err
		}
		if err := t.crossCheck(ctx); err != nil {
			return err
		}
	}
	who, primary, err := t.describe()
	if err != nil {
		return err
	}
	name, err := t.identify(ctx, p, primary, who.LocalIDs)
	if err != nil {
		return err
	}
	who.ARK, who.Minted = name.ARK, name.Minted
	if was := t.data.Identity; was != nil && was.ARK == who.ARK {
		who = was // of an earlier attempt: the object may have newer versions by now, and the files must become what they were
	} else if err := t.inherit(ctx, who); err != nil {
		return err
	}
	if err := t.writeSystem(p, who); err != nil {
		return err
	}
	t.data.Identity = who
	return t.takeDigests(ctx)
}

// takeDigests writes the list of the object's files. Digests that were taken while a file was written are not taken again: storage compares
// them once more.
func (t *task) takeDigests(ctx context.Context) error {
	have := map[string]arrived{}
	if t.spec.Type != TypeContainer {
		var err error
		if have, err = t.fetched(); err != nil {
			return err
		}
	}
	files, size := 0, int64(0)
	err := t.dir.Put(ownList, func(w io.Writer) error {
		e := json.NewEncoder(w)
		for _, top := range []string{workdir.ProducerName, workdir.SystemName} {
			err := fs.WalkDir(t.dir.FS(), top, func(name string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				f, err := t.digestOf(ctx, name, have)
				if err != nil {
					return err
				}
				files, size = files+1, size+f.Size
				t.Progress(size, max(size, t.data.Size), "bytes")
				return e.Encode(f)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	t.data.Files, t.data.Size = files, size
	return err
}

func (t *task) digestOf(ctx context.Context, name string, have map[string]arrived) (inventory.File, error) {
	info, err := t.dir.Lstat(name)
	if err != nil {
		return inventory.File{}, err
	}
	if !info.Mode().IsRegular() {
		return inventory.File{}, fail(CauseUnsafeName, "%s is no regular file", name)
	}
	f := inventory.File{Path: name, Size: info.Size(), MIME: mime.TypeByExtension(path.Ext(name))}
	if a, ok := have[trimTop(name)]; ok && a.Size == f.Size && path.Dir(name) != workdir.SystemName {
		f.SHA256, f.SHA512 = a.SHA256, a.SHA512
		if a.MIME != "" {
			f.MIME = a.MIME
		}
		return f, nil
	}
	in, err := t.dir.Open(name)
	if err != nil {
		return f, err
	}
	defer in.Close()
	short, long := sha256.New(), sha512.New()
	if _, err := io.Copy(io.MultiWriter(short, long), workdir.LimitReader(ctx, in, math.MaxInt64-1)); err != nil {
		return f, fmt.Errorf("%s: %w", name, err)
	}
	f.SHA256, f.SHA512 = hex.EncodeToString(short.Sum(nil)), hex.EncodeToString(long.Sum(nil))
	return f, nil
}

// trimTop takes producer/ off a path.
func trimTop(name string) string {
	if len(name) > len(workdir.ProducerName) && name[:len(workdir.ProducerName)+1] == workdir.ProducerName+"/" {
		return name[len(workdir.ProducerName)+1:]
	}
	return name
}
