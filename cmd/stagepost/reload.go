package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/pflag"
)

// reloader is an application that can read its own files anew while it works.
type reloader interface {
	Reload() error
}

// reloads reads the configuration anew whenever there is a signal until ctx ends, and tells the service manager when that begins and ends. What is wrong with
// the new configuration stays in the log: the server goes on with what it has.
func (r *running) reloads(ctx context.Context, m manager, again <-chan os.Signal, level *slog.LevelVar, read func() (*hostSettings, error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-again:
		}
		note := []string{"RELOADING=1"}
		if usec, ok := monotonic(); ok {
			note = append(note, fmt.Sprintf("MONOTONIC_USEC=%d", usec))
		}
		err := m.tell(note...)
		if mistake := r.reload(level, read); mistake != nil {
			r.log.Error("reload", "error", mistake)
		} else {
			r.log.Info("reloaded", "log.level", level.Level())
		}
		if err = errors.Join(err, m.tell("READY=1", "STATUS="+r.status())); err != nil {
			r.log.Warn("service manager", "error", err)
		}
	}
}

// reload takes over what can change while the server works: the level of the log, and what applications read from files of their own. Nothing of
// a configuration that has a mistake is taken over.
func (r *running) reload(level *slog.LevelVar, read func() (*hostSettings, error)) error {
	s, err := read()
	if err != nil {
		return err
	}
	if err := setLevel(level, s); err != nil {
		return err
	}
	var mistakes []error
	for _, a := range r.apps {
		if x, ok := a.(reloader); ok {
			mistakes = append(mistakes, x.Reload())
		}
	}
	return errors.Join(mistakes...)
}

// again reads the settings of this call anew: the same flags, the environment and the file as it is now.
func (s *hostSettings) again(flags *pflag.FlagSet) (*hostSettings, error) {
	fresh := newSettings()
	fresh.Named = s.Named
	return fresh, fresh.load(flags, os.LookupEnv)
}
