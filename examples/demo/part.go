// Package demo is the demo: a batch of twelve objects and the jobs of three users.
package demo

import (
	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/host"
)

// commands are the commands of one call.
type commands struct {
	jobs.Commands
	host *host.Settings
}

// Part adds the demo.
func Part(s *host.Settings) func(*cli.Call) cli.Part {
	return func(call *cli.Call) cli.Part {
		c := &commands{jobs.Commands{Call: call}, s}
		return cli.Part{Run: []*cobra.Command{c.demo()}}
	}
}
