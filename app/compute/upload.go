package compute

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"github.com/stagepost/stagepost/edge/safename"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// Script is the file that is run.
const Script = "run.sh"

// mostFiles is how many files a job may have.
const mostFiles = 10_000

// Upload takes the files of a job that is not there yet. It is for one goroutine. Discard it, whatever became of it.
type Upload struct {
	app   *App
	ctx   context.Context // of Begin
	name  string          // below the application's directory
	files map[string]File
	names safename.Set // of the files that [Upload.File] took
	bytes int64
	loan  loan  // of the owner's space, if the owner is known
	over  bool  // committed or discarded
	wrong error // of a file: what is here is not what was sent
}

// Begin opens an upload. Nothing of it is seen before Commit.
func (a *App) Begin(ctx context.Context) (*Upload, error) {
	u := &Upload{app: a, ctx: ctx, loan: loan{usage: a.usage}, name: path.Join(stageName, strings.ToLower(rand.Text())),
		files: map[string]File{}}
	a.directories.hold(u.name)
	if err := a.root.MkdirAll(path.Join(u.name, inputsName), 0o700); err != nil {
		a.directories.drop(u.name)
		return nil, job.Errorf(job.Unavailable, "upload", "", "no space for an upload: %w", err)
	}
	return u, nil
}

// For sets early whose upload it is: files beyond the owner's space are refused while they come, not only by Commit.
// Call it before the first file, or not at all.
func (u *Upload) For(owner string) {
	if len(u.files) == 0 && u.loan.bytes == 0 {
		u.loan.owner = owner
	}
}

// File takes a file as it comes. One with the name of an earlier one replaces it. The name is one path element that
// [safename.Portable] accepts, beside those of the other files: results and inputs are fetched to any system. Errors:
// Invalid for names and numbers, Refused beyond the owner's space, Unavailable when it cannot be stored here; an error
// of r is given as it is. After an error Commit is refused.
func (u *Upload) File(name string, r io.Reader) error {
	if err := u.named(name); err != nil {
		u.wrong = err
		return err
	}
	return u.Keep(name, r)
}

// Keep is File for a file of a job that exists, here or in another system: it keeps the name that it has there, which
// must be one path element.
func (u *Upload) Keep(name string, r io.Reader) error {
	if err := u.store(name, r); err != nil {
		u.wrong = err
		return err
	}
	return nil
}

// named refuses a name that a new file may not have.
func (u *Upload) named(name string) error {
	err := checkName(name)
	if _, again := u.files[name]; err == nil && !again {
		_, err = u.names.AddFile(name)
	}
	if err != nil {
		return job.Errorf(job.Invalid, "upload", "", "%w", err)
	}
	return nil
}

func (u *Upload) store(name string, r io.Reader) error {
	if err := u.open(); err != nil {
		return err
	}
	if err := checkName(name); err != nil {
		return job.Errorf(job.Invalid, "upload", "", "%w", err)
	}
	before, again := u.files[name]
	if !again && len(u.files) >= mostFiles {
		return job.Errorf(job.Invalid, "upload", "", "a job has at most %d files", mostFiles)
	}
	root, full := u.app.root, path.Join(u.name, inputsName, name)
	if !again {
		if _, err := root.Lstat(full); err == nil { // the file system takes two names for one
			return job.Errorf(job.Invalid, "upload", "",
				"%q differs from another file's name only in case or in how its letters are written", name)
		}
	}
	n, sum, err := u.part(r)
	if err != nil {
		return err
	}
	if err := root.Rename(path.Join(u.name, partName), full); err != nil {
		// a new file: an older one may be another job's, too
		return job.Errorf(job.Unavailable, "upload", "", "File creation failed: %w", bare(err))
	}
	u.bytes += n - before.Size
	u.files[name] = File{Name: name, Size: n, SHA256: sum}
	return nil
}

// open refuses what comes after the end of an upload.
func (u *Upload) open() error {
	if u.over {
		return job.Errorf(job.Invalid, "upload", "", "the upload is over")
	}
	return nil
}

// partName is what a file is called while it comes, beside the directory of those that are complete.
const partName = "part"

// part stores what comes, and has it on the disk.
func (u *Upload) part(r io.Reader) (n int64, digest string, err error) {
	f, err := u.app.root.OpenFile(path.Join(u.name, partName), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, "", job.Errorf(job.Unavailable, "upload", "", "File creation failed: %w", bare(err))
	}
	sum, from := sha256.New(), &source{u: u, r: r}
	n, err = io.Copy(io.MultiWriter(f, sum), from)
	if from.err != nil {
		f.Close()
		return 0, "", from.err
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return 0, "", job.Errorf(job.Unavailable, "upload", "", "the file cannot be stored: %w", bare(err))
	}
	return n, hex.EncodeToString(sum.Sum(nil)), nil
}

// source is a file as it comes. It takes the space that the file needs, if it is known whose it is.
type source struct {
	u   *Upload
	r   io.Reader
	err error // of the reader or of the space, not of the disk
}

// Read is part of io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err == nil || err == io.EOF {
		if full := s.u.grow(int64(n)); full != nil {
			err = full
		}
	}
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// grow takes space, if its owner is known.
func (u *Upload) grow(n int64) error {
	if u.loan.owner == "" {
		return nil
	}
	return u.loan.grow(u.ctx, n)
}

// Results takes the results of a job that ended elsewhere ([Order.Imported]), as a ZIP. They are checked when the job
// runs through its life.
func (u *Upload) Results(r io.Reader) error {
	err := u.open()
	if err == nil {
		_, _, err = u.part(r)
	}
	if err == nil {
		err = u.app.root.Rename(path.Join(u.name, partName), path.Join(u.name, resultsName))
	}
	if err != nil {
		u.wrong = err
	}
	return err
}

// bare gives an error of the file system without the path, which is not for users.
func bare(err error) error {
	var e *os.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &e):
		return e.Err
	case errors.As(err, &l):
		return l.Err
	}
	return err
}

func checkName(name string) error {
	switch {
	case name == "" || name == "." || name == "..":
		return fmt.Errorf("%q is no name for a file", name)
	case strings.ContainsAny(name, "/\x00"):
		return fmt.Errorf("%q is a path: uploads are flat", name)
	case len(name) > 255:
		return fmt.Errorf("a name of %d bytes is too long: 255 is the most", len(name))
	case !utf8.ValidString(name):
		return fmt.Errorf("%q is no UTF-8", name)
	}
	return nil
}

// adopt takes files over that are on the disk already, by a link where that is possible: a stored file is never changed
// in place.
func (u *Upload) adopt(from string, files []File) error {
	for _, f := range files {
		_, _ = u.names.AddFile(f.Name) // an older job may have names that no new one has
		if u.app.root.Link(path.Join(from, f.Name), path.Join(u.name, inputsName, f.Name)) == nil {
			if err := u.grow(f.Size); err != nil {
				return err
			}
			u.files[f.Name] = f
			u.bytes += f.Size
			continue
		}
		src, err := u.app.root.Open(path.Join(from, f.Name))
		if err != nil {
			return err
		}
		err = u.Keep(f.Name, src)
		if err = errors.Join(err, src.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Adopt takes a file over that is complete on this machine, by copying it: for resumable uploads.
func (u *Upload) Adopt(name, from string) error {
	src, err := os.Open(from)
	if err != nil {
		return job.Errorf(job.Unavailable, "upload", "", "%w", bare(err))
	}
	err = u.File(name, src)
	return errors.Join(err, src.Close())
}

// digest distinguishes orders: the same files, service, limits and environment give the same.
func (u *Upload) digest(o *Order) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q\n", o.Service, o.User)
	rest, err := json.Marshal(struct {
		Env    map[string]string
		Limits Limits
		Inputs *bool
	}{o.Env, o.Limits, o.Inputs})
	fmt.Fprintf(sum, "%s %v\n", rest, err)
	for _, f := range u.list() {
		if !slices.ContainsFunc(o.Fetch, func(one RemoteFile) bool { return one.Name == f.Name }) {
			// it may be here or not
			fmt.Fprintf(sum, "%q %d %s\n", f.Name, f.Size, f.SHA256)
		}
	}
	for _, f := range o.Fetch {
		fmt.Fprintf(sum, "%q from %q %s\n", f.Name, f.URL, f.SHA256)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func (u *Upload) list() []File {
	files := make([]File, 0, len(u.files))
	for _, f := range u.files {
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return files
}

// newID makes an id that cannot be guessed, not even from others of the same millisecond.
func newID(e *engine.Engine) job.ID {
	return job.ID("cmp_" + ulid.MustNew(ulid.Timestamp(e.Clock().Now()), rand.Reader).String())
}

// Commit makes the job: its files have their final names and are on the disk, then its record is. Errors: Invalid (no
// such service, limits beyond its maximum, a file that did not come whole), Refused (the user's disk quota), Conflict
// (the key was used for something else), Unavailable.
func (u *Upload) Commit(ctx context.Context, o Order) (job.Job, error) {
	a := u.app
	if o.User == "" {
		o.User = o.Owner
	}
	if err := u.check(&o); err != nil {
		return job.Job{}, err
	}
	if u.loan.owner != o.Owner {
		u.loan.release("")
		u.loan.owner = o.Owner
	}
	id := newID(a.engine)
	defer u.loan.release(id)
	u.loan.whole = true
	if err := u.loan.grow(ctx, u.bytes-u.loan.bytes); err != nil {
		return job.Job{}, err
	}
	spec := Spec{User: o.User, Service: o.Service, Name: o.Name, Files: u.list(), Fetch: o.Fetch, Uploads: o.Uploads,
		Env: o.Env, Limits: o.Limits, Labels: o.Labels, Requires: job.Tagged(o.Requires...),
		AgentLabels: job.Tagged(slices.Concat(a.services[o.Service].Requires, o.Requires)...), Inputs: o.Inputs,
		From: o.From, Callback: o.Callback, Upload: u.digest(&o), Imported: o.Imported, TES: o.TES}
	dir := dirOf(id)
	a.directories.hold(dir)
	defer a.directories.drop(dir)
	if err := u.settle(ctx, dir); err != nil {
		return job.Job{}, errors.Join(job.Errorf(job.Unavailable, "upload", "", "Could not create job directory: %w",
			bare(err)), u.undo(dir))
	}
	u.loan.becomes(id)
	order := o.order(id, spec, u.bytes)
	a.promise(&order, o.Imported != nil)
	j, err := a.record(context.WithoutCancel(ctx), order)
	switch {
	case job.KindOf(err) == job.Unavailable: // the record may be there: if it is not, a sweep finds the directory
		return j, err
	case err != nil:
		return j, errors.Join(err, u.undo(dir))
	case j.ID != id:
		if err := u.undo(dir); err != nil {
			a.log.Warn("compute: the files of an upload that was sent twice are still there", "error", err)
		}
		if err := sameUpload(&j, spec.Upload); err != nil {
			return j, err
		}
		if err := SameOrder(&j, &o); err != nil {
			return j, err
		}
		return j, u.brokenBefore(&j)
	}
	a.usage.record(&j)
	return j, u.keep(context.WithoutCancel(ctx), &j)
}

// check refuses orders that are invalid.
func (u *Upload) check(o *Order) error {
	invalid := func(format string, args ...any) error { return job.Errorf(job.Invalid, "upload", "", format, args...) }
	if err := u.open(); err != nil {
		return err
	}
	service := u.app.services[o.Service]
	_, script := u.files[Script]
	switch {
	case u.wrong != nil:
		return invalid("a file did not come whole: %w", u.wrong)
	case o.Owner == "":
		return invalid("a job needs an owner")
	case service == nil:
		return invalid("there is no service %.80q (known: %s)", o.Service, u.app.serviceNames())
	case !script && u.app.options.NeedScript && o.Imported == nil:
		return invalid("there is no %s among the files", Script)
	}
	if _, err := service.Effective(o.Limits); err != nil {
		return invalid("%w", err)
	}
	if err := service.CheckCallback(o.Callback); err != nil {
		return invalid("%w", err)
	}
	if _, err := job.Required(slices.Concat(service.Requires, o.Requires)...); err != nil {
		return err
	}
	return u.checkFetch(o)
}

// checkFetch refuses inputs that cannot be fetched here.
func (u *Upload) checkFetch(o *Order) error {
	names := map[string]bool{Script: true}
	for _, f := range o.Fetch {
		if err := checkName(f.Name); err != nil {
			return job.Errorf(job.Invalid, "upload", "", "%w", err)
		}
		if names[f.Name] {
			return job.Errorf(job.Invalid, "upload", "", "there are two files %.100q", f.Name)
		}
		names[f.Name] = true
		if _, here := u.files[f.Name]; !here && u.app.options.Source == nil {
			return job.Errorf(job.Invalid, "upload", "",
				"this server fetches no inputs: %.100q must come with the order", f.Name)
		}
	}
	if len(u.files)+len(o.Fetch) > mostFiles {
		return job.Errorf(job.Invalid, "upload", "", "a job has at most %d files", mostFiles)
	}
	return nil
}

// record creates the record of a job. A store that does not answer is asked again under the same id, which makes no
// second job.
func (a *App) record(ctx context.Context, o engine.Order) (j job.Job, err error) {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	for pause := 50 * time.Millisecond; ; pause *= 2 {
		j, err = a.engine.Submit(ctx, o)
		if job.KindOf(err) != job.Unavailable || pause > time.Second {
			return j, err
		}
		select {
		case <-ctx.Done():
			return j, err
		case <-time.After(pause):
		}
	}
}

// undo removes a directory that has no record and gets none.
func (u *Upload) undo(dir string) error {
	if !u.over { // Discard removes it
		return nil
	}
	return u.app.remove(dir)
}

// settle gives the files their final names, on the disk.
func (u *Upload) settle(ctx context.Context, dir string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	root := u.app.root
	if err := root.MkdirAll(path.Dir(dir), 0o700); err != nil {
		return err
	}
	for _, name := range []string{path.Join(u.name, inputsName), u.name} {
		if err := durable.SyncIn(root, name); err != nil {
			return err
		}
	}
	if err := root.Rename(u.name, dir); err != nil {
		return err
	}
	u.over = true
	u.app.directories.drop(u.name)
	// the directory above may be new
	return errors.Join(durable.SyncIn(root, path.Dir(dir)), durable.SyncIn(root, path.Dir(path.Dir(dir))))
}

// Discard removes an upload that was not committed.
func (u *Upload) Discard() {
	if u.over {
		return
	}
	u.over = true
	u.loan.release("")
	if err := u.app.root.RemoveAll(u.name); err != nil {
		u.app.log.Warn("compute: an abandoned upload is still there", "error", err)
	}
	u.app.directories.drop(u.name)
}
