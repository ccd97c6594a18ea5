package ingest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/internal/durable"
)

// fetchedList has a line for each file that came, in the order in which they came. It is only ever added to and may end
// in half a line.
const fetchedList = workdir.ListName + "/fetched.jsonl"

// arrived is a file that was fetched: its digests are those of the bytes that were written.
type arrived struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	SHA512 string `json:"sha512"`
	MIME   string `json:"mime,omitempty"`
}

// download is the step of Downloading: it fetches the files, some at once. A second attempt keeps complete files, which
// it reads again to be sure, and goes on with half ones. The list of what came is there before the first file, so
// without it there is none.
func (t *task) download(ctx context.Context) error {
	p, err := t.app.profile(t.spec.Profile)
	if err != nil {
		return err
	}
	if err := t.placePayload(); err != nil {
		return err
	}
	have, err := t.fetched()
	if err != nil {
		return err
	}
	log, err := t.openFetched(have)
	if err != nil {
		return err
	}
	d := &downloads{task: t, profile: p, have: have, log: log, made: map[string]bool{}}
	err = each(ctx, t.app.options.Downloads, t.wanted(), d.one)
	if err = errors.Join(err, t.flushLog(log)); err != nil {
		return err
	}
	if t.Job().State == record.Downloading { // else refill has synced the manifest
		if err := t.adopt(manifestFile); err != nil {
			return err
		}
	}
	if err := t.app.tree.Sync(t.Job().Parent, t.dir); err != nil {
		return err
	}
	t.data.Unsynced = ""
	t.data.Size = max(t.data.Size, d.total.Load())
	t.app.reserved.spend(t.Job().ID, space(p, t.spec.Type, t.data.Size)-t.data.Size)
	return t.dir.RemoveAll(workdir.PartsName)
}

// flushLog gives the list to the set of what is synced at the end.
func (t *task) flushLog(log *os.File) error {
	info, err := log.Stat()
	if err != nil {
		return errors.Join(err, log.Close())
	}
	return t.dir.Set().File(log, info.Size())
}

// downloads is one run of the step.
type downloads struct {
	*task
	profile *profile.Profile
	have    map[string]arrived
	total   atomic.Int64

	mu   sync.Mutex // guards the rest, and the warnings
	log  *os.File
	made map[string]bool // directories
}

// mkdir makes a directory, if no other file of this run is in it.
func (d *downloads) mkdir(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made[dir] {
		return nil
	}
	_, err := d.dir.Make(dir)
	d.made[dir] = err == nil
	return err
}

// one fetches a file.
func (d *downloads) one(ctx context.Context, w wanted) error {
	target := path.Join(d.folder(), w.name)
	if err := d.mkdir(path.Dir(target)); err != nil {
		return err
	}
	want := fetch.Want{Algorithm: w.digest.Type, Digest: w.digest.Value, Size: w.size, MaxBytes: d.profile.Limits.Bytes,
		Scratch: workdir.PartsName, Set: d.dir.Set(), New: d.have == nil}
	old, known := d.have[w.name]
	if known && w.digest.Type == "" { // the manifest gives no digest: what came is the promise
		want.Algorithm, want.Digest, want.Size = "sha256", old.SHA256, old.Size
	}
	last := int64(0)
	want.Progress = func(have, _ int64) {
		d.Progress(d.total.Add(have-last), d.data.Size, "bytes")
		last = have
	}
	got, err := d.app.fetch(ctx, d.profile, w.url, d.dir.Root, target, want)
	if err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	if want.Size >= 0 && got.Size != want.Size {
		d.mu.Lock()
		d.warn(otherSize, w.name, got.Size, want.Size)
		d.mu.Unlock()
	}
	d.app.moved(Fetched, got.Size-got.Resumed)
	if sum := d.total.Add(got.Size - last); sum > d.profile.Limits.Bytes {
		return fail(CauseTooLarge, "its files have more than the %d bytes that profile %s allows",
			d.profile.Limits.Bytes, d.profile.ID)
	}
	d.Progress(d.total.Load(), d.data.Size, "bytes")
	if known && old.SHA512 == got.SHA512 {
		return nil
	}
	a := arrived{Name: w.name, Size: got.Size, SHA256: got.SHA256, SHA512: got.SHA512, MIME: w.mime}
	if a.MIME == "" {
		a.MIME = got.ContentType
	}
	return d.note(a)
}

// fetch downloads a file. A size that is wrong where the digest is right is accepted, unless the profile is strict; the
// caller warns of it.
func (a *App) fetch(ctx context.Context, p *profile.Profile, from string, root *os.Root, name string,
	want fetch.Want) (fetch.Got, error) {
	got, err := a.client(p).Download(ctx, from, root, name, want)
	var f *fetch.Error
	if p.Strict || want.Digest == "" || !errors.As(err, &f) || f.Kind != fetch.BadSize {
		return got, err
	}
	want.Size = fetch.UnknownSize
	got, again := a.client(p).Download(ctx, from, root, name, want)
	if errors.As(again, &f) && f.Kind == fetch.BadDigest {
		return got, err // neither is right
	}
	return got, again
}

// note adds a line to the list.
func (d *downloads) note(a arrived) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err = d.log.Write(append(text, '\n'))
	return err
}

// folder is where fetched files go: a container beside the object, everything else into it.
func (t *task) folder() string {
	if t.spec.Type == TypeContainer {
		return workdir.PackageName
	}
	return workdir.ProducerName
}

// placePayload puts an uploaded file into the object. A container is read where it lies.
func (t *task) placePayload() error {
	if t.spec.Type != TypeContainer {
		if _, err := t.dir.Make(workdir.ProducerName); err != nil {
			return err
		}
	}
	if t.spec.Type != TypeFile || t.spec.URL != "" {
		return nil
	}
	name, err := t.fileName()
	if err != nil {
		return err
	}
	target := path.Join(workdir.ProducerName, name)
	if _, err := t.dir.Make(path.Dir(target)); err != nil {
		return err
	}
	root, err := t.app.tree.Batch(t.Job().Parent)
	if err != nil {
		return err
	}
	defer root.Close()
	inBatch := path.Join(string(t.Job().ID), target)
	if err := root.Link(workdir.PartName(t.spec.Part), inBatch); err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	from, err := root.Open(workdir.PartName(t.spec.Part)) // a file system without links
	if err != nil {
		return err
	}
	defer from.Close()
	// Synced before it has its name, which the next attempt trusts.
	return workdir.PutFile(t.dir.Root, target, func(w io.Writer) error {
		_, err := io.Copy(w, from)
		return err
	})
}

// fetched reads the list of an earlier attempt. The half line of one that was killed is left out. It is nil if there is
// no list.
func (t *task) fetched() (map[string]arrived, error) {
	f, err := t.dir.Open(fetchedList)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := map[string]arrived{}
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var a arrived
		if json.Unmarshal(in.Bytes(), &a) == nil && len(a.SHA512) == 128 && len(a.SHA256) == 64 {
			all[a.Name] = a
		}
	}
	return all, in.Err()
}

// openFetched makes the list, or writes it again without what does not count, and opens it for more.
func (t *task) openFetched(have map[string]arrived) (*os.File, error) {
	const more = os.O_WRONLY | os.O_APPEND | durable.Plain
	if have == nil {
		if _, err := t.dir.Make(workdir.ListName); err != nil {
			return nil, err
		}
		f, err := t.dir.OpenFile(fetchedList, more|os.O_CREATE, 0o640)
		if err != nil {
			return nil, err
		}
		return f, t.dir.Set().Dir(workdir.ListName)
	}
	err := t.dir.Put(fetchedList, func(w io.Writer) error {
		e := json.NewEncoder(w)
		for _, a := range have {
			if err := e.Encode(a); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return t.dir.OpenFile(fetchedList, more, 0o640)
}

// enough is the number of failed files after which the rest of an object is not tried.
const enough = 5

// each calls do for every item, n at once. It goes on after failures, so that as much as possible is done when the job
// is sent back, but stops after enough of them. The error is that of the first item, in order, that failed permanently;
// else of the first that failed.
func each[T any](ctx context.Context, n int, items iter.Seq2[T, error], do func(context.Context, T) error) error {
	type failure struct {
		nth int
		err error
	}
	var (
		mu       sync.Mutex // guards failures
		failures []failure
		g        errgroup.Group
	)
	failed := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(failures)
	}
	g.SetLimit(n)
	nth := 0
	for item, err := range items {
		if err != nil {
			_ = g.Wait()
			return err
		}
		if ctx.Err() != nil || failed() >= enough {
			break
		}
		k := nth
		nth++
		g.Go(func() error {
			if err := named(do(ctx, item)); err != nil {
				mu.Lock()
				failures = append(failures, failure{k, err})
				mu.Unlock()
			}
			return nil
		})
	}
	_ = g.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(failures) == 0 {
		return nil
	}
	slices.SortFunc(failures, func(a, b failure) int { return cmp.Compare(a.nth, b.nth) })
	for _, f := range failures {
		if final(f.err) {
			return f.err
		}
	}
	return failures[0].err
}
