package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
)

// Remote returns the side of the engine for workers in other processes.
func (e *Engine) Remote() remote.Workers { return workers{e} }

// workers implements remote.Workers.
type workers struct{ *Engine }

// Claim is part of remote.Workers.
func (e workers) Claim(ctx context.Context, r remote.Claim) ([]job.Job, error) {
	if r.Worker == "" || len(r.From) == 0 || r.N <= 0 {
		return nil, job.Errorf(job.Invalid, "claim", "", "a claim needs a worker, states and a number")
	}
	if r.Lease <= 0 {
		r.Lease = e.options.Lease
	}
	var open []job.KindState
	for _, p := range r.From {
		w := e.workOf(p.Kind)
		if w == nil {
			continue
		}
		if !w.handsOut(p.State) {
			return nil, serverOnly("claim", "", p)
		}
		if len(w.missing(p.State, r.Labels)) == 0 {
			open = append(open, p)
		}
	}
	if len(open) == 0 {
		return nil, nil
	}
	now := e.clock.Now()
	c := job.Claim{
		Worker: r.Worker, From: open, Labels: r.Labels, N: r.N, Lease: r.Lease, Now: now,
		Limits: e.kindsNow().limits, Ageing: e.options.Ageing, Suspects: job.NoSuspects,
	}
	jobs, err := e.store.Claim(ctx, c)
	if err == nil && len(jobs) == 0 { // a suspect is claimed alone
		c.N, c.Suspects = 1, job.OnlySuspects
		jobs, err = e.store.Claim(ctx, c)
	}
	now = e.clock.Now()
	e.claimed(jobs, now)
	e.claims.begin(now, jobs...)
	return jobs, err
}

// serverOnly refuses a state that remote workers may not work on.
func serverOnly(op string, id job.ID, p job.KindState) error {
	return job.Errorf(job.Refused, op, id, "%s in %s is worked on by the server alone", p.Kind, p.State)
}

// Renew is part of remote.Workers.
func (e workers) Renew(
	ctx context.Context, worker string, leases []job.Lease, lease time.Duration,
) ([]job.Lease, error) {
	if lease <= 0 {
		lease = e.options.Lease
	}
	return e.store.Renew(ctx, job.Renewal{Worker: worker, Leases: leases, Lease: lease, Now: e.clock.Now()})
}

// Report is part of remote.Workers.
func (e workers) Report(
	ctx context.Context, worker string, records []job.Job, reports []remote.Report,
) ([]job.Result, error) {
	e.defining.RLock() // reports may create jobs
	defer e.defining.RUnlock()
	results := make([]job.Result, len(reports))
	changes := make([]*transition, 0, len(reports))
	index := make([]int, 0, len(reports)) // of the report of each change
	for i := range reports {
		t, err := e.reported(ctx, worker, &records[i], &reports[i])
		if err != nil || !changesRecord(&reports[i]) {
			results[i] = job.Result{Job: records[i], Err: err}
			continue
		}
		changes, index = append(changes, t), append(index, i)
	}
	done, err := e.commitAll(ctx, changes)
	if err != nil {
		return nil, err
	}
	for k, i := range index {
		results[i] = e.concluded(ctx, worker, &records[i], &reports[i], changes[k], done[k])
	}
	for i := range reports {
		if job.KindOf(results[i].Err) == job.Stale {
			results[i] = e.repeated(ctx, worker, &reports[i], results[i])
		}
		if results[i].Err == nil {
			e.note(&records[i], &reports[i])
		}
	}
	return results, nil
}

// concluded completes the result of one report. If the record changed concurrently, the report is tried again. If the
// job is held, it is put back.
func (e *Engine) concluded(
	ctx context.Context, worker string, j *job.Job, r *remote.Report, t *transition, done job.Result,
) job.Result {
	for try := 1; job.KindOf(done.Err) == job.Conflict && (r.Children || r.Merge != nil) && try < 5; try++ {
		now, err := e.store.Get(ctx, j.ID)
		if err == nil {
			*j = now
			t, err = e.reported(ctx, worker, j, r)
		}
		if err != nil {
			return job.Result{Job: *j, Err: err}
		}
		done.Job, done.Err = e.one(ctx, t)
	}
	if done.Err == nil && !r.Keep {
		if done.Job.Worker == worker && done.Job.Epoch > r.Epoch {
			e.claims.begin(t.At, done.Job)
		}
		var o outcome
		o.report(r)
		if t.Require.Unsettled {
			o.verdict = waits
		}
		e.attempted(e.workOf(j.Kind), j, t.Change, o.ending(t.Change), 0, &done.Job)
	}
	switch kind := job.KindOf(done.Err); {
	case t.Require.Unheld && kind == job.Refused:
		commit := func(t *transition) (job.Job, error) {
			t.Began = e.claims.began(r)
			return e.one(ctx, t)
		}
		done.Job, done.Err = e.putBack(ctx, e.workOf(j.Kind), j, worker, done.Err, commit)
	case t.Require.Settled && kind == job.Refused:
		done.Err = job.Errorf(job.Conflict, "report", j.ID, "%s", job.Reason(done.Err))
	}
	return done
}

// outcomeOf returns the outcome of a report as that of a step.
func outcomeOf(r *remote.Report) *outcome {
	o := new(outcome)
	o.report(r)
	return o
}

// report makes o the outcome of a report.
func (o *outcome) report(r *remote.Report) {
	*o = outcome{verdict: passed, cause: cmp.Or(r.Cause, cause.Error)}
	switch {
	case r.Event != "":
		o.verdict, o.event = chose, r.Event
	case r.Wait != nil:
		o.verdict, o.blocker = waits, *r.Wait
	case r.Retry != "":
		o.verdict, o.err, o.after = retries, errors.New(r.Retry), r.After
	case r.Fail != "":
		o.verdict, o.err = fails, errors.New(r.Fail)
	case r.Yield:
		o.verdict = yields
	}
}

// reported makes the change of one report for the record as the caller read it. The same code as for a step in this
// process applies what a step sets, and its outcome.
func (e *Engine) reported(ctx context.Context, worker string, j *job.Job, r *remote.Report) (*transition, error) {
	w, err := e.reportable(worker, j, r)
	if err != nil {
		return nil, err
	}
	// children first: the rest is checked against a record that has them
	if r.Spawn != nil && !r.Keep {
		first, rest := &remote.Report{Job: r.Job, Epoch: r.Epoch, Keep: true, Spawn: r.Spawn}, *r
		t, err := e.reported(ctx, worker, j, first)
		if err == nil {
			*j, err = e.one(ctx, t)
		}
		if err != nil {
			return nil, err
		}
		rest.Spawn, r = nil, &rest
	}
	run := &Run{id: j.ID, epoch: j.Epoch, job: *j, engine: e, in: &e.surroundings, work: w, actor: worker,
		began: e.claims.began(r)}
	spawn, err := run.apply(r)
	if err != nil {
		return nil, err
	}
	if r.Keep {
		if !changesRecord(r) {
			return nil, e.current(ctx, worker, j)
		}
		t := run.update()
		t.Spawn, t.Version = spawn, expects(r, j)
		return t, nil
	}
	o := outcomeOf(r)
	if r.Children {
		if err := run.WaitChildren(); err != nil {
			o = asOutcome(err)
		}
	}
	t := run.begin()
	if err := t.settle(o, e.chance()); err != nil {
		return nil, err
	}
	if err := run.owes(ctx, t); err != nil {
		return nil, &job.Error{Op: "report", Kind: job.Refused, ID: j.ID, Err: err}
	}
	run.fill(t)
	t.Version = expects(r, j)
	// that the worker has these labels is known: it claimed the job in this state
	has := job.Tagged(slices.Concat(w.Requires[j.State], j.Requires)...)
	if r.Again && t.Event != "" && t.To.State != t.From && w.handsOut(t.To.State) &&
		!w.policyFor(t.To.State).Serial && len(w.missing(t.To.State, has)) == 0 && (r.To == nil || r.To(t.To.State)) {
		t.continueBy(worker, has, cmp.Or(r.Lease, e.options.Lease), e.limitsOf(j.Kind))
	}
	return t, nil
}

// reportable returns the work of a job if the worker may report on the job under the report's epoch.
func (e *Engine) reportable(worker string, j *job.Job, r *remote.Report) (*Work, error) {
	w := e.workOf(j.Kind)
	switch {
	case w == nil:
		return nil, job.Errorf(job.Invalid, "report", j.ID, "there is no kind %q", j.Kind)
	case r.Epoch <= 0:
		return nil, job.Errorf(job.Invalid, "report", j.ID, "a report needs the epoch of its claim")
	case r.Epoch != j.Epoch || j.Worker != worker:
		return nil, job.Errorf(job.Stale, "report", j.ID, "claim %d of %s is over, the record is at %d",
			r.Epoch, worker, j.Epoch)
	case !w.supports(j):
		return nil, job.Errorf(job.Refused, "report", j.ID, "%s", w.foreign(j).Sentence)
	case !w.handsOut(j.State):
		return nil, serverOnly("report", j.ID, job.KindState{Kind: j.Kind, State: j.State})
	}
	return w, nil
}

// current checks the claim of a report that commits nothing against the stored record.
func (e *Engine) current(ctx context.Context, worker string, j *job.Job) error {
	now, err := e.store.Get(ctx, j.ID)
	if err == nil && (now.Epoch != j.Epoch || now.Worker != worker) {
		err = job.Errorf(job.Stale, "report", j.ID, "claim %d of %s is over, the record is at %d",
			j.Epoch, worker, now.Epoch)
	}
	return err
}
