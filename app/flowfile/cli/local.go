package flowcli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	flowhttp "github.com/stagepost/stagepost/app/flowfile/http"
	flowserve "github.com/stagepost/stagepost/app/flowfile/serve"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/joblog"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/internal/build"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/listen"
	"github.com/stagepost/stagepost/store/sqlite"
)

// localGrace is what tasks get to return when the process is asked to end for the second time.
const localGrace = time.Second

// localFlows is the flows' part of a server in this process, which no one else can reach: the same store, engine and
// API, without a port.
type localFlows struct {
	client  *client.Client
	engine  *engine.Engine
	server  *server.Server
	http    *http.Server
	closers []io.Closer // closed in reverse order
	working sync.WaitGroup
	cancel  context.CancelFunc
	failure error // of the engine; read it when working is done
}

// openLocal opens the flows in the data directory, which must have a store unless one is to be made. No one works on
// them before work is called.
func (c *commands) openLocal(ctx context.Context, create bool) (*localFlows, error) {
	if c.Settings.Server != "" {
		return nil, cli.Usagef("either --local or --server")
	}
	if c.Served(ctx) {
		return nil, job.Errorf(job.Refused, "open", "", "a server works on %s: leave out --local", c.Settings.Data)
	}
	c.Server = nil // the one who the address of an earlier server led to
	dir, err := filepath.Abs(c.Settings.Data)
	if err != nil {
		return nil, err
	}
	if !create {
		if err := c.ownStore(); err != nil {
			return nil, err
		}
		if _, err := os.Stat(filepath.Join(dir, "stagepost.db")); err != nil {
			return nil, job.Errorf(job.NotFound, cli.NoStore, "", "there is no store in %s", dir)
		}
	}
	c.Local = " --local --data " + dir
	l := &localFlows{}
	if err := l.open(c, dir, slog.New(slog.NewTextHandler(c.Err,
		&slog.HandlerOptions{Level: slog.LevelWarn}))); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// ownStore refuses a data directory whose jobs are in PostgreSQL.
func (c *commands) ownStore() error {
	return c.Settings.OwnStore("start a server and leave out --local, or name another directory with --data")
}

// open joins the parts.
func (l *localFlows) open(c *commands, dir string, log *slog.Logger) error {
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	store, err := sqlite.Open(dir, sqlite.Options{})
	if err != nil {
		return err
	}
	l.closers = append(l.closers, store)
	logs, err := joblog.Open(filepath.Join(dir, "logs"), joblog.Options{})
	if err != nil {
		return err
	}
	l.closers = append(l.closers, logs)
	allowed := *c.settings
	allowed.Commands, allowed.HTTP = true, true // it is the user who runs them
	app, err := flowserve.Open(&allowed, dir, dir, nil, log)
	if err != nil {
		return err
	}
	l.closers = append(l.closers, app)
	l.engine, err = engine.New(store, app.Works(), engine.Options{
		Grace: localGrace, JobLogs: logs, Deliver: app.Deliver(),
		Retain: engine.Retention{Unattended: true},
	})
	if err != nil {
		return err
	}
	app.Bind(l.engine)
	return l.serve(server.Options{Engine: l.engine, Logs: logs, Lives: c.Lives, Version: build.Version(),
		ReasonsRequired: c.Settings.ReasonsRequired()}, app)
}

// serve answers the client of this process.
func (l *localFlows) serve(o server.Options, app *flowserve.App) error {
	pipe := newPipeListener()
	var err error
	transport := &http.Transport{DialContext: pipe.Dial}
	l.client, err = client.New("http://localhost", client.Options{HTTP: &http.Client{Transport: transport},
		Agent: "stagepost/" + build.Version()})
	if err != nil {
		return err
	}
	l.server = server.New(o)
	l.server.Add(flowhttp.Part(l.server, app))
	l.http = listen.HTTP(l.server, slog.New(slog.DiscardHandler))
	l.working.Go(func() { _ = l.http.Serve(pipe) }) // it ends with close
	return nil
}

// work has the engine work on what is in the store.
func (l *localFlows) work() {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.working.Go(func() { l.failure = l.engine.Run(ctx) })
}

// stop ends the work: tasks that run get their grace, and are done again when the flow is resumed.
func (l *localFlows) stop() error { return l.close() }

func (l *localFlows) close() error {
	if l.cancel != nil {
		l.cancel()
	}
	if l.server != nil {
		l.client.Close()
		l.server.Close()
		_ = l.http.Close()
	}
	l.working.Wait()
	mistakes := []error{l.failure}
	for i := len(l.closers) - 1; i >= 0; i-- {
		mistakes = append(mistakes, l.closers[i].Close())
	}
	l.closers = nil
	return errors.Join(mistakes...)
}

// runLocal runs a flow in this process.
func (c *commands) runLocal(cmd *cobra.Command, o client.FlowOrder, detach bool) (err error) {
	if detach {
		return cli.Usagef("--detach is for a server: with --local the flow runs in this process")
	}
	temporary := c.Settings.Origin["data"] == "default"
	if temporary {
		if c.Settings.Data, err = os.MkdirTemp("", "stagepost-flow-"); err != nil {
			return err
		}
	} else if err := c.ownStore(); err != nil {
		return err
	}
	ctx, cancel := c.Patient(cmd)
	defer cancel()
	l, err := c.openLocal(ctx, true)
	if err != nil {
		return err
	}
	j, err := l.client.SubmitFlow(ctx, o)
	if err != nil {
		err = errors.Join(err, l.stop())
		if temporary {
			err = errors.Join(err, os.RemoveAll(c.Settings.Data))
		}
		return err
	}
	c.Note("kept in %s", c.Settings.Data)
	if err := c.begunFlow(&j); err != nil {
		return errors.Join(err, l.stop())
	}
	return c.finishLocal(ctx, l, &j, temporary)
}

// resumeLocal lets a flow go on in this process. One that a killed process left needs no event: the engine finds it.
func (c *commands) resumeLocal(cmd *cobra.Command, name string, a client.Act, workers int) error {
	if workers > 0 {
		c.settings.Workers = workers
	}
	ctx, cancel := c.Patient(cmd)
	defer cancel()
	l, err := c.openLocal(ctx, false)
	if err != nil {
		return err
	}
	j, err := c.flowOf(ctx, l.client, name)
	if err == nil && (j.Ended || j.State == flow.Suspended) {
		j, err = l.client.Do(ctx, j.ID, flow.Run, a)
	}
	if err != nil {
		return errors.Join(err, l.stop())
	}
	return c.finishLocal(ctx, l, &j, false)
}

// others reports the flows that continue as well, because they are open in the same store.
func (c *commands) others(ctx context.Context, l *localFlows, id job.ID) error {
	open := false
	page, err := l.client.Jobs(ctx, job.Query{Kinds: []job.Kind{client.FlowKind}, Ended: &open, Limit: 1000})
	for i := range page.Jobs {
		if j := &page.Jobs[i]; j.ID != id && j.State != flow.Suspended {
			c.Note("%s goes on as well: it is %s", j.ID, j.State)
		}
	}
	return err
}

// finishLocal runs a flow in this process and follows it until it ends, pauses or is left; then it reports how to go
// on.
func (c *commands) finishLocal(ctx context.Context, l *localFlows, j *client.Job, temporary bool) error {
	id := j.ID
	suspend := func() (string, error) {
		_, err := l.client.Do(ctx, id, flow.Suspend, client.Act{Actor: cli.Whoami(""), Note: "interrupted"})
		if job.KindOf(err) == job.Refused {
			err = nil // it pauses or ends anyhow
		}
		return "it pauses when what runs has ended; Ctrl-C once more ends it at once", err
	}
	if err := c.others(ctx, l, id); err != nil {
		return errors.Join(err, l.stop())
	}
	l.work()
	v, err := c.followFlow(ctx, l.client, id, max(j.Seq-1, 0), suspend)
	if err == nil {
		err = c.endedFlow(&v)
	}
	err = errors.Join(err, l.stop())
	if errors.Is(err, errLeft) {
		err = errors.New(string(id) + " is left as it is")
	}
	if temporary && v.Job.Ended && v.Job.Outcome == lifecycle.OK && err == nil {
		return os.RemoveAll(c.Settings.Data)
	}
	if !v.Job.Ended && v.Job.State != flow.Suspended {
		c.Note("stagepost flow resume %s%s goes on with it", id, c.Local)
	}
	return err
}
