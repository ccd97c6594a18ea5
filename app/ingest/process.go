package ingest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"mime"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/edge/unpack"
	"github.com/stagepost/stagepost/format/checkm"
)

// ownList lists the files that the job brings, with size and digests, in order of their paths.
const ownList = workdir.ListName + "/own.jsonl"

// process is the step of Processing: it unpacks and checks containers, finds out who the object is, describes it and
// takes the digests.
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
	if t.handed, err = t.submitted(ctx); err != nil {
		return err
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
		// of an earlier attempt: the object may have newer versions by now, and the files must become what they were
		who = was
	} else if err := t.inherit(ctx, who); err != nil {
		return err
	}
	if err := t.keepDescription(ctx, who); err != nil {
		return err
	}
	if err := t.register(ctx, p, who); err != nil {
		return err
	}
	system, err := t.systemFiles(p, who)
	if err != nil {
		return err
	}
	t.data.Identity = who
	if now := who.Texts(t.spec.Filename); !slices.Equal(now, t.spec.Texts()) {
		t.SetWords(now...)
	}
	if err := t.takeDigests(ctx, system); err != nil {
		return err
	}
	return t.handOver(ctx)
}

// processing is process whose list of files is not synced: Storing does that with the version, or makes the list again.
func (t *task) processing(ctx context.Context) error {
	if t.spec.Type == TypeContainer { // the files come in this phase, too
		return t.process(ctx)
	}
	if err := t.dir.Defer(); err != nil {
		return err
	}
	err := t.process(ctx)
	if err == nil {
		t.data.Unsynced, err = t.sumOf(ctx, ownList)
	}
	return err
}

// takeDigests writes the list of the object's files. Digests that were taken while a file was written are not taken
// again: storage compares them once more.
func (t *task) takeDigests(ctx context.Context, system []listed) error {
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
		add := func(f listed, have map[string]arrived) error {
			if err := errors.Join(ctx.Err(), t.digest(ctx, &f, have)); err != nil {
				return err
			}
			files, size = files+1, size+f.Size
			t.Progress(size, max(size, t.data.Size), "bytes")
			return e.Encode(f)
		}
		err := fs.WalkDir(t.dir.FS(), workdir.ProducerName, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			if !info.Mode().IsRegular() {
				return fail(CauseUnsafeName, "%s is no regular file", name)
			}
			return add(listed{File: inventory.File{Path: name, Size: info.Size()}}, have)
		})
		for i := 0; i < len(system) && err == nil; i++ {
			err = add(system[i], nil)
		}
		return err
	})
	t.data.Files, t.data.Size = files, size
	return err
}

// digest completes a file with its digests: those of what came, if it has its name and size, else those of its content.
func (t *task) digest(ctx context.Context, f *listed, have map[string]arrived) error {
	f.MIME = mime.TypeByExtension(path.Ext(f.Path))
	if a, ok := have[trimTop(f.Path)]; ok && a.Size == f.Size {
		f.SHA256, f.SHA512, f.MIME = a.SHA256, a.SHA512, cmp.Or(a.MIME, f.MIME)
		return nil
	}
	in, err := f.open(t.dir)
	if err != nil {
		return err
	}
	defer in.Close()
	short, long := sha256.New(), sha512.New()
	count := tally{w: io.MultiWriter(short, long)}
	if err := workdir.Copy(ctx, &count, in); err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	f.Size = count.n
	f.SHA256, f.SHA512 = hex.EncodeToString(short.Sum(nil)), hex.EncodeToString(long.Sum(nil))
	return nil
}

// tally counts what is written.
type tally struct {
	w io.Writer
	n int64 // bytes
}

func (c *tally) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// trimTop takes producer/ off a path.
func trimTop(name string) string {
	if len(name) > len(workdir.ProducerName) && name[:len(workdir.ProducerName)+1] == workdir.ProducerName+"/" {
		return name[len(workdir.ProducerName)+1:]
	}
	return name
}

// ownManifests are the names of the manifest in a container (profile mrt-object-manifest).
var ownManifests = []string{workdir.ProducerName + "/mrt-manifest.txt", workdir.ProducerName +
	"/mrt-object-manifest.txt"}

// unpack takes the container apart into producer/, all or nothing. A directory that is there is complete.
func (t *task) unpack(ctx context.Context, limits profile.Limits) error {
	if t.dir.Has(workdir.ProducerName) {
		return t.dir.Set().Dir(".") // a process that was killed may not have synced its name
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
	packed := unpack.Archive{Content: f, Size: info.Size(), Name: path.Base(t.spec.Filename)}
	report, err := unpack.Unpack(ctx, packed, t.dir.Root, workdir.ProducerName,
		unpack.Limits{Files: limits.Files, Bytes: limits.Bytes, Names: t.app.names(t.spec.Profile)})
	if err != nil {
		return err
	}
	for table, n := range map[string]int{"code page 437": report.CP437, "ISO-8859-1": report.Latin1} {
		if n > 0 {
			t.warn("%s in the container not in UTF-8 and read as %s.", plural(n, "name is", "names are"), table)
		}
	}
	if report.Links > 0 {
		t.warn("%s.", plural(report.Links, "link of the container is stored as a copy of its file",
			"links of the container are stored as copies of their files"))
	}
	if report.Files == 0 {
		return errors.Join(fail(CauseEmptyManifest, "the container holds no file"),
			t.dir.RemoveAll(workdir.ProducerName))
	}
	t.Log().Info("unpacked", "files", report.Files, "bytes", report.Bytes)
	return nil
}

// openPackage opens the container: what was fetched, or the batch's payload.
func (t *task) openPackage() (*os.File, error) {
	if t.spec.URL == "" {
		return t.app.openPart(t.Job().Parent, t.spec.Part, t.spec.Size)
	}
	name, err := t.fileName()
	if err != nil {
		return nil, err
	}
	return t.dir.Open(path.Join(workdir.PackageName, name))
}

// crossCheck holds the container's own manifest, if it has one, against its files: none is missing, none is there that
// it does not name, and all match their sizes and digests.
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

// crossCheckFile compares a file with its row. A size that is wrong where the digest is right is a warning, unless the
// profile is strict.
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
		return fail(CauseMismatch, "%s: its %s is %s, the container's manifest says %s", name, row.Digest.Algorithm,
			hex.EncodeToString(sum), row.Digest.Value)
	}
	if row.Size >= 0 && info.Size() != row.Size {
		t.warn(otherSize, name, info.Size(), row.Size)
	}
	return nil
}

// alreadyStored is the message of a job whose object was there already.
const alreadyStored = "already stored as version %d: nothing changed since"

// unchanged gives the newest version of the object if it is what the job brings: the same files of the depositor, and
// the same description. Then no version is added, so that a submission that is sent again does not make a second one.
// The version must be recorded and be the newest in every storage location. An update always adds a version, and so
// does a job that has begun to. It is nil if the job brings something new.
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

// counts reports whether a file is content of the object: all that the depositor submitted, and the description. The
// others are about its ingest.
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

// conclude puts into the message of a job that completes what its depositor would not expect.
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
