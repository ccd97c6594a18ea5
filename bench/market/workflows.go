package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/history"
	"github.com/cschleiden/go-workflows/backend/sqlite"
	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/core"
	"github.com/cschleiden/go-workflows/worker"
	"github.com/cschleiden/go-workflows/workflow"
)

// workflowsPeer is go-workflows on SQLite.
type workflowsPeer struct {
	client *client.Client
	worker *worker.Worker
	back   backend.Backend
	cancel context.CancelFunc
	flow   func(ctx workflow.Context, text string) error
	waiting
}

// notifying is a backend that reports the end of a workflow once it is committed. The library's own way to wait for it
// is to poll, at last once a second.
type notifying struct {
	backend.Backend
	ended func(instance string)
}

// CompleteWorkflowTask is part of backend.Backend.
func (n notifying) CompleteWorkflowTask(ctx context.Context, task *backend.WorkflowTask,
	state core.WorkflowInstanceState, executed, activities, timers []*history.Event, events []*history.WorkflowEvent,
) error {
	err := n.Backend.CompleteWorkflowTask(ctx, task, state, executed, activities, timers, events)
	if err == nil && state == core.WorkflowInstanceStateFinished {
		n.ended(task.WorkflowInstance.InstanceID)
	}
	return err
}

// openWorkflows has a workflow of six activities that do nothing, with SQLite in synchronous=FULL. Beginning and end of
// each activity are commits.
func openWorkflows(ctx context.Context, s setting) (peer, error) {
	quiet := slog.New(slog.DiscardHandler)
	file := filepath.Join(s.dir, "workflows.db") + "?_pragma=synchronous(full)"
	p := &workflowsPeer{}
	p.back = notifying{
		sqlite.NewSqliteBackend(file, sqlite.WithBackendOptions(backend.WithLogger(quiet))),
		func(instance string) {
			var i int64
			if _, err := fmt.Sscan(instance, &i); err == nil {
				p.ended(i)
			}
		},
	}
	activity := func(context.Context) (string, error) { return "done", nil }
	p.flow = func(ctx workflow.Context, _ string) error {
		s.begin()
		for range steps {
			done := workflow.ExecuteActivity[string](ctx, workflow.DefaultActivityOptions, activity)
			if _, err := done.Get(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	o := worker.DefaultOptions
	o.WorkflowPollingInterval, o.ActivityPollingInterval = time.Millisecond, time.Millisecond
	p.worker = worker.New(p.back, &o)
	err := errors.Join(p.worker.RegisterWorkflow(p.flow), p.worker.RegisterActivity(activity))
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.cancel = cancel
	if err == nil {
		err = p.worker.Start(run)
	}
	if err != nil {
		cancel()
		return nil, errors.Join(err, p.back.Close())
	}
	p.client = client.New(p.back)
	return p, nil
}

func (p *workflowsPeer) do(ctx context.Context, i int64) error {
	return p.call(ctx, i, func() error {
		o := client.WorkflowInstanceOptions{InstanceID: fmt.Sprint(i)}
		_, err := p.client.CreateWorkflowInstance(ctx, o, p.flow, payload)
		return err
	})
}

func (p *workflowsPeer) close() error {
	p.cancel()
	return errors.Join(p.worker.WaitForCompletion(), p.back.Close())
}
