package pdf

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/worker"
)

// Printer prints documents. *Renderer is one.
type Printer interface {
	Render(ctx context.Context, dir string, p Page, document io.Reader, out io.Writer) error
}

// WorkerOptions configure a worker. Zero fields have the defaults.
type WorkerOptions struct {
	Name     string        // among the workers; defaults to pdf
	Parallel int           // documents at once; defaults to [Parallel]
	Lease    time.Duration // of a claim, which is renewed; defaults to 60 s
	Grace    time.Duration // for what is being printed when Run is to end; defaults to none
	Temp     string        // directory of working files; required

	// Held gives a claimed job, by which printers check their claim: that of [App]. Defaults to none: a claim that is
	// over is known by the next renewal.
	Held func(ctx context.Context, worker string, l job.Lease) (*api.Leased, error)

	Log *slog.Logger // defaults to none
}

// claimKey is the key of the check of a claim in the context of [Printer.Render].
type claimKey struct{}

// WithClaim gives the context of [Printer.Render] for a document whose claim can be checked: an error means that the
// claim is over.
func WithClaim(ctx context.Context, check func(context.Context) error) context.Context {
	return context.WithValue(ctx, claimKey{}, check)
}

// ClaimOf gives the check of the claim under which a document is printed, by the context of [Printer.Render]. A printer
// that gives others access to the document calls it at each access, and refuses the access after an error.
func ClaimOf(ctx context.Context) func(context.Context) error {
	check, _ := ctx.Value(claimKey{}).(func(context.Context) error)
	return func(now context.Context) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if check == nil {
			return nil
		}
		return check(now)
	}
}

// Worker claims jobs, prints their documents, and reports.
type Worker struct {
	claims  worker.API
	files   Files
	printer Printer
	options WorkerOptions
}

// NewWorker makes a worker.
func NewWorker(c worker.API, f Files, p Printer, o WorkerOptions) *Worker {
	o.Name, o.Parallel = cmp.Or(o.Name, "pdf"), cmp.Or(o.Parallel, Parallel())
	return &Worker{claims: c, files: f, printer: p, options: o}
}

// Works returns the work of a worker: its step prints.
func (w *Worker) Works() []engine.Work {
	return []engine.Work{{Life: Life, Prefix: prefix, Policies: map[lifecycle.State]engine.Policy{
		Rendering: {MaxAttempts: attempts}}, Steps: map[lifecycle.State]engine.Step{Rendering: w.step}}}
}

// Run works until the context ends. What is not printed within the grace period then returns to the queue. Errors: that
// of a claim that the server refuses, such as one with a wrong token.
func (w *Worker) Run(ctx context.Context) error {
	o := &w.options
	one, err := worker.New(w.claims, w.Works(), nil, worker.Options{
		Name: o.Name, Slots: o.Parallel, Lease: o.Lease, Grace: cmp.Or(o.Grace, job.Off), Log: o.Log,
	})
	if err != nil {
		return err
	}
	return one.Run(ctx)
}

// step prints the document of one job.
func (w *Worker) step(ctx context.Context, r *engine.Run) error {
	j := r.Job()
	l := api.LeasedOf(&j)
	if w.options.Held != nil {
		ctx = WithClaim(ctx, func(ctx context.Context) error {
			_, err := w.options.Held(ctx, w.options.Name, job.Lease{Job: l.ID, Epoch: l.Epoch})
			return err
		})
	}
	result, err := w.print(ctx, &l)
	if err != nil {
		return err
	}
	return r.SetData(result)
}

// print prints one document and keeps the PDF file.
func (w *Worker) print(ctx context.Context, j *api.Leased) (r Result, err error) {
	s, err := specOf(j)
	if err != nil {
		return r, err
	}
	in, err := w.files.Source(ctx, j)
	if err != nil {
		return r, err
	}
	text, err := io.ReadAll(in)
	if err = errors.Join(err, in.Close()); err != nil {
		return r, err
	}
	if err := s.same(text); err != nil {
		return r, err
	}
	dir, remove, err := scratch(w.options.Temp)
	if err != nil {
		return r, err
	}
	defer remove()
	page := s.Page
	page.Title = cmp.Or(page.Title, s.File)
	var out bytes.Buffer
	if err := w.printer.Render(ctx, dir, page, bytes.NewReader(text), &out); err != nil {
		return r, err
	}
	r = Result{Size: int64(out.Len()), SHA256: digest(out.Bytes())}
	return r, w.files.Put(ctx, j, r, &out)
}
