package orchestratorcli

import (
	computemodule "github.com/stagepost/stagepost/app/compute/module"
	"github.com/stagepost/stagepost/app/compute/orchestrator"
	computeserve "github.com/stagepost/stagepost/app/compute/serve"
	"github.com/stagepost/stagepost/host"
	"github.com/stagepost/stagepost/module"
)

// newSettings makes the settings of a server that computes, with the module.
func newSettings() (*host.Settings, *computeserve.Settings, *orchestrator.Settings) {
	jobs, users := &computeserve.Settings{}, &orchestrator.Settings{}
	jobs.Module = orchestrator.Module(users)
	return host.NewSettings(computemodule.New(jobs), module.Module{Name: "job-orchestrator", Settings: users}), jobs,
		users
}
