// Package flowmodule is the flows as a module.
package flowmodule

import (
	flowcli "github.com/stagepost/stagepost/app/flowfile/cli"
	flowserve "github.com/stagepost/stagepost/app/flowfile/serve"
	"github.com/stagepost/stagepost/backup"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/module"
)

// New gives the module, with settings of its own.
func New() module.Module {
	s := &flowserve.Settings{}
	return module.Module{
		Name: "flow", Settings: s, Lives: []*lifecycle.Table{flow.Life, flow.TaskLife, flow.RetryLife},
		Commands: []func(*cli.Call) cli.Part{flowcli.Part(s)},
		Open: func(h *module.Host) (module.App, error) {
			return flowserve.Open(s, h.Dir, h.Own, flowserve.NewMeter(h.Metrics), h.Log)
		},
		Part: flowserve.Part,
		Data: []backup.Entry{
			{Name: "flows", How: backup.Linked, What: "large values of flows"},
			{Name: "commands", How: backup.Left, What: "working directories of flows' commands",
				Reason: "emptied at each start"},
		},
	}
}
