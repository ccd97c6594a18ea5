package agent

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Direct is the agent for a module that takes payloads from servers without tickets: it finds them by their records.
// Each [Delivery] makes a new payload, and nothing of it is removed before it was kept long enough.
type Direct struct{ app *App }

// Direct gives the agent for such a module. It is used after Bind.
func (a *App) Direct() Direct { return Direct{a} }

// Sandbox names what confines payloads; empty: it is not known.
func (d Direct) Sandbox() string { return d.app.options.Sandbox }

// Each calls do for every payload that the agent has a record of.
func (d Direct) Each(ctx context.Context, do func(*job.Job)) error {
	q := job.Query{Kinds: []job.Kind{compute.PayloadKind}, Limit: 1000, Oldest: true}
	for {
		page, err := d.app.engine.Store().List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			do(&page.Jobs[i])
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}

// Get gives the record of a payload.
func (d Direct) Get(ctx context.Context, id job.ID) (job.Job, error) {
	return d.app.engine.Store().Get(ctx, id)
}

// Directory is where the files of a payload are.
func (d Direct) Directory(id job.ID) string { return d.app.pathOf(id, jobName) }

// Notice reports the standing of a payload.
func (d Direct) Notice(j *job.Job) compute.Notice { return d.app.notice(j) }

// Results opens the results of a payload that ended; the caller closes them.
func (d Direct) Results(ctx context.Context, j *job.Job) (*os.File, *compute.Results, error) {
	return d.app.openZIP(ctx, j)
}

// Partial writes what there is now, in any standing. w is called once, when the ZIP begins.
func (d Direct) Partial(ctx context.Context, j *job.Job, w func() io.Writer) error {
	return d.app.partial(ctx, j, w)
}

// Kill has a payload ended. It may return before it is.
func (d Direct) Kill(ctx context.Context, j *job.Job) error { return d.app.kill(ctx, j, killNote) }

// Load is the load of the machine's processors, in percent.
func (d Direct) Load() float64 { return d.app.load.percent() }

// Health is nil if the agent takes payloads and its store answers.
func (d Direct) Health(ctx context.Context) error {
	_, err := d.app.engine.Store().Count(ctx)
	return errors.Join(d.app.Fault(), err)
}

// defaultService names the service of payloads that come without one.
func (a *App) defaultService() string {
	if len(a.options.Services) == 1 {
		for name := range a.options.Services {
			return name
		}
	}
	return "default"
}

// Delivery is a payload that comes in file by file, without a ticket and without the name of a service.
type Delivery struct {
	app   *App
	stage string
	root  *os.Root
	files map[string]compute.File
}

// Begin opens a directory for a payload. A [compute.Refusal] that is not Here is final.
func (d Direct) Begin() (*Delivery, error) {
	a := d.app
	if err := a.Fault(); err != nil {
		return nil, err
	}
	if a.Draining() {
		return nil, &compute.Refusal{Here: true, Reason: "the agent is draining: it takes no payloads"}
	}
	name := a.defaultService()
	if _, ok := a.service(name); !ok {
		return nil, &compute.Refusal{Reason: fmt.Sprintf("the agent has several services and none is called %q", name)}
	}
	stage, err := os.MkdirTemp(filepath.Join(a.options.Dir, stageName), "parcel-")
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(stage, jobName), 0o700); err != nil {
		return nil, errors.Join(err, os.RemoveAll(stage))
	}
	root, err := os.OpenRoot(filepath.Join(stage, jobName))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(stage))
	}
	return &Delivery{app: a, stage: stage, root: root, files: map[string]compute.File{}}, nil
}

// File stores a file; a later one of the same name replaces it. A full disk is a [compute.Refusal].
func (d *Delivery) File(name string, r io.Reader) error {
	if d.app.full() {
		return &compute.Refusal{Reason: "the agent's disk is full", Here: true, Full: true}
	}
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(d.app.guardDisk(f), sum), r)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	d.files[name] = compute.File{Name: name, Size: n, SHA256: fmt.Sprintf("%x", sum.Sum(nil))}
	return nil
}

// Commit makes the payload, with a tag by which the module finds it. actor is who it comes from.
func (d *Delivery) Commit(ctx context.Context, tag, actor string) (j job.Job, err error) {
	a := d.app
	name := a.defaultService()
	service, ok := a.service(name)
	if !ok {
		return j, &compute.Refusal{Here: true, Reason: "the agent does not serve it any more"}
	}
	s := &Spec{Service: name, Limits: service.Limits.Over(a.options.Limits), Inputs: true}
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		s.Files = append(s.Files, d.files[name])
	}
	id := job.ID(prefix + "_" + ulid.Make().String())
	free, err := a.locked(ctx, id)
	if err != nil {
		return j, err
	}
	defer free()
	return a.settle(ctx, engine.Order{
		ID: id, Kind: compute.PayloadKind, Group: name, Tags: []string{tag},
		By: lifecycle.Engine, Actor: actor,
	}, s, d.stage)
}

// Discard removes what Commit has not taken. It is always called.
func (d *Delivery) Discard() {
	_ = d.root.Close()
	_ = os.RemoveAll(d.stage) // after Commit it is not there any more
}
