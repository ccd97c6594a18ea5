package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func (c *cli) serve() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Start a server",
		Long: `Starts a server on a data directory and works on its jobs until it gets SIGINT or SIGTERM.

It prints one line with its address and its data directory when it is ready. When it stops it takes no new jobs, gives running steps the time
of --grace, and hands back what is not done by then. A second signal ends it at once; nothing is lost by that, but steps run again.

The exit code is 1 if the server had to give up, as when the disk no longer takes what is written.`,
		Example: "  stagepost serve --data /srv/stagepost\n  stagepost serve --data /srv/stagepost --listen 127.0.0.1:0 --slots 32",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			log, err := newLog(c.err, c.settings)
			if err != nil {
				return err
			}
			site, missing := restoreDemo(c.settings.Data)
			if site != nil {
				defer site.Close()
			}
			r, err := startServer(ctx, c.settings, log)
			if err != nil {
				return err
			}
			if missing != nil { // only now: a second server on the directory is told of the first, not of the site's port
				return errors.Join(missing, r.Stop())
			}
			if c.out.mode == modeJSON {
				err = c.out.json(map[string]string{"address": r.URL, "data": r.Data})
			} else {
				_, err = fmt.Fprintf(c.out, "stagepost %s: %s, data in %s\n", version, r.URL, r.Data)
			}
			select {
			case <-ctx.Done():
				stop() // from now on a signal ends the program
				log.Info("stopping", "grace", c.settings.Grace)
			case <-r.Failed():
			}
			return errors.Join(err, r.Stop())
		},
	}
	c.settings.bind(cmd.Flags(), "serve")
	c.complete(cmd, "store", "sqlite", "mem")
	c.complete(cmd, "log-level", "debug", "info", "warn", "error")
	c.complete(cmd, "log-format", "text", "json")
	return cmd
}

// newLog makes the server's own log.
func newLog(w io.Writer, s *settings) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return nil, usagef("log.level must be debug, info, warn or error, not %q", s.LogLevel)
	}
	o := &slog.HandlerOptions{Level: level}
	switch s.LogFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, usagef("log.format must be text or json, not %q", s.LogFormat)
}
