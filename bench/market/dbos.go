package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
)

// dbosPeer is DBOS with its database.
type dbosPeer struct {
	*database
	dbos    dbos.Context
	options []dbos.WorkflowOption
	flow    dbos.Workflow[string, string]
}

// openDBOS has a workflow of six steps that do nothing, called directly: the process that calls it runs it at once. The
// insertion, the output of each step and the end are a commit each.
func openDBOS(ctx context.Context, s setting) (peer, error) { return startDBOS(ctx, s, false) }

// openDBOSQueue submits the workflow to a queue, which is polled.
func openDBOSQueue(ctx context.Context, s setting) (peer, error) { return startDBOS(ctx, s, true) }

func startDBOS(ctx context.Context, s setting, queued bool) (peer, error) {
	d, err := openPostgres(ctx, s.dir, poolSize(s.callers)+4)
	if err != nil {
		return nil, err
	}
	p := &dbosPeer{database: d}
	if err := p.start(ctx, s, queued); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return p, nil
}

func (p *dbosPeer) start(ctx context.Context, s setting, queued bool) error {
	c, err := dbos.NewContext(context.WithoutCancel(ctx), dbos.Config{
		AppName: "market", SystemDBPool: p.pool, Logger: slog.New(slog.DiscardHandler),
		ApplicationVersion: "1", ExecutorID: "market",
	})
	if err != nil {
		return err
	}
	p.dbos = c
	p.flow = func(c dbos.Context, text string) (string, error) {
		s.begin()
		for range steps {
			step := func(context.Context) (string, error) { return "done", nil }
			if _, err := dbos.RunAsStep(c, step, dbos.WithStepName("stage")); err != nil {
				return "", err
			}
		}
		return text, nil
	}
	dbos.RegisterWorkflow(c, p.flow, dbos.WithWorkflowName("j8"))
	if err := dbos.Launch(c); err != nil {
		return err
	}
	if queued {
		queue, err := dbos.RegisterQueue(c, "market")
		if err != nil {
			return err
		}
		p.options = append(p.options, dbos.WithQueue(queue))
	}
	return nil
}

func (p *dbosPeer) do(_ context.Context, _ int64) error {
	handle, err := dbos.RunWorkflow(p.dbos, p.flow, payload, p.options...)
	if err != nil {
		return err
	}
	// the interval is of handles of workflows that a queue runs
	_, err = handle.GetResult(dbos.WithHandleTimeout(time.Minute), dbos.WithHandlePollingInterval(50*time.Millisecond))
	return err
}

func (p *dbosPeer) close() error {
	dbos.Shutdown(p.dbos, 5*time.Second)
	return p.database.close()
}
