package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/pflag"

	"github.com/stagepost/stagepost/internal/systemd"
	"github.com/stagepost/stagepost/module"
)

// Reloads reads the configuration again at each signal until ctx ends, and notifies the service manager when that
// begins and ends. A mistake in the new configuration is logged, and the server keeps the old one.
func (r *Server) Reloads(ctx context.Context, m systemd.Manager, again <-chan os.Signal, level *slog.LevelVar,
	read func() (*Settings, error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-again:
		}
		note := []string{"RELOADING=1"}
		if usec, ok := systemd.Monotonic(); ok {
			note = append(note, fmt.Sprintf("MONOTONIC_USEC=%d", usec))
		}
		err := m.Notify(note...)
		if err := r.reload(level, read); err != nil {
			r.Log.Error("reload", "error", err)
		} else {
			r.Log.Info("reloaded", "log.level", level.Level())
		}
		if err = errors.Join(err, m.Notify("READY=1", "STATUS="+r.Status())); err != nil {
			r.Log.Warn("service manager", "error", err)
		}
	}
}

// reload takes over what can change while the server works: the level of the log, and what applications read from files
// of their own. Nothing of a configuration that has a mistake is taken over.
func (r *Server) reload(level *slog.LevelVar, read func() (*Settings, error)) error {
	s, err := read()
	if err != nil {
		return err
	}
	if err := setLevel(level, s.Common); err != nil {
		return err
	}
	var errs []error
	for _, a := range r.apps {
		if x, ok := a.(module.Reloader); ok {
			errs = append(errs, x.Reload())
		}
	}
	return errors.Join(errs...)
}

// Again reads the settings of this call anew: the same flags, the environment and the file as it is now.
func (s *Settings) Again(flags *pflag.FlagSet) (*Settings, error) {
	fresh := s.Fresh()
	fresh.Named = s.Named
	return fresh, fresh.Load(flags, os.LookupEnv)
}
