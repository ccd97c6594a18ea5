package pdf

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
)

// Claims is the claim API. *client.Client is one.
type Claims interface {
	Claim(ctx context.Context, r api.Claim) ([]api.Leased, error)
	Renew(ctx context.Context, r api.Renewal) ([]job.Lease, error)
	Report(ctx context.Context, r api.Reports) ([]api.Reported, error)
}

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
	claims  Claims
	files   Files
	printer Printer
	options WorkerOptions

	mu   sync.Mutex // guards held
	held map[job.Lease]context.CancelCauseFunc
}

// errLost reports that a claim is over: another worker may have the job.
var errLost = errors.New("the claim is over")

// NewWorker makes a worker.
func NewWorker(c Claims, f Files, p Printer, o WorkerOptions) *Worker {
	o.Name, o.Parallel = cmp.Or(o.Name, "pdf"), cmp.Or(o.Parallel, Parallel())
	o.Lease = cmp.Or(o.Lease, time.Minute)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Worker{claims: c, files: f, printer: p, options: o, held: map[job.Lease]context.CancelCauseFunc{}}
}

// Run works until the context ends. What is not printed within the grace period then is abandoned: the claims expire,
// and other workers continue. Errors: that of a claim that the server refuses, such as one with a wrong token.
func (w *Worker) Run(ctx context.Context) error {
	inner, end := context.WithCancel(context.WithoutCancel(ctx))
	var renewing, all sync.WaitGroup
	defer renewing.Wait()
	defer end()
	defer all.Wait()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(w.options.Grace, end) })()
	renewing.Go(func() { w.renew(inner) })
	free := make(chan struct{}, w.options.Parallel)
	for range w.options.Parallel {
		free <- struct{}{}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-free:
		}
		slots := 1 + drain(free)
		jobs, err := w.claims.Claim(ctx, api.Claim{
			Worker: w.options.Name, From: []job.KindState{{Kind: Kind, State: Rendering}}, N: slots,
			Lease: w.options.Lease.Seconds(), Wait: 20,
		})
		for range slots - len(jobs) {
			free <- struct{}{}
		}
		switch kind := job.KindOf(err); {
		case err == nil || ctx.Err() != nil:
		case kind == job.Refused || kind == job.Invalid:
			end()
			return err
		default:
			w.options.Log.Warn("claim", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Second):
			}
		}
		for i := range jobs {
			all.Go(func() {
				defer func() { free <- struct{}{} }()
				w.work(inner, &jobs[i])
			})
		}
	}
}

// drain takes the slots that are free now.
func drain(free chan struct{}) (n int) {
	for {
		select {
		case <-free:
			n++
		default:
			return n
		}
	}
}

// renew prolongs the claims three times in a lease, and ends the work of those that are over.
func (w *Worker) renew(ctx context.Context) {
	tick := time.NewTicker(w.options.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r := api.Renewal{Worker: w.options.Name, Lease: w.options.Lease.Seconds()}
		w.mu.Lock()
		for l := range w.held {
			r.Leases = append(r.Leases, l)
		}
		w.mu.Unlock()
		if len(r.Leases) == 0 {
			continue
		}
		lost, err := w.claims.Renew(ctx, r)
		if err != nil && ctx.Err() == nil {
			w.options.Log.Warn("renew", "error", err)
		}
		w.mu.Lock()
		for _, l := range lost {
			if end := w.held[l]; end != nil {
				end(errLost)
			}
		}
		w.mu.Unlock()
	}
}

// work prints one document and reports.
func (w *Worker) work(ctx context.Context, j *api.Leased) {
	lease := job.Lease{Job: j.ID, Epoch: j.Epoch}
	inner, end := context.WithCancelCause(ctx)
	w.mu.Lock()
	w.held[lease] = end
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.held, lease)
		w.mu.Unlock()
		end(nil)
	}()
	printing := context.Context(inner)
	if w.options.Held != nil {
		printing = WithClaim(inner, func(ctx context.Context) error {
			_, err := w.options.Held(ctx, w.options.Name, lease)
			return err
		})
	}
	r, err := w.print(printing, j)
	if inner.Err() != nil {
		return
	}
	report := api.Report{Job: j.ID, Epoch: j.Epoch}
	switch {
	case err == nil:
		report.Data, _ = json.Marshal(r) // two plain fields
	case cause.Temporary(err):
		report.Retry, report.Cause = err.Error(), cause.Of(err)
	default:
		report.Fail, report.Cause = err.Error(), cause.Of(err)
	}
	w.report(inner, report)
}

// report repeats a report until it is answered or the claim is over.
func (w *Worker) report(ctx context.Context, r api.Report) {
	for pause := time.Second; ; pause = min(2*pause, 30*time.Second) {
		_, err := w.claims.Report(ctx, api.Reports{Worker: w.options.Name, Reports: []api.Report{r}})
		if err == nil || ctx.Err() != nil || !job.KindOf(err).Retryable() {
			if err != nil && ctx.Err() == nil {
				w.options.Log.Warn("report", "job", r.Job, "error", err)
			}
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// print prints one document and keeps the PDF file.
func (w *Worker) print(ctx context.Context, j *api.Leased) (r Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = failed(cause.Panic, fmt.Errorf("panic: %v", p))
		}
	}()
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
