package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/format/bagit"
	"github.com/stagepost/stagepost/format/pack"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// Names in the directory of a job.
const (
	planName  = "plan"       // whole or not there
	newSuffix = ".new"       // of a plan that an attempt is at
	aboutName = "about.json" // in a plan: what the job found out
	tagsName  = "tags"       // in a plan: the tag files of a bag
)

// maxDamaged is how many damaged files a record names.
const maxDamaged = 50

// data is what the job finds out.
type data struct {
	Size     int64     `json:"size"`     // of the package
	Digest   string    `json:"digest"`   // of all that its bytes follow from
	Files    int       `json:"files"`    // of the content
	Bytes    int64     `json:"bytes"`    // of the content
	Modified time.Time `json:"modified"` // when the version was made
	Damaged  []string  `json:"damaged,omitempty"`
	More     int       `json:"more_damaged,omitempty"` // that are not named
}

// task is one attempt.
type task struct {
	*engine.Run
	app    *App
	spec   *spec
	format format
	dir    *os.Root // of the plan that this attempt makes
	plan   *pack.Planner
	bag    *bagit.Writer // nil if it is to be none
	places []*copyAt
	buffer []byte
	read   int64 // bytes of content so far
	data   data
}

// assemble is the step of Processing: it reads every file once and leaves a plan.
func (a *App) assemble(ctx context.Context, r *engine.Run) error {
	j := r.Job()
	s, err := specOf(&j)
	if err != nil {
		return err
	}
	home := string(j.ID)
	if err := a.root.MkdirAll(home, 0o750); err != nil {
		return err
	}
	dir, err := a.root.OpenRoot(home)
	if err != nil {
		return err
	}
	defer dir.Close()
	found, err := readAbout(dir)
	if errors.Is(err, fs.ErrNotExist) {
		t := &task{Run: r, app: a, spec: s, format: formats[s.Format], buffer: make([]byte, 256<<10)}
		if err = t.make(ctx, dir); err == nil {
			found, err = readAbout(dir)
		}
	}
	if err == nil { // an attempt that was killed may have got as far as to give the plan its name
		err = errors.Join(durable.SyncIn(dir, "."), durable.SyncIn(a.root, "."))
	}
	if err != nil {
		return err
	}
	if n := len(found.Damaged) + found.More; n > 0 {
		r.SetMessage(fmt.Sprintf("ready; %d damaged or missing files were taken from another storage location, "+
			"among them %s", n, found.Damaged[0]))
	} else {
		r.SetMessage("ready")
	}
	r.SetBytes(found.Bytes)
	return r.SetData(found)
}

// readAbout reads what an attempt that came to its end found out; fs.ErrNotExist if none did.
func readAbout(home *os.Root) (*data, error) {
	text, err := home.ReadFile(path.Join(planName, aboutName))
	if err != nil {
		return nil, err
	}
	var d data
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("%s: %w", aboutName, err)
	}
	return &d, nil
}

// make makes the plan in a directory of this attempt's own and gives it its name when it is whole and on disk; the
// caller brings the name there. If another attempt was faster, its plan stands: it is the same.
func (t *task) make(ctx context.Context, home *os.Root) (err error) {
	name := fmt.Sprintf("%s-e%d%s", planName, t.Job().Epoch, newSuffix)
	if err := home.RemoveAll(name); err != nil {
		return err
	}
	if err := home.Mkdir(name, 0o750); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, home.RemoveAll(name)) }()
	if t.dir, err = home.OpenRoot(name); err != nil {
		return err
	}
	defer t.dir.Close()
	if err := t.pack(ctx); err != nil {
		return err
	}
	text, err := json.Marshal(t.data)
	if err != nil {
		return err
	}
	if err := writeSynced(t.dir, aboutName, text); err != nil {
		return err
	}
	if err := durable.SyncIn(t.dir, "."); err != nil {
		return err
	}
	if err := home.Rename(name, planName); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// pack plans the package file by file.
func (t *task) pack(ctx context.Context) (err error) {
	v, err := t.version(ctx)
	if err != nil {
		return err
	}
	if why := t.app.tooLarge(t.spec); why != "" {
		return engine.Fail(ingest.CauseTooLarge, errors.New(why))
	}
	for _, p := range v.Places {
		t.places = append(t.places, &copyAt{Place: p})
	}
	t.data.Modified = v.Created
	if t.plan, err = pack.Create(t.dir, t.format.pack); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.plan.Abandon()) }()
	if t.format.bag {
		if err := t.beginBag(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, t.bag.Abandon()) }()
	}
	err = t.app.each(ctx, t.spec.ARK, t.spec.Version, t.spec.Files,
		func(f *ingest.StoredFile) error { return t.add(ctx, f) })
	if err != nil {
		return err
	}
	if t.data.Files != t.spec.Count {
		return engine.Fail(ingest.CauseNotFound,
			fmt.Errorf("%d files of version %d of %s are there, %d were asked for: it was changed",
				t.data.Files, t.spec.Version, t.spec.ARK, t.spec.Count))
	}
	if t.format.bag {
		if err := t.endBag(); err != nil {
			return err
		}
	}
	summary, err := t.plan.Close()
	t.data.Size, t.data.Digest = summary.Size, summary.Digest
	return err
}

// version finds the version again: it may have gone since it was asked for.
func (t *task) version(ctx context.Context) (*ingest.Version, error) {
	all, err := t.app.options.Holdings.Objects(ctx, ingest.ObjectQuery{ARK: t.spec.ARK, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(all) == 1 {
		if v := version(&all[0], t.spec.Version); v != nil {
			return v, nil
		}
	}
	return nil, engine.Fail(ingest.CauseNotFound,
		fmt.Errorf("version %d of %s is not stored any more", t.spec.Version, t.spec.ARK))
}

// add reads one file and plans its entry.
func (t *task) add(ctx context.Context, f *ingest.StoredFile) error {
	from, crc, err := t.whole(ctx, f)
	if err != nil {
		return err
	}
	name := path.Join(t.spec.Name, f.Path)
	if t.bag != nil {
		name = path.Join(t.spec.Name, "data", f.Path)
		if err := t.bag.Add(f.Path, f.Size, f.SHA512, f.SHA256); err != nil {
			return engine.Fail(ingest.CauseUnsafeName, err)
		}
	}
	err = t.plan.Add(pack.Entry{
		Name: name, Size: f.Size, CRC32: crc, Digest: f.SHA512, Mode: 0o644, Modified: t.data.Modified,
		Source: from.String(),
	})
	if errors.Is(err, pack.ErrEntry) {
		return engine.Fail(ingest.CauseUnsafeName, err)
	}
	t.data.Files++
	t.data.Bytes += f.Size
	return err
}

// writeSynced writes a file that is on disk when it returns.
func writeSynced(dir *os.Root, name string, text []byte) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// damaged notes a file that was read from another storage location.
func (t *task) damaged(f *ingest.StoredFile, faults []*fault) {
	for _, one := range faults {
		t.Log().Warn("damaged in storage", "file", f.Path, "place", one.place, "cause", one.cause, "error",
			one.err.Error())
	}
	if len(t.data.Damaged) < maxDamaged {
		t.data.Damaged = append(t.data.Damaged, fmt.Sprintf("%s (%s in %s)", f.Path, faults[0].cause, faults[0].place))
	} else {
		t.data.More++
	}
}

// progressEvery is the number of bytes after which progress is reported.
const progressEvery = 8 << 20

// counted reports how much was read.
func (t *task) counted(n int) {
	if before := t.read; (before+int64(n))/progressEvery != before/progressEvery || before == 0 {
		t.Progress(before+int64(n), t.spec.Bytes, "bytes")
	}
	t.read += int64(n)
}

// source is where the content of an entry lies: a file of a storage location, or a tag file in the plan.
type source struct {
	Place string `json:"place,omitempty"`
	Path  string `json:"path,omitempty"`
	Tag   string `json:"tag,omitempty"`
}

func (s source) String() string {
	text, _ := json.Marshal(s) // plain fields: cannot fail
	return string(text)
}

func parseSource(text string) (source, error) {
	var s source
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, job.Errorf(job.Internal, "access", "", "source %q: %w", text, err)
	}
	return s, nil
}

// copyTo copies until the end, or until ctx ends.
func (t *task) copyTo(ctx context.Context, w io.Writer, r io.Reader) (n int64, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		k, err := r.Read(t.buffer)
		if k > 0 {
			if _, err := w.Write(t.buffer[:k]); err != nil {
				return n, err
			}
			n += int64(k)
			t.counted(k)
		}
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
