package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// RemoteOptions configure a [RemoteRun]. Worker is required.
type RemoteOptions struct {
	Worker   string          // the name under which the job is claimed
	Clock    clock.Clock     // the time of the server; defaults to that of this machine
	Log      *slog.Logger    // of the worker; defaults to none
	JobLogs  JobLogs         // of the job; defaults to none
	Stopping <-chan struct{} // is closed when the worker begins to stop; defaults to never

	// GoesOn reports whether the worker would work on the job in a state that its report leads to. The report then asks
	// for the claim of that state. Defaults to never
	GoesOn func(lifecycle.State) bool
}

// RemoteRun is one attempt of a remote worker at a job: it runs the step of a work as the engine of the server would,
// with the gate, the timeout of the state and the handling of panics. What the step sets and returns becomes a report.
// In the middle of its work the step commits and reads by requests to the server.
//
// A step that runs remotely takes one transition: Move and Rest are Refused, and so is what sets fewer expected
// children. [Run.Changed] receives nothing. [Run.Job] has what the claim returns. Keys of messages get the id of the
// job as prefix.
type RemoteRun struct {
	run    *Run
	ctx    context.Context
	goesOn func(lifecycle.State) bool
}

// NewRemoteRun makes the run of a claimed job. The context of the step has the values of ctx and ends with it.
func NewRemoteRun(ctx context.Context, w *Work, j *job.Job, s remote.Server, o RemoteOptions) *RemoteRun {
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	in := &surroundings{clock: o.Clock, log: o.Log, logs: o.JobLogs}
	in.progress.now = map[job.ID]job.Progress{}
	r := &Run{id: j.ID, job: *j, in: in, backend: distant{s}, work: w, actor: o.Worker}
	r.running, r.lasting = &r.claim, context.WithoutCancel(ctx)
	r.claim.cancel, r.claim.changed, r.claim.stopping = cancel, make(chan struct{}, 1), o.Stopping
	r.claim.epoch.Store(j.Epoch)
	return &RemoteRun{r, ctx, o.GoesOn}
}

// Do runs the step and returns the report. There is none if the claim or the time for the state ended meanwhile: then
// the sweep of the server moves the job.
func (r *RemoteRun) Do() (p remote.Report, ok bool) {
	defer r.run.claim.cancel(nil)
	r.run.newAttempt()
	o := r.run.attempt(r.ctx)
	if o == nil || errors.Is(context.Cause(r.ctx), errLost) || errors.Is(o.err, errExpired) {
		return p, false
	}
	p = r.run.reportOf(o)
	p.Again = r.goesOn != nil && r.again(o)
	return p, true
}

// again reports whether an outcome leads to a state in which the worker goes on.
func (r *RemoteRun) again(o *outcome) bool {
	t := r.run.begin()
	defer t.free()
	return t.settle(o, 0) == nil && t.Event != "" && t.To.State != t.From && r.goesOn(t.To.State)
}

// Lost ends the context of the step: the claim is over, and there is no report.
func (r *RemoteRun) Lost() { r.run.claim.cancel(errLost) }

// Stop ends the context of the step: the worker stops. Unless the step succeeds in spite of that, the report returns
// the job to its queue.
func (r *RemoteRun) Stop() { r.run.claim.cancel(errStopping) }

// Progress returns what the step reported last by [Run.Progress]; nil: nothing.
func (r *RemoteRun) Progress() *job.Progress {
	b := &r.run.in.progress
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := b.now[r.run.id]
	if !ok {
		return nil
	}
	return &p
}

// reportOf returns the outcome of a step and what it set as a report: what apply and [outcome.report] read.
func (r *Run) reportOf(o *outcome) remote.Report {
	p := r.reportSet()
	p.Children = r.settled
	switch o.verdict {
	case chose:
		p.Event = o.event
	case waits:
		if o.blocker.Code == cause.Children {
			p.Children = true
		} else {
			p.Wait = &o.blocker
		}
	case retries:
		p.Retry, p.After, p.Cause = o.Error(), o.after, cmp.Or(o.cause, p.Cause)
	case fails:
		p.Fail, p.Cause = o.Error(), cmp.Or(o.cause, p.Cause)
	case yields:
		p.Yield = true
	}
	return p
}

// reportSet takes what the step set as a report without an outcome.
func (r *Run) reportSet() remote.Report {
	set := r.takeSet()
	p := remote.Report{
		Job: r.id, Epoch: r.job.Epoch, Data: set.set.Data, Message: set.set.Message, Priority: set.set.Priority,
		Tags: set.set.Tags, Bytes: set.set.Bytes, Deadline: set.set.Deadline, Advanced: set.set.Starts != nil,
		Tasks: set.tasks,
	}
	if set.set.Words != nil {
		p.Words = []string{*set.set.Words}
	}
	if set.set.Cause != nil {
		p.Cause = *set.set.Cause
	}
	if n := set.set.Expected; n != nil {
		p.Spawn = &remote.Spawn{Expected: *n}
	}
	for _, m := range set.outbox {
		p.Messages = append(p.Messages, remote.Message{Topic: m.Topic, Key: m.Key, Body: m.Body})
	}
	return p
}

// distant is the backend of a remote worker's runs.
type distant struct{ remote.Server }

func (d distant) save(ctx context.Context, r *Run) error { return d.update(ctx, r, nil) }

// update commits what was set, and children.
func (d distant) update(ctx context.Context, r *Run, spawn *remote.Spawn) error {
	set := r.wants
	p := r.reportSet()
	if spawn != nil {
		p.Spawn = spawn
	}
	p.Keep = true
	if err := d.Update(ctx, p); err != nil {
		r.wants = set
		return err
	}
	next := r.job
	next.Data, next.Tags = set.set.Data, set.set.Tags
	if next.Data == nil {
		next.Data = r.job.Data
	}
	if next.Tags == nil {
		next.Tags = r.job.Tags
	}
	if n := p.Spawn; n != nil {
		next.Children.Expected = n.Expected
		next.Children.Open += len(n.Jobs) // at most: Fresh reads the counts
	}
	r.record(&next)
	return nil
}

// takes is part of backend.
func (d distant) takes(_ context.Context, r *Run, e lifecycle.Event, _ *job.Blocker) error {
	return job.Errorf(job.Refused, string(e), r.id,
		"a step of a remote worker takes one transition, by what it returns: %s moves on only in a server", r.job.State)
}

// read is part of backend.
func (d distant) read(ctx context.Context, r *Run) (job.Job, error) {
	j, _, err := d.Read(ctx, job.Lease{Job: r.id, Epoch: r.job.Epoch})
	return j, err
}

// tasks is part of backend.
func (d distant) tasks(ctx context.Context, r *Run) ([]job.Task, error) {
	_, tasks, err := d.Read(ctx, job.Lease{Job: r.id, Epoch: r.job.Epoch})
	return tasks, err
}

// spawn is part of backend.
func (d distant) spawn(ctx context.Context, r *Run, first int, orders []Order) error {
	s := &remote.Spawn{Expected: r.job.Children.Expected, From: first}
	for i := range orders {
		o := &orders[i]
		spec, err := json.Marshal(o.Spec)
		if err != nil {
			return job.Errorf(job.Internal, "encode", r.id, "spec of job %d: %w", first+i, err)
		}
		s.Jobs = append(s.Jobs, remote.Child{
			Kind: o.Kind, Priority: o.Priority, Group: o.Group, Owner: o.Owner, Key: o.Key, Tags: o.Tags,
			Words: o.Words, Requires: o.Requires, Bytes: o.Bytes, Due: o.Due, Deadline: o.Deadline,
			Spec: json.RawMessage(spec), Actor: o.Actor, Note: o.Note,
		})
	}
	return d.update(ctx, r, s)
}

// adopt is part of backend.
func (d distant) adopt(ctx context.Context, r *Run, p *remote.Report) error {
	set := *p
	set.Spawn = nil
	if _, err := r.apply(&set); err != nil || p.Spawn == nil {
		return err
	}
	return d.update(ctx, r, p.Spawn)
}

// RemoteStates returns the states of the work that have a step, as a claim names them, in the order of the table.
func (w *Work) RemoteStates() []job.KindState {
	var all []job.KindState
	for _, st := range w.Life.Stages() {
		if w.Steps[st.State] != nil {
			all = append(all, job.KindState{Kind: w.kind(), State: st.State})
		}
	}
	return all
}

// missing returns the labels that a state requires and a worker does not have.
func (w *Work) missing(s lifecycle.State, labels []string) []string {
	return job.Lacking(w.Requires[s], labels)
}

// takes reports whether the slots of the engine take jobs of a state that require no further labels.
func (e *Engine) takes(w *Work, s lifecycle.State) bool {
	return w.Steps[s] != nil && len(w.missing(s, e.options.Labels)) == 0
}
