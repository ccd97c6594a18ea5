package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Report is what a worker outside this process says of a job it claimed: the same outcomes that a step returns.
type Report struct {
	Job   job.ID          `json:"job"`
	Epoch int64           `json:"epoch"`
	Event lifecycle.Event `json:"event,omitempty"` // a named event; empty: the state's success event, or one of the below
	Wait  *Blocker        `json:"wait,omitempty"`
	Retry string          `json:"retry,omitempty"` // the error
	Fail  string          `json:"fail,omitempty"`  // the error
	Cause string          `json:"cause,omitempty"` // of Retry or Fail
	Data  json.RawMessage `json:"data,omitempty"`
	Again bool            `json:"again,omitempty"` // go straight on with the next state, if nothing speaks against it
}

// Acquire claims jobs for a worker outside this process, in the states it names. It has the same limits as the engine's own claims.
func (e *Engine) Acquire(ctx context.Context, worker string, from []job.KindState, n int, lease time.Duration) ([]job.Job, error) {
	if worker == "" || len(from) == 0 || n <= 0 {
		return nil, job.Errorf(job.Invalid, "claim", "", "a claim needs a worker, places and a number")
	}
	if lease <= 0 {
		lease = e.options.Lease
	}
	var open []job.KindState
	for _, p := range from {
		w := e.works[p.Kind]
		if w == nil {
			continue
		}
		if !w.handsOut(p.State) {
			return nil, serverOnly("claim", "", p)
		}
		open = append(open, p)
	}
	if len(open) == 0 {
		return nil, nil
	}
	now := e.clock.Now()
	c := job.Claim{
		Worker: worker, From: open, N: n, Until: now.Add(lease), Now: now, Limits: e.limits, Ageing: e.options.Ageing, Suspects: job.NoSuspects,
	}
	jobs, err := e.store.Claim(ctx, c)
	if err == nil && len(jobs) == 0 { // a suspect is given alone
		c.N, c.Suspects = 1, job.OnlySuspects
		jobs, err = e.store.Claim(ctx, c)
	}
	e.claimed(jobs, e.clock.Now())
	return jobs, err
}

// serverOnly refuses a state that no worker outside may work on.
func serverOnly(op string, id job.ID, p job.KindState) error {
	return job.Errorf(job.Refused, op, id, "%s in %s is worked on by the server alone", p.Kind, p.State)
}

// Renew prolongs the claims of a worker outside this process and gives those that are over.
func (e *Engine) Renew(ctx context.Context, worker string, leases []job.Lease, lease time.Duration) ([]job.Lease, error) {
	if lease <= 0 {
		lease = e.options.Lease
	}
	return e.store.Renew(ctx, job.Renewal{Worker: worker, Leases: leases, Until: e.clock.Now().Add(lease)})
}

// Conclude commits what a worker outside this process reports. Each report stands or falls alone.
func (e *Engine) Conclude(ctx context.Context, worker string, records []job.Job, reports []Report) ([]job.Result, error) {
	results := make([]job.Result, len(reports))
	changes := make([]job.Change, 0, len(reports))
	places := make([]int, 0, len(reports))
	now := e.clock.Now()
	for i := range reports {
		c, err := e.reported(ctx, worker, &records[i], &reports[i], now)
		if err != nil {
			results[i] = job.Result{Job: records[i], Err: err}
			continue
		}
		changes, places = append(changes, c), append(places, i)
	}
	done, err := e.store.Commit(ctx, changes...)
	if err != nil {
		return nil, err
	}
	for k, i := range places {
		results[i] = done[k]
		if done[k].Err == nil {
			e.attempted(e.works[records[i].Kind], &records[i], &changes[k], reports[i].ending(&changes[k]), 0, &done[k].Job)
		}
		if c := &changes[k]; c.Require.Unheld && job.KindOf(done[k].Err) == job.Refused {
			results[i].Job, results[i].Err = e.putBack(ctx, e.works[records[i].Kind], &records[i], worker, done[k].Err,
				func(c job.Change) (job.Job, error) { return e.one(ctx, c) })
		}
	}
	return results, nil
}

// reported makes the change of one report for the record as the worker knows it.
func (e *Engine) reported(ctx context.Context, worker string, j *job.Job, r *Report, now time.Time) (job.Change, error) {
	w := e.works[j.Kind]
	if w == nil {
		return job.Change{}, job.Errorf(job.Invalid, "report", j.ID, "there is no kind %q", j.Kind)
	}
	if !w.knows(j) {
		return job.Change{}, job.Errorf(job.Refused, "report", j.ID, "%s", w.CheckDefinition(j).Sentence)
	}
	if !w.handsOut(j.State) {
		return job.Change{}, serverOnly("report", j.ID, job.KindState{Kind: j.Kind, State: j.State})
	}
	o := &outcome{verdict: passed, cause: cmp.Or(r.Cause, CauseError)}
	switch {
	case r.Event != "":
		o.verdict, o.event = chose, r.Event
	case r.Wait != nil:
		o.verdict, o.blocker = waits, *r.Wait
	case r.Retry != "":
		o.verdict, o.err = retries, errors.New(r.Retry)
	case r.Fail != "":
		o.verdict, o.err = fails, errors.New(r.Fail)
	}
	c, err := settle(w, j, o, now, e.chance())
	if err != nil {
		return c, err
	}
	c.Epoch, c.Actor, c.Set.Data = r.Epoch, worker, r.Data
	if err := w.owes(ctx, j, &c); err != nil {
		return c, &job.Error{Op: "report", Kind: job.Refused, ID: j.ID, Err: err}
	}
	w.announce(j, &c)
	c.Require.Unheld = w.begins(&c)
	if r.Again && c.Event != "" && c.To.State != c.From && w.handsOut(c.To.State) && !w.PolicyFor(c.To.State).Serial {
		c.Chain = &job.Chain{Worker: worker, Until: now.Add(e.options.Lease), Limits: e.limits}
	}
	return c, nil
}
