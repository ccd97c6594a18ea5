package host

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/stagepost/stagepost/app/custom"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/server"
)

// customSettings are those of lifecycles in files.
type customSettings struct {
	LifecycleDir      string `name:"lifecycle.dir" for:"serve" doc:"directory of lifecycles (YAML) whose kinds this server has; defaults to none: those that stagepost lifecycle add brought"`
	LifecycleCommands bool   `name:"lifecycle.commands" for:"serve" default:"false" doc:"lifecycles may run commands, confined as lifecycle.sandbox says. Without tokens there is no login: every user of this machine may then run them"`
	LifecycleSandbox  string `name:"lifecycle.sandbox" for:"serve" choices:"auto native bwrap none require" default:"require" doc:"what confines the commands of lifecycles: auto takes the best that works, require the same but never none"`
}

// openCustom makes the application of lifecycles in files.
func (r *Server) openCustom(s *customSettings) (*custom.App, error) {
	o := custom.Options{
		Dir: filepath.Join(r.Data, "lifecycles"), Files: s.LifecycleDir,
		Transport: fetch.New(fetch.Policy{}).Transport(),
		Temp:      filepath.Join(r.Data, "lifecycle-runs"), Report: server.ParseReport,
	}
	if s.LifecycleCommands {
		options := sandbox.Options{Tier: s.LifecycleSandbox, Name: "stagepost-lifecycle", Log: r.Log}
		box, err := sandbox.Open(context.Background(), options) // ends what an earlier process left running
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("lifecycle.sandbox: %w", err))
		}
		r.closers = append(r.closers, box)
		o.Sandbox = box
		if box.Tier() == sandbox.None {
			r.Log.Warn("commands of lifecycles run without a sandbox: they may do what this process may",
				"remedy", "stagepost agent doctor")
		}
	}
	if err := custom.Tidy(o.Temp); err != nil {
		r.Log.Warn("directories of lifecycles' commands", "error", err)
	}
	return custom.New(o), nil
}
