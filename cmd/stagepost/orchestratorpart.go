package main

import "github.com/spf13/cobra"

// orchestratorPart adds the command that takes over the jobs of job-orchestrator.
func orchestratorPart(c *cli) Part {
	return Part{Run: []*cobra.Command{c.importJobs()}}
}
