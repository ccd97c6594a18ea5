package main

import (
	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/job"
)

// agentPart adds the command of agents.
func agentPart(c *cli) Part {
	return Part{
		Run: []*cobra.Command{c.agent()},
		Missing: func(path []string, _ *job.Error) string {
			if path[1] == "agent" {
				return "GET /api/v1/compute/agents shows the agents and how they stand"
			}
			return ""
		},
	}
}
