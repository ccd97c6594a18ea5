package worker_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/joblog"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/worker"
)

// paper is the lifecycle of the tests: a queue, a state of work with two exits, and ends.
var paper = lifecycle.Must("test.paper",
	lifecycle.OnQueue("Sent", "it waits for a printer",
		lifecycle.OnPass("begin", "Printing", lifecycle.Worker, "a printer is free"),
		lifecycle.OnFail("fail", "Torn", lifecycle.Worker|lifecycle.Timer, "it cannot be printed")),
	lifecycle.OnWork("Printing", "it is printed",
		lifecycle.OnPass("finish", "Printed", lifecycle.Worker, "it is printed"),
		lifecycle.OnFail("tear", "Torn", lifecycle.Worker|lifecycle.Timer, "the paper is torn")),
	lifecycle.OnEnd("Printed", lifecycle.OK, "it is printed"),
	lifecycle.OnEnd("Torn", lifecycle.Failed, "it is torn"),
)

const kind job.Kind = "test.paper"

// pass is a step that succeeds.
func pass(context.Context, *engine.Run) error { return nil }

// prints is the work with a step for Printing.
func prints(step engine.Step) engine.Work {
	return engine.Work{Life: paper, Prefix: "pap", Steps: map[lifecycle.State]engine.Step{"Sent": pass, "Printing": step},
		Policy: engine.Policy{MaxAttempts: 2, Backoff: engine.Backoff{First: time.Second, Max: time.Second}}}
}

// errCut is the error of a connection that is cut.
var errCut = &job.Error{Op: "request", Kind: job.Unavailable, Err: errors.New("connection reset")}

// direct is the worker API of an engine, over a network that can be cut.
type direct struct {
	*engine.Engine

	mu      sync.Mutex
	calls   map[string]int
	granted int // jobs by claims
	// cut is called for each request with its operation and number from 1: the request is lost, or its answer
	cut  func(op string, n int) (request, answer bool)
	hang chan struct{} // not nil: requests wait until it is closed, and are lost
}

func (d *direct) call(ctx context.Context, op string, do func() error) error {
	d.mu.Lock()
	if d.calls == nil {
		d.calls = map[string]int{}
	}
	d.calls[op]++
	n, hang := d.calls[op], d.hang
	d.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
		}
		return errCut
	}
	var request, answer bool
	if d.cut != nil {
		request, answer = d.cut(op, n)
	}
	if request {
		return errCut
	}
	if err := do(); err != nil {
		return err
	}
	if answer {
		return errCut
	}
	return nil
}

// stop makes requests hang until the returned function is called.
func (d *direct) stop() (resume func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	hang := make(chan struct{})
	d.hang = hang
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.hang = nil
		close(hang)
	}
}

func (d *direct) Claim(ctx context.Context, c api.Claim) (out []api.Leased, err error) {
	err = d.call(ctx, "claim", func() error {
		for end := time.Now().Add(duration(c.Wait)); ; {
			jobs, err := d.Remote().Claim(ctx, remote.Claim{
				Worker: c.Worker, From: c.From, N: c.N, Lease: duration(c.Lease), Labels: c.Labels})
			for i := range jobs {
				out = append(out, api.LeasedOf(&jobs[i]))
			}
			d.mu.Lock()
			d.granted += len(jobs)
			d.mu.Unlock()
			if err != nil || len(out) > 0 || !time.Now().Before(end) {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Second):
			}
		}
	})
	if err != nil {
		out = nil
	}
	return out, err
}

func duration(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (d *direct) Renew(ctx context.Context, r api.Renewal) (lost []job.Lease, err error) {
	err = d.call(ctx, "renew", func() error {
		lost, err = d.Remote().Renew(ctx, r.Worker, r.Leases, duration(r.Lease))
		return err
	})
	return lost, err
}

func (d *direct) Report(ctx context.Context, r api.Reports) ([]api.Reported, error) {
	return d.reported(ctx, "report", r, false)
}

func (d *direct) Update(ctx context.Context, r api.Reports) ([]api.Reported, error) {
	return d.reported(ctx, "update", r, true)
}

func (d *direct) reported(ctx context.Context, op string, r api.Reports, keep bool) (out []api.Reported, err error) {
	err = d.call(ctx, op, func() error {
		for i := range r.Reports {
			j, err := d.Store().Get(ctx, r.Reports[i].Job)
			if err != nil {
				return err
			}
			report, err := server.ReportOf(&r.Reports[i], keep)
			if err != nil {
				return err
			}
			report.Lease = duration(r.Lease)
			results, err := d.Remote().Report(ctx, r.Worker, []job.Job{j}, []remote.Report{report})
			if err != nil {
				return err
			}
			now := &results[0].Job
			one := api.Reported{Job: j.ID, State: now.State, Epoch: now.Epoch}
			if one.Held = now.Worker == r.Worker && !now.Ended; one.Held && r.Lease > 0 {
				leased := api.LeasedOf(now)
				leased.Spec = nil
				one.Leased = &leased
			}
			if err := results[0].Err; err != nil {
				one.Problem = &api.Problem{Kind: job.KindOf(err), Detail: job.Reason(err)}
			}
			out = append(out, one)
		}
		return nil
	})
	if err != nil {
		out = nil
	}
	return out, err
}

func (d *direct) WorkerJob(ctx context.Context, l api.WorkerLease) (a api.WorkerJob, err error) {
	err = d.call(ctx, "job", func() error {
		j, err := d.Store().Get(ctx, l.Job)
		if err == nil && (j.Epoch != l.Epoch || j.Worker != l.Worker) {
			err = job.Errorf(job.Stale, "read", l.Job, "the claim is over")
		}
		if err != nil {
			return err
		}
		tasks, err := d.Store().Tasks(ctx, l.Job)
		a = api.WorkerJob{Job: api.LeasedOf(&j), Tasks: tasks}
		return err
	})
	return a, err
}

// harness is a server whose jobs remote workers do.
type harness struct {
	*engine.Engine
	t    *testing.T
	logs *joblog.Logs
}

// bubble runs a test with a server on virtual time.
func bubble(t *testing.T, do func(h *harness), changes ...func(*engine.Work)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		logs, err := joblog.Open(t.TempDir(), joblog.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer logs.Close()
		w := prints(nil)
		w.Steps, w.Outside = nil, true
		for _, change := range changes {
			change(&w)
		}
		e, err := engine.New(mem.New(), []engine.Work{w}, engine.Options{JobLogs: logs})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		do(&harness{e, t, logs})
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// work starts a worker. stop stops it and returns the error of Run.
func (h *harness) work(d *direct, step engine.Step, o worker.Options, from ...job.KindState) (stop func() error) {
	h.t.Helper()
	if o.Name == "" {
		o.Name = "w1"
	}
	o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	w, err := worker.New(d, []engine.Work{prints(step)}, from, o)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

func (h *harness) submit() job.Job {
	h.t.Helper()
	j, err := h.Submit(h.t.Context(), engine.Order{Kind: kind, Spec: map[string]int{"pages": 3}})
	if err != nil {
		h.t.Fatal(err)
	}
	return j
}

// end waits for the end of a job.
func (h *harness) end(id job.ID) job.Job {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 24*time.Hour)
	defer cancel()
	j, err := h.Await(ctx, id, func(j *job.Job) bool { return j.Ended })
	if err != nil {
		j, _ = h.Store().Get(context.Background(), id)
		h.t.Fatalf("%v: %s in %s, claimed by %q", err, id, j.State, j.Worker)
	}
	return j
}

// waits waits until a job is in a state and no worker has it.
func (h *harness) waits(id job.ID, state lifecycle.State) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Hour)
	defer cancel()
	waits := func(j *job.Job) bool { return j.State == state && !j.Claimed() }
	if j, err := h.Await(ctx, id, waits); err != nil {
		h.t.Fatalf("%v: it is %s, claimed by %q", err, j.State, j.Worker)
	}
}

// begun waits until a worker has begun to print.
func (h *harness) begun(id job.ID) {
	h.t.Helper()
	begun := func(j *job.Job) bool { return j.State == "Printing" && j.Claimed() }
	if _, err := h.Await(h.t.Context(), id, begun); err != nil {
		h.t.Fatal(err)
	}
	synctest.Wait() // the worker has the answer, and its step runs
}

// events counts the events of a job by name.
func (h *harness) events(id job.ID) map[lifecycle.Event]int {
	h.t.Helper()
	history, err := h.Store().History(h.t.Context(), id, 0, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	n := map[lifecycle.Event]int{}
	for _, e := range history {
		n[e.Event]++
	}
	return n
}
