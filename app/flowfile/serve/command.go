package flowserve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/stagepost/stagepost/app/flowfile/process"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/config"
	"github.com/stagepost/stagepost/edge/sandbox"
)

// NoSandbox is the word of flow.sandbox for commands that are not confined.
const NoSandbox = "off"

// openCommands gives what runs the commands of flows, in directories below dir. What an earlier process left there when
// it was killed is ended and removed. The sandbox, if there is one, is closed by the caller.
func openCommands(s *Settings, dir string, log *slog.Logger) (process.Commander, *sandbox.Sandbox, error) {
	temp, err := filepath.Abs(filepath.Join(dir, "commands")) // it becomes the HOME of commands
	if err != nil {
		return nil, nil, err
	}
	dirs, err := flowDirs(s.Dirs)
	if err != nil {
		return nil, nil, err
	}
	local := process.Local{Temp: temp}
	if err := errors.Join(os.MkdirAll(temp, 0o700), local.Tidy()); err != nil {
		return nil, nil, err
	}
	if s.Sandbox == NoSandbox {
		return local, nil, nil
	}
	box, err := sandbox.Open(context.Background(), sandbox.Options{Tier: s.Sandbox, Name: "stagepost-flow"})
	switch {
	case errors.Is(err, errors.ErrUnsupported) && (s.Sandbox == sandbox.Auto || s.Sandbox == sandbox.None):
		log.Warn("commands of flows run without a sandbox: they may do what this process may", "why", err)
		return local, nil, nil
	case err != nil:
		return nil, nil, cli.Usage(fmt.Errorf("flow.sandbox: %w", err))
	case box.Tier() == sandbox.None:
		log.Warn("commands of flows run without a sandbox: they may do what this process may", "remedy",
			"stagepost compute agent doctor")
	}
	return &process.Confined{Sandbox: box, Temp: temp, Dirs: dirs}, box, nil
}

// flowDirs reads flow.dirs.
func flowDirs(list string) ([]string, error) {
	var dirs []string
	for _, dir := range config.List(list) {
		if !filepath.IsAbs(dir) {
			return nil, cli.Usagef("flow.dirs: %q is not absolute", dir)
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}
