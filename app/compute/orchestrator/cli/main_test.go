package orchestratorcli

import (
	computemodule "github.com/stagepost/stagepost/app/compute/module"
	"github.com/stagepost/stagepost/app/compute/orchestrator"
	computeserve "github.com/stagepost/stagepost/app/compute/serve"
	"github.com/stagepost/stagepost/host"
)

// newSettings makes the settings of a server that computes, with the module.
func newSettings() (*host.Settings, *computeserve.Settings) {
	jobs := &computeserve.Settings{Module: orchestrator.Module()}
	return host.NewSettings(computemodule.New(jobs)), jobs
}
