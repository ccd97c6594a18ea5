package host

import (
	"io"
	"log/slog"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/internal/quiet"
)

func setLevel(level *slog.LevelVar, s *cli.Common) error {
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return cli.Usagef("log.level must be debug, info, warn or error, not %q", s.LogLevel)
	}
	return nil
}

// NewLog makes the server's own log, whose level can change.
func NewLog(w io.Writer, s *cli.Common, level *slog.LevelVar) (*slog.Logger, error) {
	if err := setLevel(level, s); err != nil {
		return nil, err
	}
	o := &slog.HandlerOptions{Level: level}
	switch s.LogFormat {
	case "text":
		return slog.New(quiet.New(slog.NewTextHandler(w, o))), nil
	case "json":
		return slog.New(quiet.New(slog.NewJSONHandler(w, o))), nil
	}
	return nil, cli.Usagef("log.format must be text or json, not %q", s.LogFormat)
}
