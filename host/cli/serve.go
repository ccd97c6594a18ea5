package hostcli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/host"
	"github.com/stagepost/stagepost/internal/build"
	"github.com/stagepost/stagepost/internal/systemd"
	"github.com/stagepost/stagepost/quantity"
)

func (c *commands) serve() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Start a server",
		Long: `Starts a server on a data directory and works on its jobs until it gets SIGINT or SIGTERM.

It prints one line with its address and its data directory when it is ready, and a second one with the address of compute.listen if there is one. When it stops it takes no new jobs, gives running steps the time
of --grace, and releases what is not done by then. A second signal ends it at once; nothing is lost by that, but steps run again.

SIGHUP makes it read the configuration file anew: log.level changes at once, and applications read their own files again. Everything else changes by a
restart, which loses nothing.

Under systemd (Type=notify) it reports when it is ready, reloads and stops, and sends keep-alives (WatchdogSec=) only while the engine and the store
answer.

The exit code is 1 if the server cannot continue, for instance because the disk accepts no writes.`,
		Example: "  stagepost serve --data /srv/stagepost\n" +
			"  stagepost serve --data /srv/stagepost --listen 127.0.0.1:0 --slots 32",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.runServer(cmd) },
	}
	c.Settings.Bind(cmd.Flags(), "serve")
	c.Complete(cmd, "store", "sqlite", "mem")
	c.Complete(cmd, "log-level", "debug", "info", "warn", "error")
	c.Complete(cmd, "log-format", "text", "json")
	return cmd
}

// runServer works until a signal comes or the server cannot continue.
func (c *commands) runServer(cmd *cobra.Command) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	again := make(chan os.Signal, 1) // from the beginning to the end, for an early or late one must not kill
	signal.Notify(again, host.ReloadSignals...)
	var level slog.LevelVar
	log, err := host.NewLog(c.Err, c.Settings, &level)
	if err != nil {
		return err
	}
	systemd, err := systemd.Find()
	if err != nil {
		return cli.Usage(err)
	}
	r, err := host.Start(ctx, c.host, log)
	if err != nil {
		return err
	}
	if c.Out.Mode == cli.ModeJSON {
		ready := map[string]string{"address": r.URL, "data": r.Data}
		for _, endpoint := range r.Endpoints() {
			ready[endpoint.Name] = endpoint.URL()
		}
		err = c.Out.JSON(ready)
	} else {
		c.Out.Line("stagepost %s: %s, data in %s", build.Version(), r.URL, r.Data)
		if err == nil && r.Open > 0 {
			_, err = fmt.Fprintf(c.Out, "%d open %s recovered\n", r.Open, cli.Plural(r.Open, "job", "jobs"))
		}
		for _, endpoint := range r.Endpoints() {
			if err == nil {
				_, err = fmt.Fprintf(c.Out, "%s: %s\n", endpoint.Title, endpoint.URL())
			}
		}
	}
	if link := r.FirstAdmin(); link != "" && err == nil {
		_, err = fmt.Fprintf(c.Err, "no admin exists: create the first one within an hour at\n%s\n", link)
	}
	stopping := c.notify(cmd, systemd, r, again, &level)
	select {
	case <-ctx.Done():
		stop() // from now on a signal ends the program
		log.Info("stopping", "grace", quantity.FormatDuration(c.host.Grace))
	case <-r.Failed():
	}
	stopping()
	return errors.Join(err, r.Stop())
}

// notify notifies the service manager that the server is ready, sends keep-alives and reloads until the returned
// function is called, which notifies it that the server stops.
func (c *commands) notify(cmd *cobra.Command, m systemd.Manager, r *host.Server, again <-chan os.Signal,
	level *slog.LevelVar) (stopping func()) {
	ctx, cancel := context.WithCancel(cmd.Context())
	send := func(assignments ...string) {
		if err := m.Notify(assignments...); err != nil {
			r.Log.Warn("service manager", "error", err)
		}
	}
	send("READY=1", "STATUS="+r.Status())
	go r.Reloads(ctx, m, again, level, func() (*host.Settings, error) { return c.host.Again(cmd.Flags()) })
	go m.Alive(ctx, r.Log, r.Probe, r.Status) // its end is not awaited: a probe may hang
	return func() {
		send("STOPPING=1", "STATUS=running steps get their grace")
		cancel()
	}
}
