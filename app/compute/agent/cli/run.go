package agentcli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/compute/agent"
	"github.com/stagepost/stagepost/app/compute/serviceconfig"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/edge/tunnel"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/host"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/quantity"
	"github.com/stagepost/stagepost/store/sqlite"
)

// runningAgent is an agent in this process.
type runningAgent struct {
	app     *agent.App
	store   *sqlite.Store
	sandbox *sandbox.Sandbox
	http    http.Handler
	doors   []door
	log     *slog.Logger
	url     string
	address string             // file with url
	stop    context.CancelFunc // of the engine
	stopped sync.WaitGroup
	failed  chan error // has capacity for all failures
}

// door is an entry, with the server of its connections.
type door struct {
	net.Listener
	server *http.Server
}

// runAgent works until a signal comes or the agent cannot go on.
func (c *commands) runAgent(cmd *cobra.Command, a *agentSettings) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var level slog.LevelVar
	log, err := host.NewLog(c.Err, c.Settings, &level)
	if err != nil {
		return err
	}
	r, err := c.startAgent(ctx, a, log)
	if err != nil {
		return err
	}
	if c.Out.Mode == cli.ModeJSON {
		err = c.Out.JSON(map[string]string{"name": a.name, "address": r.url, "server": a.server, "data": a.data,
			"sandbox": r.sandbox.Tier()})
	} else {
		where := r.url
		if where == "" {
			where = "reached through " + a.server
		}
		_, err = fmt.Fprintf(c.Out, "stagepost agent %s: %s, sandbox %s, data in %s\n", a.name, where, r.sandbox.Tier(),
			a.data)
	}
	select {
	case <-ctx.Done():
		stop() // from now on a signal ends the program
		log.Info("stopping", "grace", quantity.FormatDuration(a.grace))
	case broken := <-r.failed:
		err = errors.Join(err, broken)
	}
	return errors.Join(err, r.close(a.grace))
}

// startAgent opens store, sandbox, application and doors. What is open when it fails is closed.
func (c *commands) startAgent(ctx context.Context, a *agentSettings, log *slog.Logger) (r *runningAgent, err error) {
	r = &runningAgent{log: log, stop: func() {}, failed: make(chan error, 4)}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close(0))
		}
	}()
	token, err := a.token()
	if err != nil {
		return r, err
	}
	o, err := a.options(log)
	if err != nil {
		return r, err
	}
	if a.data, err = filepath.Abs(a.data); err != nil {
		return r, err
	}
	for _, dir := range []string{a.data, a.store} {
		if err := durable.MkdirAll(dir, 0o700); err != nil {
			return r, err
		}
	}
	if r.store, err = sqlite.Open(a.store, sqlite.Options{Address: a.listen}); err != nil {
		// first: it is also the lock of the directory
		return r, err
	}
	if r.sandbox, err = sandbox.Open(ctx, sandbox.Options{Tier: a.sandbox, Name: "stagepost-" + a.name,
		Log: log}); err != nil {
		return r, fmt.Errorf("sandbox: %w", err)
	}
	if err := a.keepToken(r.sandbox, c.Settings.Token, c.Settings.Identity); err != nil {
		return r, err
	}
	o.Runner, o.Sandbox = r.sandbox, r.sandbox.Tier()
	if r.app, err = agent.New(o); err != nil {
		return r, err
	}
	e, err := engine.New(r.store, r.app.Works(), engine.Options{
		Name: "agent", Lease: time.Minute, Grace: 5 * time.Second, Log: log,
		Retain: engine.Retention{Records: a.records, Clear: r.app.Clear, Unattended: true},
	})
	if err != nil {
		return r, err
	}
	if r.app.Bind(e); r.app.Fault() != nil {
		return r, r.app.Fault()
	}
	served := agent.HandlerOptions{Token: token}
	if a.module.Agent != nil {
		served.Other, err = a.module.Agent(ctx, r.app, serviceconfig.AgentOptions{Token: token, Strict: a.env.Strict,
			Log: log})
		if err != nil {
			return r, err
		}
	}
	r.http = r.app.Handler(served)
	if err := c.openDoors(ctx, a, r); err != nil {
		return r, err
	}
	r.run(e)
	return r, nil
}

// openDoors opens the address and the tunnel.
func (c *commands) openDoors(ctx context.Context, a *agentSettings, r *runningAgent) error {
	if a.listen != "" {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.listen)
		if err != nil {
			return cli.Usage(err)
		}
		r.doors = append(r.doors, door{l, agent.Server(r.http, r.log)})
		r.url = "http://" + l.Addr().String()
		if a.anyone && a.tokenFile == "" {
			r.log.Warn("the agent has no token: every caller that reaches it can run commands on this machine",
				"address", r.url)
		}
		r.address = filepath.Join(a.data, "address")
		if err := host.WriteAddress(r.address, r.url); err != nil {
			return err
		}
	}
	if a.server == "" {
		return nil
	}
	header := http.Header{}
	text := os.Getenv(cli.TokenVariable)
	if text == "" {
		var err error
		if text, err = readAgentToken(c.Settings.Token); err != nil {
			return err
		}
	}
	if text != "" {
		header.Set("Authorization", "Bearer "+text)
	}
	config, err := c.TLS()
	if err != nil {
		return err
	}
	if err := c.RenewCredential(ctx, r.log); err != nil {
		return err
	}
	l, err := tunnel.Listen(context.WithoutCancel(ctx), tunnel.Options{URL: a.server, Header: header, Name: a.name,
		TLS: config, Log: r.log})
	if err != nil {
		return cli.Usage(err)
	}
	r.doors = append(r.doors, door{l, l.Server(r.http)})
	return nil
}

// run starts the long-lived parts.
func (r *runningAgent) run(e *engine.Engine) {
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.stopped.Go(func() {
		if err := e.Run(ctx); err != nil && ctx.Err() == nil {
			r.failed <- fmt.Errorf("engine: %w", err)
		}
	})
	for _, l := range r.doors {
		r.stopped.Go(func() {
			if err := l.server.Serve(l); !errors.Is(err, http.ErrServerClosed) && ctx.Err() == nil {
				r.failed <- fmt.Errorf("listen: %w", err)
			}
		})
	}
	r.stopped.Go(func() {
		select {
		case err := <-r.store.Dead():
			r.failed <- fmt.Errorf("the store cannot go on: %w", err)
		case <-ctx.Done():
		}
	})
}

// lastWords is how long servers have to learn of payloads that ended because the agent stops.
const lastWords = 2 * time.Second

// close ends the agent: payloads get their grace and then their end, servers learn of it, then all is closed.
func (r *runningAgent) close(grace time.Duration) error {
	var errs []error
	if r.app != nil && r.app.Fault() == nil && len(r.doors) > 0 {
		if r.app.Halt(context.Background(), grace) {
			time.Sleep(lastWords) // no signal reports that a server has asked
		}
	}
	r.stop()
	if r.app != nil {
		errs = append(errs, r.app.Close()) // ends open streams, too
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	for _, l := range r.doors {
		if l.server.Shutdown(ctx) != nil {
			errs = append(errs, l.server.Close())
		}
		_ = l.Close() // the server has closed those that it served
	}
	r.stopped.Wait()
	if r.address != "" {
		errs = append(errs, os.Remove(r.address))
	}
	if r.sandbox != nil {
		errs = append(errs, r.sandbox.Close())
	}
	if r.store != nil {
		errs = append(errs, r.store.Close())
	}
	return errors.Join(errs...)
}
