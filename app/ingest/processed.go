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
	"hash"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/edge/safename"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/format/checkm"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Processed is what peers left of a job that they have processed, so that Storing continues with it here.
type Processed struct {
	ARK                  string
	LocalIDs             []string
	Title, Creator, Date string
	Update               bool
	Delete               string // of an update: files that it takes out of the object, each with a line end

	Open func() (*os.Root, error) // opens the directory of the files and of their manifest, processedManifest
	Wait job.Blocker              // of a job that is left to the peers; it has no sentence
}

// processedManifest lists all files of an object that peers have processed, with their digests. It is an
// mrt-add-manifest whose names are paths of the directory that it is in.
const processedManifest = workdir.SystemName + "/mrt-manifest.txt"

// findProcessed finds out whether peers have processed the job, and completes the specification by what they found out.
func (t *task) findProcessed(ctx context.Context) error {
	peers, state := t.app.options.Peers, t.Job().State
	if peers == nil || state != record.Storing && state != record.Recording {
		return nil
	}
	left, err := peers.Processed(ctx, t.Job().ID, t.data.Taken)
	if left == nil || err != nil {
		return err
	}
	t.left = left
	s := &t.spec
	s.PrimaryID, s.Update = cmp.Or(left.ARK, s.PrimaryID), left.Update
	s.Title, s.Creator, s.Date = cmp.Or(s.Title, left.Title), cmp.Or(s.Creator, left.Creator), cmp.Or(s.Date, left.Date)
	for _, id := range left.LocalIDs {
		if !slices.Contains(s.LocalIDs, id) {
			s.LocalIDs = append(slices.Clone(s.LocalIDs), id)
		}
	}
	return nil
}

// untaken reports whether the working files are not yet those of a job that peers have processed.
func (t *task) untaken() bool { return t.left != nil && !t.data.Taken }

// openProcessed opens the directory that peers left. Without it the job begins again with its payload (nil), or is left
// to the peers if the payload is not here.
func (t *task) openProcessed(ctx context.Context) (*os.Root, error) {
	wait := func(sentence string) (*os.Root, error) {
		b := t.left.Wait
		b.Sentence, b.Since, b.Until = sentence, t.Now(), t.Now().Add(6*t.app.peersPause())
		return nil, engine.Wait(b)
	}
	if t.left.ARK == "" {
		return wait("the system that processed it names no object")
	}
	if t.left.Update { // a version that is stored here would lack the files of those that are stored there
		known, err := t.app.Objects(ctx, ObjectQuery{ARK: t.left.ARK})
		if err != nil {
			return nil, err
		}
		if len(known) == 0 {
			return wait(fmt.Sprintf("it updates %s, which is stored in the system that processed it, and not here",
				t.left.ARK))
		}
	}
	root, err := t.left.Open()
	if err == nil {
		if _, err = root.Lstat(processedManifest); err == nil {
			return root, nil
		}
		err = errors.Join(err, root.Close())
	}
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case t.spec.URL != "":
		return nil, nil
	case t.spec.Size >= 0:
		if f, err := t.app.openPart(t.Job().Parent, t.spec.Part, t.spec.Size); err == nil {
			return nil, f.Close()
		}
	}
	return wait("the files of its processing are not in the directory that this server reads")
}

// processedRows reads the manifest that peers left.
func processedRows(root *os.Root) iter.Seq2[checkm.Row, error] {
	return func(yield func(checkm.Row, error) bool) {
		f, err := openPlain(root, processedManifest)
		if err != nil {
			yield(checkm.Row{}, err)
			return
		}
		defer f.Close()
		for row, err := range rows(f, path.Base(processedManifest), checkm.Add, false, nil) {
			var bad *checkm.Error
			if errors.As(err, &bad) && bad.Err == nil { // no fault of what was handed in: a retry reads it again
				err = fail(CauseMismatch, "the manifest of its processing: %w", err)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// openPlain opens a file of a directory that others write. A link or a device is an error.
func openPlain(root *os.Root, name string) (*os.File, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fail(CauseUnsafeName, "%s is no regular file", name)
	}
	return root.OpenFile(name, os.O_RDONLY|durable.Plain, 0)
}

// processedSize is how many bytes the files have that peers left.
func processedSize(root *os.Root) (size int64, err error) {
	for row, err := range processedRows(root) {
		if err != nil {
			return 0, err
		}
		size = plus(size, max(row.Size, 0))
	}
	return size, nil
}

// refillProcessed makes the working files of a job that peers have processed: those that they left, or those of its
// payload, from which the job begins again under the identifier that they found. What the directory has is removed
// first: files of an earlier phase, or of an attempt that was interrupted.
func (t *task) refillProcessed(ctx context.Context, state lifecycle.State) error {
	p, err := t.app.profile(t.spec.Profile)
	if err != nil {
		return err
	}
	from, err := t.openProcessed(ctx)
	if err != nil {
		return err
	}
	bring := t.beginAgain
	if from != nil {
		defer from.Close()
		size, err := processedSize(from)
		if err != nil {
			return err
		}
		t.data.Space = space(p, TypeFile, size)
		bring = func(ctx context.Context) error { return t.takeProcessed(ctx, p, from) }
	}
	t.data.Refilling = true
	if err := errors.Join(t.SetData(t.data), t.Save(ctx)); err != nil {
		return err
	}
	j := t.Job()
	if b := t.app.reserved.promise(ctx, &j, t.data.Space); b != nil {
		return engine.Wait(*b)
	}
	for _, name := range []string{workdir.ProducerName, workdir.SystemName, workdir.PackageName, workdir.ListName,
		workdir.PartsName} {
		if err := t.dir.RemoveAll(name); err != nil {
			return err
		}
	}
	t.Log().Info("another system has processed it", "ark", t.left.ARK, "files_taken", from != nil)
	if err := bring(ctx); err != nil {
		return err
	}
	if err := t.reprocess(ctx, state); err != nil {
		return err
	}
	t.data.Refilling, t.data.Taken = false, true
	return t.dir.Flush()
}

// beginAgain makes the working files of the payload.
func (t *task) beginAgain(ctx context.Context) error {
	if t.spec.Type == TypeObjectManifest {
		if err := t.bringManifest(ctx, nil); err != nil {
			return err
		}
	}
	return t.download(ctx)
}

// takeProcessed copies the files that peers left, and compares each with its digest.
func (t *task) takeProcessed(ctx context.Context, p *profile.Profile, from *os.Root) error {
	if _, err := t.dir.Make(workdir.ProducerName); err != nil {
		return err
	}
	log, err := t.openFetched(nil)
	if err != nil {
		return err
	}
	taken := &taking{task: t, from: from, list: json.NewEncoder(log), names: safename.Set{Rules: p.Names.Rules()}}
	err = taken.all(ctx, p)
	if err = errors.Join(err, t.flushLog(log)); err != nil {
		return err
	}
	deletes := workdir.ProducerName + "/" + record.DeleteName
	if t.spec.Update && t.left.Delete != "" && !t.dir.Has(deletes) {
		err := t.dir.Put(deletes, func(w io.Writer) error { _, err := io.WriteString(w, t.left.Delete); return err })
		if err != nil {
			return err
		}
	}
	t.data.Size, t.data.Unsynced = taken.bytes, ""
	t.app.reserved.spend(t.Job().ID, t.data.Space-t.data.Size)
	return t.app.tree.Sync(t.Job().Parent, t.dir)
}

// taking is one run of takeProcessed.
type taking struct {
	*task
	from  *os.Root
	list  *json.Encoder // of the files of the depositor
	names safename.Set
	files int
	bytes int64
}

// all copies all files of the manifest.
func (c *taking) all(ctx context.Context, p *profile.Profile) error {
	for row, err := range processedRows(c.from) {
		if err != nil {
			return err
		}
		a, err := c.one(ctx, row)
		if err != nil {
			return err
		}
		c.files, c.bytes = c.files+1, c.bytes+a.Size
		if c.files > p.Limits.Files || c.bytes > p.Limits.Bytes {
			return fail(CauseTooLarge, "it has more than the %d files or %d bytes that profile %s allows",
				p.Limits.Files, p.Limits.Bytes, p.ID)
		}
		c.Progress(c.bytes, max(c.bytes, c.data.Space), "bytes")
		if strings.HasPrefix(row.FileName, workdir.ProducerName+"/") {
			if err := c.list.Encode(a); err != nil {
				return err
			}
		}
	}
	if c.files == 0 {
		return errNoFile()
	}
	return nil
}

// one copies a file.
func (c *taking) one(ctx context.Context, row checkm.Row) (a arrived, err error) {
	name, err := c.names.AddFile(row.FileName)
	if err != nil {
		return a, fmt.Errorf("line %d: %w", row.Line, err)
	}
	top, _, _ := strings.Cut(name, "/")
	if top == name || top != workdir.ProducerName && top != workdir.SystemName {
		return a, fail(CauseUnsafeName, "%s is neither in %s nor in %s", name, workdir.ProducerName, workdir.SystemName)
	}
	if row.Digest.IsZero() {
		return a, fail(CauseBadDigest, "%s has no digest in the manifest of its processing", name)
	}
	sum, err := checkm.NewHash(row.Digest.Algorithm)
	if err != nil {
		return a, fail(CauseBadDigest, "%s: %w", name, err)
	}
	f, err := openPlain(c.from, row.FileName)
	if errors.Is(err, fs.ErrNotExist) {
		return a, fail(CauseMismatch, "%s is in the manifest of its processing and does not exist", name)
	}
	if err != nil {
		return a, err
	}
	defer f.Close()
	a = arrived{Name: trimTop(name), MIME: row.MIMEType}
	short, long := sha256.New(), sha512.New()
	err = c.dir.Put(name, func(w io.Writer) error {
		count := tally{w: io.MultiWriter(w, sum, short, long)}
		if err := workdir.Copy(ctx, &count, f); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		a.Size = count.n
		return sameAsListed(name, row, count.n, sum)
	})
	a.SHA256, a.SHA512 = hex.EncodeToString(short.Sum(nil)), hex.EncodeToString(long.Sum(nil))
	return a, err
}

// sameAsListed compares a file with its row.
func sameAsListed(name string, row checkm.Row, size int64, sum hash.Hash) error {
	if got := sum.Sum(nil); !row.Digest.Matches(got) {
		return fail(CauseBadDigest, "%s: its %s is %s, the manifest of its processing has %s", name,
			row.Digest.Algorithm, hex.EncodeToString(got), row.Digest.Value)
	}
	if row.Size >= 0 && size != row.Size {
		return fail(CauseBadSize, "%s has %d bytes, the manifest of its processing has %d", name, size, row.Size)
	}
	return nil
}

// withTaken replaces the files that Stagepost adds to an object by those that peers have added, if the work directory
// has such, in order of the paths.
func (t *task) withTaken(files []listed) ([]listed, error) {
	if t.left == nil || !t.dir.Has(workdir.SystemName) {
		return files, nil
	}
	err := fs.WalkDir(t.dir.FS(), workdir.SystemName, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files = slices.DeleteFunc(files, func(f listed) bool { return f.Path == name })
		files = append(files, listed{File: inventory.File{Path: name}})
		return nil
	})
	slices.SortFunc(files, func(a, b listed) int { return cmp.Compare(a.Path, b.Path) })
	return files, err
}
