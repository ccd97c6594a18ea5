package flowserve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/stagepost/stagepost/app/flowfile"
	flowhttp "github.com/stagepost/stagepost/app/flowfile/http"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/module"
	"github.com/stagepost/stagepost/server"
)

// App is what brings flows into a server.
type App struct {
	*durable.Flows
	files flowfile.Options
	blobs durable.Blobs
	box   *sandbox.Sandbox // nil: commands are off or not confined
}

// Open makes the application: flows of files, which may do what the settings state. Large values are kept below dir,
// the directories of commands below own, which is this process's alone. The meter is notified what flows do; nil: no
// one is.
func Open(s *Settings, dir, own string, meter flow.Meter, log *slog.Logger) (a *App, err error) {
	if s.Workers < 1 || s.Slots < 1 {
		return nil, cli.Usagef("flow.workers and flow.slots must be at least 1")
	}
	a = &App{files: flowfile.Options{Commands: s.Commands}}
	defer func() {
		if err != nil {
			a, err = nil, errors.Join(err, a.Close())
		}
	}()
	if s.Commands {
		if a.files.Commander, a.box, err = openCommands(s, own, log); err != nil {
			return a, err
		}
	}
	if s.HTTP {
		a.files.HTTP = fetch.New(fetch.Policy{Log: log})
	}
	a.blobs = durable.Dir(filepath.Join(dir, "flows"))
	a.Flows, err = durable.New(durable.Options{
		Factories: map[string]durable.Factory{flowfile.FactoryName: flowfile.Factory(a.files)},
		Workers:   flow.NewPool(s.Workers), Slots: s.Slots,
		Blobs: a.blobs, Keep: s.Keep, Attach: func(job.ID, flow.Item) []flow.Listener {
			if meter == nil {
				return nil
			}
			return []flow.Listener{flow.Metering(meter)}
		},
	})
	return a, err
}

// File reads a flow file with what files may do here.
func (a *App) File(text []byte) (*flowfile.File, error) {
	f, err := flowfile.Parse(text, a.files)
	if err != nil {
		if _, wrong := flowfile.Parse(text, anyFile()); wrong == nil { // nothing but what is off here
			err = fmt.Errorf("%w; stagepost serve allows commands with flow.commands and requests with flow.http", err)
		}
	}
	return f, err
}

// Works are the kinds that the engine is to be made with.
func (a *App) Works() []engine.Work {
	w := a.Work()
	w.Allow = allowFlow
	return []engine.Work{w}
}

// allowFlow is what the events of people need beyond the lifecycle of flows.
func allowFlow(_ context.Context, j *job.Job, a *operator.Act) (job.Require, error) {
	if a.Event == flow.Delete && j.State == flow.FailureState && !a.Confirm {
		return job.Require{}, job.Errorf(job.Refused, "delete", j.ID,
			"not all that it did is rolled back: cancel rolls it back; or confirm that it is deleted as it is")
	}
	if a.Event == flow.Reset && !a.Confirm {
		return job.Require{}, job.Errorf(job.Refused, "reset", j.ID,
			"a reset puts away all results and takes nothing back of what was done: confirm that this is meant")
	}
	return job.Require{}, nil
}

// Deliver gives the topics of the outbox that the application delivers.
func (a *App) Deliver() map[string]engine.Deliver { return a.Flows.Deliver() }

// Clear removes the large values of a flow whose record is about to be purged.
func (a *App) Clear(ctx context.Context, j *job.Job) error {
	if j.Kind != durable.Kind {
		return nil
	}
	return a.blobs.Remove(ctx, j.ID)
}

// Close ends the application: no command runs any more. It may be called twice.
func (a *App) Close() error {
	if a.box == nil {
		return nil
	}
	return a.box.Close()
}

// anyFile lets flow files do all that they can, where they are only examined.
func anyFile() flowfile.Options {
	return flowfile.Options{Commands: true, HTTP: fetch.New(fetch.Policy{})}
}

// Part gives the routes. A nil app refuses every request.
func Part(s *server.Server, app module.App) server.Part {
	if a, ok := app.(*App); ok {
		return flowhttp.Part(s, a)
	}
	return flowhttp.Part(s, nil)
}
