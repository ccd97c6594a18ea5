// Package agentcli has the command of agents.
package agentcli

import (
	"github.com/spf13/cobra"

	computeserve "github.com/stagepost/stagepost/app/compute/serve"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/job"
)

// commands are the commands of one call.
type commands struct {
	*cli.Call
	settings *computeserve.Settings
}

// Part adds the command of agents.
func Part(s *computeserve.Settings) func(*cli.Call) cli.Part {
	return func(call *cli.Call) cli.Part {
		c := &commands{call, s}
		return cli.Part{
			Groups: []*cobra.Command{cli.InGroup("compute", c.agent())},
			Missing: func(path []string, _ *job.Error) string {
				if len(path) > 1 && path[0] == "compute" && path[1] == "agent" {
					return "stagepost compute agents lists the agents and their states"
				}
				return ""
			},
		}
	}
}
