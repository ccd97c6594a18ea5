// Package customserve opens the lifecycles of files in a server.
package customserve

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/stagepost/stagepost/app/custom"
	customhttp "github.com/stagepost/stagepost/app/custom/http"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/module"
	"github.com/stagepost/stagepost/server"
)

// Settings are those of lifecycles in files.
type Settings struct {
	Dir      string `name:"lifecycle.dir" for:"serve" doc:"directory of lifecycles (YAML) whose kinds this server has; defaults to none: those that stagepost lifecycle add brought"`
	Remote   bool   `name:"lifecycle.remote" for:"serve" default:"false" doc:"commands of lifecycles may be run by stagepost work on other machines; with lifecycle.commands this server runs them, too"`
	Commands bool   `name:"lifecycle.commands" for:"serve" default:"false" doc:"lifecycles may run commands, confined as lifecycle.sandbox states. Without tokens there is no login: every user of this machine may then run them"`
	Sandbox  string `name:"lifecycle.sandbox" for:"serve" choices:"auto native bwrap none require" default:"require" doc:"what confines the commands of lifecycles: auto takes the best that works, require the same but never none"`
}

// App is the application, with the sandbox of its commands.
type App struct {
	*custom.App
	box *sandbox.Sandbox // nil: no commands run
}

// Open opens the application.
func Open(h *module.Host, s *Settings) (*App, error) {
	o := custom.Options{
		Dir: filepath.Join(h.Dir, "lifecycles"), Files: s.Dir,
		Transport: fetch.New(fetch.Policy{Log: h.Log}).Transport(),
		Temp:      filepath.Join(h.Own, "lifecycle-runs"), Report: server.ParseReport, Remote: s.Remote,
		Installation: h.Installation, Log: h.Log,
	}
	a := &App{}
	if s.Commands {
		options := sandbox.Options{Tier: s.Sandbox, Name: "stagepost-lifecycle", Log: h.Log}
		box, err := sandbox.Open(context.Background(), options) // ends what an earlier process left running
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("lifecycle.sandbox: %w", err))
		}
		if box.Tier() == sandbox.None {
			h.Log.Warn("commands of lifecycles run without a sandbox: they may do what this process may",
				"remedy", "stagepost compute agent doctor")
		}
		a.box, o.Sandbox = box, box
	}
	if err := custom.Tidy(o.Temp); err != nil {
		h.Log.Warn("directories of lifecycles' commands", "error", err)
	}
	a.App = custom.New(o)
	return a, nil
}

// Close ends the application, and its commands.
func (a *App) Close() error {
	err := a.App.Close()
	if a.box != nil {
		err = errors.Join(err, a.box.Close())
	}
	return err
}

// Part returns the routes. A nil app refuses every request.
func Part(s *server.Server, app module.App) server.Part {
	if a, ok := app.(*App); ok {
		return customhttp.Part(s, a.App)
	}
	return customhttp.Part(s, nil)
}
