package main

import (
	"io"
	"log/slog"
)

func setLevel(level *slog.LevelVar, s *hostSettings) error {
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return usagef("log.level must be debug, info, warn or error, not %q", s.LogLevel)
	}
	return nil
}

// newLog makes the server's own log, whose level can change.
func newLog(w io.Writer, s *hostSettings, level *slog.LevelVar) (*slog.Logger, error) {
	if err := setLevel(level, s); err != nil {
		return nil, err
	}
	o := &slog.HandlerOptions{Level: level}
	switch s.LogFormat {
	case "text":
		return slog.New(newQuiet(slog.NewTextHandler(w, o))), nil
	case "json":
		return slog.New(newQuiet(slog.NewJSONHandler(w, o))), nil
	}
	return nil, usagef("log.format must be text or json, not %q", s.LogFormat)
}
