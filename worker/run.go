package worker

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// run is one attempt at a claimed job, until its report is known.
type run struct {
	worker *Worker
	lease  job.Lease
	state  lifecycle.State
	remote *engine.RemoteRun
	spool  *spool
	sent   sync.Mutex // is held while log lines are sent: they arrive in order

	returned atomic.Bool   // the step has ended
	done     chan struct{} // closed when the report is known

	mu      sync.Mutex // guards renewed
	renewed time.Time  // when the last request was sent that the server answered by extending the claim
}

// serverClock is the time of the server, as a claim shows it: its lease ends at Until, and began when it was granted.
type serverClock struct {
	clock.Clock
	ahead time.Duration
}

// Now is part of [clock.Clock].
func (c serverClock) Now() time.Time { return c.Clock.Now().Add(c.ahead) }

// work runs the step of a claimed job and reports, state after state as long as the server lets it keep the job. sent is
// when its claim was requested.
func (w *Worker) work(ctx context.Context, l *api.Leased, sent time.Time) {
	for again := false; l != nil; again = true {
		l, sent = w.attempt(ctx, l, sent, again)
	}
}

// attempt runs the step of a claimed job in one state and reports. It returns the job in the next state if it stays with
// the worker, and when that was requested. again: the job has stayed with the worker; if the worker has begun to stop
// meanwhile, it returns to its queue.
func (w *Worker) attempt(ctx context.Context, l *api.Leased, sent time.Time, again bool) (*api.Leased, time.Time) {
	lease := job.Lease{Job: l.ID, Epoch: l.Epoch}
	j := l.Record(w.options.Name)
	now := w.options.Clock.Now()
	r := &run{worker: w, lease: lease, state: l.State, spool: newSpool(), renewed: sent,
		done: make(chan struct{})}
	r.remote = engine.NewRemoteRun(ctx, w.workOf(ctx, l), &j, r, engine.RemoteOptions{
		Worker: w.options.Name, Log: w.log, JobLogs: r.spool, Stopping: w.stopping,
		Clock:  serverClock{w.options.Clock, l.Until.Add(-w.options.Lease).Sub(now)},
		GoesOn: func(to lifecycle.State) bool { return w.goesOn(job.KindState{Kind: l.Kind, State: to}) },
	})
	w.mu.Lock()
	w.runs[lease] = r
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.runs, lease)
		w.mu.Unlock()
		close(r.done)
	}()
	if again && isClosed(w.stopping) {
		r.remote.Stop()
	}
	report, ok := r.remote.Do()
	r.returned.Store(true)
	if !ok {
		w.log.Info("the claim is over", "job", l.ID, "epoch", l.Epoch, "state", l.State)
		return nil, sent
	}
	result := w.deliver(ctx, r, report)
	if err := result.err; err != nil && !passes(err) && job.KindOf(err) != job.Stale {
		w.log.Warn("the server refuses the outcome", "job", l.ID, "error", err)
		result = w.deliver(ctx, r, remote.Report{Job: l.ID, Epoch: l.Epoch, Retry: job.Reason(err), Cause: "refused"})
	}
	if result.err != nil {
		w.log.Warn("report", "job", l.ID, "epoch", l.Epoch, "error", result.err)
	}
	if result.next != nil {
		result.next.Spec = l.Spec
	}
	return result.next, result.sent
}

// goesOn reports whether the worker, which has worked on a job of the kind, would take it in another state.
func (w *Worker) goesOn(to job.KindState) bool {
	return slices.Contains(w.from, to) && !isClosed(w.draining)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Update is part of [remote.Server]. It repeats the request until its result is known.
func (r *run) Update(ctx context.Context, p remote.Report) error {
	text, err := reportOf(&p)
	if err != nil {
		return err
	}
	pause := newBackoff()
	for {
		results, err := r.worker.api.Update(ctx, api.Reports{Worker: r.worker.options.Name, Reports: []api.Report{text}})
		err = resultOf(results, 0, err)
		if err == nil || ctx.Err() != nil || !passes(err) {
			return r.stale(err)
		}
		pause.wait(ctx)
	}
}

// Read is part of [remote.Server].
func (r *run) Read(ctx context.Context, l job.Lease) (job.Job, []job.Task, error) {
	name := r.worker.options.Name
	pause := newBackoff()
	for {
		a, err := r.worker.api.WorkerJob(ctx, api.WorkerLease{Worker: name, Job: l.Job, Epoch: l.Epoch})
		if err == nil {
			return a.Job.Record(name), a.Tasks, nil
		}
		if ctx.Err() != nil || !passes(err) {
			return job.Job{}, nil, r.stale(err)
		}
		pause.wait(ctx)
	}
}

// stale stops the step if an error states that its claim is over.
func (r *run) stale(err error) error {
	if job.KindOf(err) == job.Stale {
		r.remote.Lost()
	}
	return err
}

// extended notes that the server extended the claim by a request that was sent at a time.
func (r *run) extended(sent time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renewed = sent
}

// expired reports whether the claim may have been over for the server.
func (r *run) expired(now time.Time, lease time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Sub(r.renewed) >= lease
}

// renewals renews the claims three times in a lease, and stops the steps of those that are over or that could not be
// renewed in time.
func (w *Worker) renewals(ctx context.Context) {
	lease := w.options.Lease
	tick := time.NewTicker(lease / 12)
	defer tick.Stop()
	due := make(chan struct{}, 1) // a renewal is under way while it is empty
	due <- struct{}{}
	var requests sync.WaitGroup
	defer requests.Wait()
	last := w.options.Clock.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := w.options.Clock.Now()
		for _, r := range w.running() {
			if r.expired(now, lease) {
				r.remote.Lost()
			}
		}
		if now.Sub(last) < lease/3 {
			continue
		}
		select {
		case <-due:
			last = now
			requests.Go(func() {
				defer func() { due <- struct{}{} }()
				w.renew(ctx)
			})
		default:
		}
	}
}

// renew renews all claims by one request.
func (w *Worker) renew(ctx context.Context) {
	runs := w.running()
	if len(runs) == 0 {
		return
	}
	r := api.Renewal{Worker: w.options.Name, Lease: w.options.Lease.Seconds()}
	for _, one := range runs {
		r.Leases = append(r.Leases, one.lease)
	}
	ctx, cancel := context.WithTimeout(ctx, w.options.Lease/3)
	defer cancel()
	sent := w.options.Clock.Now()
	lost, err := w.api.Renew(ctx, r)
	if err != nil {
		w.log.Warn("renew", "error", err)
		return
	}
	over := map[job.Lease]bool{}
	for _, l := range lost {
		over[l] = true
	}
	for _, one := range runs {
		if over[one.lease] {
			one.remote.Lost()
		} else {
			one.extended(sent)
		}
	}
}
