// Package orchestratormodule is compatibility with job-orchestrator as a module beside compute.
package orchestratormodule

import (
	"github.com/stagepost/stagepost/app/compute/orchestrator"
	orchestratorcli "github.com/stagepost/stagepost/app/compute/orchestrator/cli"
	computeserve "github.com/stagepost/stagepost/app/compute/serve"
	"github.com/stagepost/stagepost/backup"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/module"
)

// New gives the module, with settings of its own. It completes the module compute, whose settings are jobs.
func New(jobs *computeserve.Settings) module.Module {
	s := &orchestrator.Settings{}
	jobs.Module = orchestrator.Module(s)
	return module.Module{
		Name: "job-orchestrator", Settings: s, Commands: []func(*cli.Call) cli.Part{orchestratorcli.Part(jobs)},
		Data: []backup.Entry{{
			Name: "compute-address*", How: backup.Left, What: "where users of job-orchestrator find the server",
			Reason: "made anew by the server at its start",
		}},
	}
}
