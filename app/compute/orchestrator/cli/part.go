// Package orchestratorcli has what is for users of job-orchestrator: its command line, and the command that imports its
// jobs.
package orchestratorcli

import (
	"github.com/spf13/cobra"

	computeserve "github.com/stagepost/stagepost/app/compute/serve"
	"github.com/stagepost/stagepost/cli"
)

// commands are the commands of one call.
type commands struct {
	*cli.Call
	settings *computeserve.Settings
}

// Part adds the command that takes over the jobs of job-orchestrator.
func Part(s *computeserve.Settings) func(*cli.Call) cli.Part {
	return func(call *cli.Call) cli.Part {
		c := &commands{call, s}
		return cli.Part{Groups: []*cobra.Command{cli.InGroup("compute", c.importJobs())}}
	}
}
