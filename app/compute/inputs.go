package compute

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// mostInputTries is how often inputs are fetched before the job fails; the pauses double from inputPause on, up to
// inputPauseMost.
const (
	mostInputTries = 8
	inputPause     = 2 * time.Second
	inputPauseMost = 2 * time.Minute
	inputLook      = time.Minute // between checks of a fetch that is under way
	spaceEvery     = 16 << 20    // bytes after which the space is checked again: others write at the same time
)

// scratchName is where inputs are that did not come whole, in the directory of a job.
const scratchName = "fetch"

// load is the part of Queued that sees to the inputs which the order names by URL. nil: they are here and recorded. The
// job waits without a slot while they come.
func (a *App) load(ctx context.Context, r *engine.Run, spec *Spec, d *Data) error {
	missing := spec.missing(d)
	if len(missing) == 0 {
		return nil
	}
	if a.options.Source == nil {
		return a.unloaded(ctx, r, errors.New("this server fetches no inputs any more (setting compute.tes.images)"))
	}
	j := r.Job()
	l, b := a.loads.enter(&j, missing)
	if b != nil {
		return engine.Wait(*b)
	}
	files, sentence, over, err := a.loads.state(l)
	if !over { // it is woken; the time is for calls that are lost
		return engine.Wait(job.Blocker{Code: blockInputs, Sentence: sentence, Until: r.Now().Add(inputLook)})
	}
	if errors.Is(err, context.Canceled) { // the server stops; the next one goes on
		a.loads.forget(j.ID)
		return errors.Join(err, ctx.Err())
	}
	full := job.IsFull(err)
	again := !full && temporary(err) && d.Loads+1 < mostInputTries
	after := *d
	switch {
	case again:
		after.Loads++
	case err == nil:
		after.Loads = 0
	}
	if err := a.arrived(ctx, r, d, &after, l, files); err != nil {
		return err
	}
	switch {
	case err == nil:
		a.loads.forget(j.ID)
		return a.dropScratch(j.ID)
	case full:
		return engine.Wait(a.loads.pause(l, job.Blocker{Code: blockDisk,
			Sentence: "there is no space here for its inputs: " + plain(err), Until: r.Now().Add(time.Minute)}))
	case again:
		return engine.Wait(a.loads.pause(l, job.Blocker{
			Code: blockInputs, Until: r.Now().Add(min(inputPause<<(d.Loads-1), inputPauseMost)),
			Sentence: fmt.Sprintf("its inputs did not come (attempt %d of %d): %s", d.Loads, mostInputTries,
				shorten(err.Error())),
		}))
	}
	a.loads.forget(j.ID)
	return a.unloaded(ctx, r, err)
}

// temporary reports whether an error may go away.
func temporary(err error) bool {
	var e interface{ Temporary() bool }
	return errors.As(err, &e) && e.Temporary() || job.KindOf(err) == job.Unavailable
}

// arrived commits what a load that is over brought, and in after the count of those that failed. The record replaces
// the loan. After an error the load and d are as before: the next attempt of the step commits it.
func (a *App) arrived(ctx context.Context, r *engine.Run, d, after *Data, l *load, files []File) error {
	j := r.Job()
	bytes := j.Bytes
	for _, f := range files {
		bytes += f.Size
	}
	after.Fetched = slices.Concat(d.Fetched, files)
	if err := r.SetData(after); err != nil {
		return err
	}
	r.SetBytes(bytes)
	l.loan.becomes(j.ID)
	if err := r.Save(ctx); err != nil {
		l.loan.stays(j.ID)
		r.SetBytes(j.Bytes)
		return errors.Join(err, r.SetData(d))
	}
	*d, j = *after, r.Job()
	a.usage.record(&j)
	l.loan.release(j.ID)
	return nil
}

// unloaded fails a job whose inputs cannot be had. It goes by Processing: the table lets no job fail that was never
// tried.
func (a *App) unloaded(ctx context.Context, r *engine.Run, reason error) error {
	if err := a.dropScratch(r.Job().ID); err != nil {
		return err
	}
	if err := r.Move(ctx, Begin); err != nil {
		return err
	}
	return engine.Fail(CauseInputs, fmt.Errorf("its inputs cannot be had: %s", shorten(reason.Error())))
}

// arriving records the progress of a load.
type arriving struct {
	loads *loads
	load  *load
}

// here notes a complete file.
func (w *arriving) here(f File) {
	w.loads.mu.Lock()
	defer w.loads.mu.Unlock()
	w.load.files = append(w.load.files, f)
	w.load.bytes = 0
	for _, f := range w.load.files {
		w.load.bytes += f.Size
	}
}

// part notes what came of the next one.
func (w *arriving) part(have int64) {
	w.loads.mu.Lock()
	defer w.loads.mu.Unlock()
	w.load.bytes = have
	for _, f := range w.load.files {
		w.load.bytes += f.Size
	}
}

// fetchInputs brings the inputs of a job to its directory, one after the other. Files that an earlier process fetched
// are taken as they are.
func (a *App) fetchInputs(ctx context.Context, id job.ID, files []RemoteFile, w *arriving) error {
	j, err := a.engine.Store().Get(ctx, id)
	if err != nil {
		return err
	}
	if j.Ended { // before this load was known
		a.loads.stop(id)
		return errEnded
	}
	root, err := a.root.OpenRoot(dirOf(id))
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Mkdir(scratchName, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for i, f := range files {
		one, err := a.fetchInput(ctx, root, f, w)
		if err != nil {
			return fmt.Errorf("inputs[%d]: %w", i, err)
		}
		w.here(one)
	}
	return durable.SyncIn(root, inputsName) // a process that was killed may have named some of them
}

// fetchInput brings one input.
func (a *App) fetchInput(ctx context.Context, root *os.Root, f RemoteFile, w *arriving) (File, error) {
	name := path.Join(inputsName, f.Name)
	one, err := digested(ctx, root, name)
	if err == nil && (f.SHA256 == "" || f.SHA256 == one.SHA256) { // of a process that ended before it could record it
		one.Name = f.Name
		return one, w.load.loan.grow(ctx, one.Size)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return File{}, err
	}
	var lent, checked int64
	grow := func(have, size int64) error {
		w.part(have)
		if need := max(have, size); need > lent {
			if err := w.load.loan.grow(ctx, need-lent); err != nil {
				return err
			}
			lent = need
		}
		if a.options.Space == nil || checked > 0 && have < checked {
			return nil
		}
		checked = have + spaceEvery
		return a.options.Space(max(size-have, 0))
	}
	if err := a.options.Source.Fetch(ctx, f, Arrival{Root: root, Name: name, Scratch: scratchName,
		Progress: grow}); err != nil {
		return File{}, err
	}
	if one, err = digested(ctx, root, name); err != nil {
		return File{}, err
	}
	if f.SHA256 != "" && f.SHA256 != one.SHA256 {
		return File{}, errors.Join(fmt.Errorf("the SHA-256 is %s, not %s", one.SHA256, f.SHA256), root.Remove(name))
	}
	one.Name = f.Name
	return one, grow(one.Size, one.Size)
}

// digested reads a file to its end.
func digested(ctx context.Context, root *os.Root, name string) (File, error) {
	f, err := root.Open(name)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, untilDone{ctx, f})
	return File{Size: n, SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}

// untilDone is a reader that ends with its context.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

// Read is part of io.Reader.
func (u untilDone) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}

// dropScratch removes what did not come whole.
func (a *App) dropScratch(id job.ID) error {
	return a.root.RemoveAll(path.Join(dirOf(id), scratchName))
}

// dropInputs removes what a fetch left in the directory of an ended job: parts, and files that its record does not
// name.
func (a *App) dropInputs(id job.ID) error {
	j, err := a.engine.Store().Get(context.WithoutCancel(a.loads.ctx), id)
	if err != nil {
		return err
	}
	return a.dropUnrecorded(&j)
}

func (a *App) dropUnrecorded(j *job.Job) error {
	spec, d, err := RecordOf(j)
	if err != nil {
		return err
	}
	wrong := []error{a.dropScratch(j.ID)}
	for _, f := range spec.missing(&d) {
		if err := a.root.Remove(path.Join(inputsOf(j.ID), f.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			wrong = append(wrong, err)
		}
	}
	return errors.Join(wrong...)
}
