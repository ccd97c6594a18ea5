// Package computemodule is compute as a module.
package computemodule

import (
	"context"

	"github.com/stagepost/stagepost/app/compute"
	agentcli "github.com/stagepost/stagepost/app/compute/agent/cli"
	computecli "github.com/stagepost/stagepost/app/compute/cli"
	computeserve "github.com/stagepost/stagepost/app/compute/serve"
	"github.com/stagepost/stagepost/backup"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/module"
)

// New gives the module. What completes compute, such as compatibility with job-orchestrator, is set in the settings.
func New(s *computeserve.Settings) module.Module {
	return module.Module{
		Name: "compute", Settings: s, Lives: []*lifecycle.Table{compute.JobLife, compute.PayloadLife},
		Commands: []func(*cli.Call) cli.Part{computecli.Part, agentcli.Part(s)},
		Open: func(h *module.Host) (module.App, error) {
			if a, err := computeserve.Open(h, s); a != nil || err != nil {
				return a, err
			}
			return nil, nil
		},
		Part: computeserve.Part, Check: computeserve.CheckDir, Several: computeserve.Several(s),
		CheckDoc:  "The results of every ended compute job whose files were not cleaned must be there in full length.",
		Omissible: []string{"compute"},
		Storage: func(context.Context, string) (module.Storage, error) {
			return module.Storage{Files: map[string]string{"services.yaml": s.Services}}, nil
		},
		Data: []backup.Entry{
			{Name: "compute", How: backup.Linked, Part: "compute", What: "inputs and results of compute jobs"},
			{Name: "agent", How: backup.Linked, Part: "compute", What: "payloads of the agent in the server"},
			{Name: "uploads", How: backup.Linked, Part: "compute", What: "resumable uploads"},
			{Name: "tes", How: backup.Left, What: "inputs of TES tasks, of older versions",
				Reason: "removed at each start"},
		},
	}
}
