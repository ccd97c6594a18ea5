// Package worker runs the steps of jobs in another process than their server, over the worker API: it claims as many
// jobs as it has free slots, renews the claims, runs the steps, and reports.
//
// A step is that of an engine ([engine.Step]) and runs unchanged, within the bounds of [engine.RemoteRun]. A report is
// repeated until its result is known; the server recognizes repetitions by the epoch of the claim, so nothing is done
// twice. A step whose claim is over, or could not be renewed for the duration of a lease, is stopped and not reported.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
)

// API is the worker API of a server. *client.Client is one. Its calls may be made again after an error of kind
// Unavailable or Conflict.
type API interface {
	Claim(ctx context.Context, r api.Claim) ([]api.Leased, error)
	Renew(ctx context.Context, r api.Renewal) ([]job.Lease, error)
	Report(ctx context.Context, r api.Reports) ([]api.Reported, error)
	Update(ctx context.Context, r api.Reports) ([]api.Reported, error)
	WorkerJob(ctx context.Context, l api.WorkerLease) (api.WorkerJob, error)
}

// Options of a worker. Name is required.
type Options struct {
	Name       string        // among the workers; with tokens the server uses the owner of the token
	Slots      int           // jobs at once; defaults to 4
	Lease      time.Duration // of a claim, at least 1 s; defaults to 60 s
	Poll       time.Duration // how long a claim waits at the server for a job, at most 60 s; defaults to 20 s
	Grace      time.Duration // for running steps when the worker stops; defaults to 30 s; job.Off: none
	DrainAfter time.Duration // the worker takes jobs for so long and ends when it has none; zero: until it is stopped

	Labels  []string // that states can require
	Host    string   // of the machine, for people
	Version string   // of the program, for people

	// Refresh returns the work of a kind again, when a job was created under a definition that the work at hand does
	// not support. Nil: the job waits for a worker that supports it.
	Refresh func(ctx context.Context, k job.Kind) (*engine.Work, error)

	Log   *slog.Logger // defaults to none
	Clock clock.Clock  // defaults to that of the machine
}

// Worker claims jobs of a server and runs their steps. Make one with [New].
type Worker struct {
	api     API
	options Options
	log     *slog.Logger
	from    []job.KindState

	stopping chan struct{}   // closed when Run begins to stop
	draining <-chan struct{} // closed when nothing new is claimed any more; Run sets it
	reports  chan *finished

	mu    sync.Mutex // guards the rest
	works map[job.Kind]*engine.Work
	runs  map[job.Lease]*run
}

// withDefaults returns the options with the defaults.
func (o Options) withDefaults() Options {
	o.Slots, o.Lease, o.Poll = cmp.Or(o.Slots, 4), cmp.Or(o.Lease, time.Minute), cmp.Or(o.Poll, 20*time.Second)
	o.Grace = max(cmp.Or(o.Grace, 30*time.Second), 0)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	return o
}

// New makes a worker for the states of the works that have a step, or those of them that from names.
func New(a API, works []engine.Work, from []job.KindState, o Options) (*Worker, error) {
	w := &Worker{api: a, options: o.withDefaults(), works: map[job.Kind]*engine.Work{}, runs: map[job.Lease]*run{},
		stopping: make(chan struct{}), reports: make(chan *finished)}
	w.log = w.options.Log
	if o.Name == "" {
		return nil, job.Errorf(job.Invalid, "work", "", "a worker needs a name")
	}
	for i := range works {
		w.works[job.Kind(works[i].Life.Name())] = &works[i]
		w.from = append(w.from, works[i].RemoteStates()...)
	}
	if len(from) > 0 {
		for _, p := range from {
			if !slices.Contains(w.from, p) {
				return nil, job.Errorf(job.Invalid, "work", "", "this worker has no step for %s/%s", p.Kind, p.State)
			}
		}
		w.from = from
	}
	if len(w.from) == 0 {
		return nil, job.Errorf(job.Invalid, "work", "", "a worker needs states with steps")
	}
	return w, nil
}

// From returns the states from which the worker claims jobs.
func (w *Worker) From() []job.KindState { return w.from }

// Run works until ctx ends, or until DrainAfter has passed and no job is left. When ctx ends it claims nothing new and
// gives running steps Grace; the jobs of steps that have not ended by then return to their queue. The error is that of
// a claim that the server refuses, such as one with a wrong token; running steps are stopped then. An error of kind
// Internal names steps that still run 10 seconds after their contexts have ended.
func (w *Worker) Run(ctx context.Context) error {
	lasting, end := context.WithCancel(context.WithoutCancel(ctx)) // of requests that outlive ctx
	defer end()
	claiming, drain := context.WithCancel(ctx)
	defer drain()
	w.draining = claiming.Done()
	if d := w.options.DrainAfter; d > 0 {
		defer time.AfterFunc(d, drain).Stop()
	}
	var background, steps sync.WaitGroup
	defer background.Wait()
	defer end()
	background.Go(func() { w.renewals(lasting) })
	background.Go(func() { w.flushes(lasting) })
	for range senders(w.options.Slots) {
		background.Go(func() { w.delivers(lasting) })
	}

	err := w.claims(claiming, ctx, lasting, &steps)
	drain()
	ended := make(chan struct{})
	go func() { steps.Wait(); close(ended) }()
	if err == nil {
		select {
		case <-ended: // after DrainAfter
			return nil
		case <-ctx.Done():
		}
	}
	close(w.stopping)
	return errors.Join(err, w.stop(lasting, ended, err != nil, end))
}

// stop gives the steps their grace period, stops them, and gives the reports as long again. Steps that have not ended
// lastReports after their contexts are abandoned; the error names them.
func (w *Worker) stop(lasting context.Context, ended <-chan struct{}, refused bool, end func()) error {
	grace := w.options.Grace
	if refused {
		grace = 0
	}
	wait := func(d time.Duration) bool {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ended:
			return true
		case <-timer.C:
			return false
		}
	}
	if wait(grace) {
		return nil
	}
	for _, r := range w.running() {
		r.remote.Stop()
	}
	if wait(lastReports) {
		return nil
	}
	rest := max(w.options.Grace, lastReports) - lastReports
	if left := w.stubborn(); len(left) > 0 {
		return w.abandon(lasting, left, max(rest, lastReports), end)
	}
	if !wait(rest) {
		end() // the server does not answer: the claims expire, and other workers continue
		<-ended
	}
	return nil
}

// lastReports is the least time for the reports of steps that were stopped, and the time in which such steps must
// return.
const lastReports = 10 * time.Second

// stubborn lists the runs whose steps have not returned.
func (w *Worker) stubborn() []*run {
	return slices.DeleteFunc(w.running(), func(r *run) bool { return r.returned.Load() })
}

// abandon returns the jobs of steps that do not end to their queue, and gives these reports and the other ones some
// time. What such a step asks of the server from now on is refused, because its claim is over.
func (w *Worker) abandon(ctx context.Context, left []*run, most time.Duration, end func()) error {
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	var reports sync.WaitGroup
	names := make([]string, len(left))
	for i, r := range left {
		names[i] = fmt.Sprintf("%s (%s)", r.lease.Job, r.state)
		reports.Go(func() {
			known := w.deliver(limited, r, remote.Report{Job: r.lease.Job, Epoch: r.lease.Epoch, Yield: true})
			w.log.Error("the step still runs although its context has ended", "job", r.lease.Job, "state", r.state,
				"error", known.err)
		})
	}
	for _, r := range w.running() {
		if !slices.Contains(left, r) {
			select {
			case <-r.done:
			case <-limited.Done():
			}
		}
	}
	reports.Wait()
	end()
	slices.Sort(names)
	return job.Errorf(job.Internal, "stop", "", "steps still run although their contexts have ended: %s",
		strings.Join(names, ", "))
}

// claims claims jobs for free slots until ctx ends, by requests that end with request: what a claim grants whose answer
// is not read waits for the end of its lease. The error is that of a claim that the server refuses.
func (w *Worker) claims(ctx, request, lasting context.Context, steps *sync.WaitGroup) error {
	free := make(chan struct{}, w.options.Slots)
	for range w.options.Slots {
		free <- struct{}{}
	}
	pause := newBackoff()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-free:
		}
		if ctx.Err() != nil {
			return nil
		}
		slots := 1
		for len(free) > 0 {
			<-free
			slots++
		}
		sent := w.options.Clock.Now()
		jobs, err := w.claim(request, slots)
		for range slots - len(jobs) {
			free <- struct{}{}
		}
		for i := range jobs {
			steps.Go(func() {
				defer func() { free <- struct{}{} }()
				w.work(lasting, &jobs[i], sent)
			})
		}
		switch {
		case err == nil:
			pause.reset()
		case request.Err() != nil || ctx.Err() != nil: // request, from which ctx comes, ends first
		case !passes(err):
			return err
		default:
			w.log.Warn("claim", "error", err)
			pause.wait(ctx)
		}
	}
}

func (w *Worker) claim(ctx context.Context, n int) ([]api.Leased, error) {
	o := &w.options
	return w.api.Claim(ctx, api.Claim{
		Worker: o.Name, From: w.from, N: n, Lease: o.Lease.Seconds(), Wait: o.Poll.Seconds(), Labels: o.Labels,
		Host: o.Host, Version: o.Version, Slots: o.Slots,
	})
}

// workOf returns the work of a claimed job, read again if the one at hand does not support the job's definition.
func (w *Worker) workOf(ctx context.Context, l *api.Leased) *engine.Work {
	w.mu.Lock()
	work := w.works[l.Kind]
	w.mu.Unlock()
	known := work.Life.Hash() == l.Definition || slices.Contains(work.Adopts, l.Definition)
	if known || w.options.Refresh == nil {
		return work
	}
	next, err := w.options.Refresh(ctx, l.Kind)
	if err != nil {
		w.log.Warn("the definition of the kind cannot be read", "kind", l.Kind, "error", err)
		return work
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.works[l.Kind] = next
	return next
}

// running lists the jobs that the worker has claimed.
func (w *Worker) running() []*run {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*run, 0, len(w.runs))
	for _, r := range w.runs {
		all = append(all, r)
	}
	return all
}

// passes reports whether a later call may succeed without a change.
func passes(err error) bool { return job.KindOf(err).Retryable() }
