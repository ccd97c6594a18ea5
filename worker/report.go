package worker

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
)

// mostReports is how many reports one request has.
const mostReports = 100

// senders is how many requests with reports are under way at once: as many as the reports of all slots fill, at most 4.
// Fewer slots wait for one request, so that their next reports are in one, too.
func senders(slots int) int { return max(1, min(slots/mostReports, 4)) }

// finished is a report on its way.
type finished struct {
	report api.Report
	result chan result // has space for one
}

// result is what became of a report.
type result struct {
	err  error
	next *api.Leased // the job in its next state, if it stays with the worker
	sent time.Time   // when the report was sent
}

// deliver sends the report of a run, with what is left of its log, and returns when the result is known or ctx ends.
func (w *Worker) deliver(ctx context.Context, r *run, p remote.Report) (known result) {
	text, err := reportOf(&p)
	if err != nil {
		return result{err: err}
	}
	if text.Log, err = r.lastLines(ctx); err != nil {
		return result{err: err}
	}
	f := &finished{text, make(chan result, 1)}
	select {
	case w.reports <- f:
	case <-ctx.Done():
		return result{err: job.Errorf(job.Unavailable, "report", p.Job,
			"the worker stopped before the server had the report")}
	}
	select {
	case known = <-f.result:
	case <-ctx.Done():
		return result{err: job.Errorf(job.Unavailable, "report", p.Job,
			"the worker stopped before the result was known")}
	}
	if known.err == nil {
		r.spool.sent(text.Log)
	}
	return known
}

// delivers sends reports, those that wait in one request. A report whose result is unknown is sent again with those
// that came meanwhile.
func (w *Worker) delivers(ctx context.Context) {
	var waiting []*finished
	pause := newBackoff()
	for {
		if len(waiting) == 0 {
			select {
			case <-ctx.Done():
				return
			case f := <-w.reports:
				waiting = append(waiting, f)
			}
		}
	more:
		for len(waiting) < mostReports {
			select {
			case f := <-w.reports:
				waiting = append(waiting, f)
			default:
				break more
			}
		}
		before := len(waiting)
		waiting = w.send(ctx, waiting)
		if ctx.Err() != nil {
			return
		}
		if len(waiting) == before {
			pause.wait(ctx)
		} else {
			pause.reset()
		}
	}
}

// send sends reports in one request and returns those whose result is not known. If the server refuses the request as a
// whole, each is sent alone, so that a defective one does not keep the others.
func (w *Worker) send(ctx context.Context, all []*finished) (unknown []*finished) {
	r := api.Reports{Worker: w.options.Name, Lease: w.options.Lease.Seconds()}
	for _, f := range all {
		r.Reports = append(r.Reports, f.report)
	}
	sent := w.options.Clock.Now()
	results, err := w.api.Report(ctx, r)
	if err != nil && len(all) > 1 && !passes(err) {
		for i := range all {
			unknown = append(unknown, w.send(ctx, all[i:i+1])...)
		}
		return unknown
	}
	for i, f := range all {
		err := resultOf(results, i, err)
		if err != nil && passes(err) {
			if i == 0 && len(all) == 1 || results == nil {
				w.log.Warn("report", "job", f.report.Job, "error", err)
			}
			unknown = append(unknown, f)
			continue
		}
		known := result{err: err, sent: sent}
		if err == nil {
			known.next = results[i].Leased
		}
		f.result <- known
	}
	return unknown
}

// resultOf returns the result of one report: the error of the request, or that of the report itself.
func resultOf(results []api.Reported, i int, err error) error {
	switch {
	case err != nil:
		return err
	case i >= len(results):
		return job.Errorf(job.Unavailable, "report", "", "the answer has no result for the report")
	case results[i].Problem != nil:
		p := results[i].Problem
		return &job.Error{Op: "report", Kind: p.Kind, ID: results[i].Job, Err: p}
	}
	return nil
}

// reportOf returns a report as the API has it.
func reportOf(p *remote.Report) (api.Report, error) {
	r := api.Report{
		Job: p.Job, Epoch: p.Epoch, Event: p.Event, Wait: p.Wait, Retry: p.Retry, After: p.After.Seconds(), Fail: p.Fail,
		Cause: p.Cause, Yield: p.Yield, Children: p.Children, Again: p.Again, Data: p.Data, Merge: p.Merge, Message: p.Message,
		Priority: p.Priority, Tags: p.Tags, Words: p.Words, Bytes: p.Bytes, Deadline: p.Deadline,
		Advanced: p.Advanced, Tasks: p.Tasks,
	}
	for _, m := range p.Messages {
		r.Messages = append(r.Messages, api.Letter(m))
	}
	for i := range p.Log {
		l := &p.Log[i]
		r.Log = append(r.Log, api.LogEntry{N: l.Number, Level: strings.ToLower(l.Level.String()), Text: l.Text,
			Attrs: l.Attrs})
	}
	if p.Progress != nil {
		r.Progress = &api.WorkProgress{Done: p.Progress.Done, Total: p.Progress.Total, Unit: p.Progress.Unit}
	}
	if p.Spawn == nil {
		return r, nil
	}
	r.Spawn = &api.Spawn{Expected: p.Spawn.Expected, From: p.Spawn.From}
	for i := range p.Spawn.Jobs {
		c := &p.Spawn.Jobs[i]
		spec, err := json.Marshal(c.Spec)
		if err != nil {
			return r, job.Errorf(job.Internal, "encode", p.Job, "spec: %w", err)
		}
		r.Spawn.Jobs = append(r.Spawn.Jobs, api.Order{
			Kind: c.Kind, Priority: c.Priority, Group: c.Group, Owner: c.Owner, Key: c.Key, Tags: c.Tags,
			Words: c.Words, Requires: c.Requires, Bytes: c.Bytes, Due: c.Due, Deadline: c.Deadline, Spec: spec,
			Note: c.Note, Actor: c.Actor,
		})
	}
	return r, nil
}

// backoff is a pause that doubles from 100 ms to 5 s, each shortened at random by up to half.
type backoff struct{ next time.Duration }

const (
	firstPause = 100 * time.Millisecond
	mostPause  = 5 * time.Second
)

func newBackoff() *backoff { return &backoff{firstPause} }

func (b *backoff) reset() { b.next = firstPause }

// wait pauses, or returns when ctx ends.
func (b *backoff) wait(ctx context.Context) {
	timer := time.NewTimer(b.next/2 + rand.N(b.next/2))
	defer timer.Stop()
	b.next = min(2*b.next, mostPause)
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
