package pdf

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Settings configure the jobs. Zero fields have the defaults.
type Settings struct {
	Wait time.Duration // until a file is printed, the time without a worker included; defaults to 24 h; job.Unlimited
	Keep time.Duration // of ended jobs with their files; defaults to 7 d; job.Unlimited

	Ordered func() // called after each order; defaults to none
}

// App orders PDF files. Its directory has the files of the jobs:
//
//	PARENT/NAME/source.html   the document
//	PARENT/NAME/SHA256.pdf    what a worker printed; only the digest in the record counts
type App struct {
	root     *os.Root
	settings Settings
	engine   *engine.Engine
}

// Open makes the application with a directory, which it creates if there is none.
func Open(dir string, s Settings) (*App, error) {
	if err := durable.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	s.Wait, s.Keep = max(cmp.Or(s.Wait, 24*time.Hour), 0), max(cmp.Or(s.Keep, 7*24*time.Hour), 0)
	return &App{root: root, settings: s}, nil
}

// Close closes the directory.
func (a *App) Close() error { return a.root.Close() }

// Bind connects the application to the engine of its jobs.
func (a *App) Bind(e *engine.Engine) { a.engine = e }

// Works gives the kind: workers outside the server do the work.
func (a *App) Works() []engine.Work {
	return []engine.Work{{
		Life: Life, Prefix: prefix, Outside: true, Keep: a.settings.Keep, Owes: a.owes,
		Policies: map[lifecycle.State]engine.Policy{Rendering: {Timeout: a.settings.Wait, MaxAttempts: attempts}},
	}}
}

// Spec is the spec of a job.
type Spec struct {
	For    job.ID `json:"for"`    // the archive job
	File   string `json:"file"`   // name of the document in the archive
	Folder string `json:"folder"` // of the files of this job
	SHA256 string `json:"sha256"` // of the document
	Size   int64  `json:"size"`
	Page   Page   `json:"page"`
}

// Result is the data of a job in state Rendered.
type Result struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

const (
	prefix   = "pdf" // of ids
	attempts = 3

	sourceName  = "source.html"
	maxDocument = 256 << 20 // bytes
	maxResult   = 2 << 30   // bytes
)

// rules of what becomes a part of a path.
var (
	idRule     = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)
	folderRule = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}/[0-9a-f]{64}$`)
	digestRule = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Order orders the PDF file of a document. The key follows from the archive job, the name and content of the document
// and the page: a repetition gives the same job, another content another one. Errors: Invalid, Unavailable.
func (a *App) Order(
	ctx context.Context, parent job.ID, owner, file string, p Page, document io.Reader,
) (job.Job, error) {
	if err := p.Check(); err != nil || !idRule.MatchString(string(parent)) {
		return job.Job{}, job.Errorf(job.Invalid, "pdf", parent, "%w", cmp.Or(err, errors.New("it has no valid id")))
	}
	if a.engine == nil {
		return job.Job{}, job.Errorf(job.Unavailable, "pdf", parent, "the engine does not run yet")
	}
	text, err := io.ReadAll(io.LimitReader(document, maxDocument+1))
	if err != nil {
		return job.Job{}, err
	}
	if len(text) > maxDocument {
		return job.Job{}, job.Errorf(job.Invalid, "pdf", parent, "%s has more than %d bytes", file, maxDocument)
	}
	s := Spec{For: parent, File: file, SHA256: digest(text), Size: int64(len(text)), Page: p}
	key, err := json.Marshal(s)
	if err != nil {
		return job.Job{}, err
	}
	s.Folder = path.Join(string(parent), digest(key))
	if err := a.root.MkdirAll(s.Folder, 0o750); err != nil {
		return job.Job{}, err
	}
	if err := durable.SyncIn(a.root, string(parent)); err != nil {
		return job.Job{}, err
	}
	name := path.Join(s.Folder, sourceName) // a file is there in full length or not at all
	if have, err := a.root.Stat(name); err != nil || have.Size() != s.Size {
		if err := durable.ReplaceIn(a.root, name, text); err != nil {
			return job.Job{}, err
		}
	}
	j, err := a.engine.Submit(ctx, engine.Order{
		Kind: Kind, Owner: owner, Key: keyOf(s.Folder), Spec: s, Bytes: s.Size, By: lifecycle.Engine,
		Note: "PDF file of " + file,
	})
	if err == nil && a.settings.Ordered != nil {
		a.settings.Ordered()
	}
	return j, err
}

// Print orders the PDF file of a document of a job, waits for it and writes it to out. A repetition does not print it
// again. Errors: *Error for a document that is not printed, as that of [Renderer.Render]; those of Order and Result.
func (a *App) Print(ctx context.Context, parent job.ID, p Page, document io.Reader, out io.Writer) error {
	j, err := a.Order(ctx, parent, "", p.Title, p, document)
	if err != nil {
		return err
	}
	if j, err = a.engine.Await(ctx, j.ID, func(j *job.Job) bool { return j.Ended }); err != nil {
		return err
	}
	if j.State != Rendered {
		return failed(cmp.Or(j.Cause, CauseRender), fmt.Errorf("the job %s is %s: %s", j.ID, j.State, j.Message))
	}
	from, _, err := a.Result(&j)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from)
	return errors.Join(err, from.Close())
}

// Result opens the PDF file of a job in state Rendered. Errors: NotFound.
func (a *App) Result(j *job.Job) (io.ReadCloser, Result, error) {
	var s Spec
	var r Result
	err := json.Unmarshal(j.Spec, &s)
	if err == nil && j.State == Rendered {
		err = json.Unmarshal(j.Data, &r)
	}
	if err != nil || j.State != Rendered || !folderRule.MatchString(s.Folder) || !digestRule.MatchString(r.SHA256) {
		return nil, r, job.Errorf(job.NotFound, "pdf", j.ID, "it has no PDF file")
	}
	f, err := a.root.Open(resultOf(&s, r.SHA256))
	if errors.Is(err, fs.ErrNotExist) {
		err = job.Errorf(job.NotFound, "pdf", j.ID, "its PDF file is removed")
	}
	return f, r, err
}

// Remove cancels the jobs of another job that are not printed yet, and removes the files of all its jobs. A repetition
// does nothing. Order makes the folder of a job before the job, so each open job has one.
func (a *App) Remove(ctx context.Context, parent job.ID) error {
	if !idRule.MatchString(string(parent)) {
		return job.Errorf(job.Invalid, "pdf", parent, "it has no valid id")
	}
	folders, err := fs.ReadDir(a.root.FS(), string(parent))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, f := range folders {
		if err := a.cancel(ctx, keyOf(path.Join(string(parent), f.Name()))); err != nil {
			return err
		}
	}
	return a.root.RemoveAll(string(parent))
}

// cancel cancels the job with a key, unless it has ended or does not exist.
func (a *App) cancel(ctx context.Context, key string) error {
	if a.engine == nil {
		return job.Errorf(job.Unavailable, "pdf", "", "the engine does not run yet")
	}
	page, err := a.engine.Store().List(ctx, job.Query{Kinds: []job.Kind{Kind}, Key: key, Limit: 1})
	if err != nil || len(page.Jobs) == 0 || page.Jobs[0].Ended {
		return err
	}
	id := page.Jobs[0].ID
	_, err = a.engine.Do(ctx, operator.Act{
		Job: id, Event: Cancel, By: lifecycle.Engine, Actor: string(Kind), Note: "the job that ordered the file ended",
	})
	if job.KindOf(err) == job.Refused { // it ended meanwhile
		if j, again := a.engine.Store().Get(ctx, id); again == nil && j.Ended {
			return nil
		}
	}
	return err
}

func keyOf(folder string) string { return "pdf/" + folder }

// Clear removes the files of a job before its record is purged.
func (a *App) Clear(_ context.Context, j *job.Job) error {
	var s Spec
	if j.Kind != Kind || json.Unmarshal(j.Spec, &s) != nil || !folderRule.MatchString(s.Folder) {
		return nil
	}
	return a.root.RemoveAll(s.Folder)
}

// owes refuses a success without the file that the worker reports: the digest is computed again.
func (a *App) owes(_ context.Context, j *job.Job, c *job.Change) error {
	var s Spec
	var r Result
	data := j.Data
	if len(c.Set.Data) > 0 {
		data = c.Set.Data
	}
	err := errors.Join(json.Unmarshal(j.Spec, &s), json.Unmarshal(data, &r))
	if err != nil || !folderRule.MatchString(s.Folder) || !digestRule.MatchString(r.SHA256) {
		return job.Errorf(job.Refused, "pdf", j.ID, "the report has no size and digest of a PDF file")
	}
	f, err := a.root.Open(resultOf(&s, r.SHA256))
	if err != nil {
		return job.Errorf(job.Refused, "pdf", j.ID, "the PDF file is not there: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	switch {
	case err != nil:
		return err
	case n != r.Size || hex.EncodeToString(sum.Sum(nil)) != r.SHA256:
		return job.Errorf(job.Refused, "pdf", j.ID, "the PDF file is not the one that the report describes")
	}
	return nil
}

func resultOf(s *Spec, sum string) string { return path.Join(s.Folder, sum+".pdf") }

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Files carries documents to workers and PDF files back. *App is one for workers that see its directory.
type Files interface {
	// Source reads the document of a claimed job.
	Source(ctx context.Context, j *api.Leased) (io.ReadCloser, error)
	// Put keeps a PDF file, unless it has another size or digest than the result. It may be repeated.
	Put(ctx context.Context, j *api.Leased, r Result, body io.Reader) error
}

// Source is part of [Files].
func (a *App) Source(_ context.Context, j *api.Leased) (io.ReadCloser, error) {
	s, err := specOf(j)
	if err != nil {
		return nil, err
	}
	f, err := a.root.Open(path.Join(s.Folder, sourceName))
	if errors.Is(err, fs.ErrNotExist) {
		err = failed(CauseDocument, errors.New("the document is removed"))
	}
	return f, err
}

// Put is part of [Files].
func (a *App) Put(_ context.Context, j *api.Leased, r Result, body io.Reader) error {
	s, err := specOf(j)
	if err != nil {
		return err
	}
	if !digestRule.MatchString(r.SHA256) || r.Size < 1 || r.Size > maxResult {
		return job.Errorf(job.Invalid, "pdf", j.ID, "a PDF file has a SHA-256 in hexadecimal and 1 to %d bytes",
			maxResult)
	}
	name := resultOf(s, r.SHA256)
	return durable.File{Root: a.root, Name: name, Mode: 0o640}.Write(func(f *os.File) error {
		sum := sha256.New()
		n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(body, r.Size+1))
		if err == nil && (n != r.Size || hex.EncodeToString(sum.Sum(nil)) != r.SHA256) {
			err = job.Errorf(job.Invalid, "pdf", j.ID, "the PDF file is not the one that is reported")
		}
		return err
	})
}

// Held gives a job that a worker has claimed. Errors: NotFound; Stale if the claim is over or another worker's, or if
// the job that ordered the file is over: from the moment at which it failed, was cancelled or timed out, claims give no
// access any more.
func (a *App) Held(ctx context.Context, worker string, l job.Lease) (*api.Leased, error) {
	if a.engine == nil {
		return nil, job.Errorf(job.Unavailable, "pdf", l.Job, "the engine does not run yet")
	}
	j, err := a.engine.Store().Get(ctx, l.Job)
	switch {
	case err != nil:
		return nil, err
	case j.Kind != Kind:
		return nil, job.Errorf(job.NotFound, "pdf", l.Job, "it is no job that prints a PDF file")
	case j.State != Rendering || !j.Claimed() || j.Epoch != l.Epoch || j.Worker != worker:
		return nil, job.Errorf(job.Stale, "pdf", l.Job, "the worker %s has no claim %d of it", worker, l.Epoch)
	}
	if err := a.wanted(ctx, &j); err != nil {
		return nil, err
	}
	return &api.Leased{ID: j.ID, Kind: j.Kind, State: j.State, Epoch: j.Epoch, Spec: j.Spec}, nil
}

// wanted refuses a job whose file is not needed any more, although it is not cancelled yet.
func (a *App) wanted(ctx context.Context, j *job.Job) error {
	var s Spec
	if err := json.Unmarshal(j.Spec, &s); err != nil {
		return err
	}
	parent, err := a.engine.Store().Get(ctx, s.For)
	switch {
	case job.KindOf(err) == job.NotFound:
		return nil // there is nothing that could end
	case err != nil:
		return err
	case parent.Ended || parent.Outcome != lifecycle.None && parent.Outcome != lifecycle.OK:
		return job.Errorf(job.Stale, "pdf", j.ID, "the job %s, which ordered the file, is %s", s.For, parent.State)
	}
	return nil
}

func specOf(j *api.Leased) (*Spec, error) {
	var s Spec
	if err := json.Unmarshal(j.Spec, &s); err != nil || !folderRule.MatchString(s.Folder) {
		return nil, failed(CauseDocument, fmt.Errorf("the spec of %s is invalid", j.ID))
	}
	return &s, nil
}

// same refuses a document that is not the one that was ordered.
func (s *Spec) same(text []byte) error {
	if int64(len(text)) != s.Size || digest(text) != s.SHA256 {
		return failed(CauseDocument, errors.New("the document is not the one that was ordered"))
	}
	return nil
}
