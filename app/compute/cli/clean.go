package computecli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

func (c *commands) clean() *cobra.Command {
	return c.EventCommand("clean", "Remove the files of compute jobs that have ended",
		`Removes the files of compute jobs that have ended, inputs and results, before the server does so by itself (compute.keep after the end). Their space is free again at once.
It cannot be undone: fetch what is needed first. Record and history stay, and show who asked. A job that has not ended is refused (stagepost cancel ID); one whose files are
gone stays as it is.`,
		`  stagepost compute results cmp_01J9... --out run7.zip && stagepost compute clean cmp_01J9...`)
}

// noDelete refuses to delete a compute job and names the command to use instead.
func noDelete(_ context.Context, _ *client.Client, id job.ID, _ *client.Act) (client.ComputeJob, error) {
	return client.ComputeJob{}, job.Errorf(job.Refused, "delete", id,
		"a compute job keeps its record; its files are removed with: stagepost compute clean %s", id)
}
