package jobs

import "github.com/spf13/cobra"

func (c *Commands) cancel() *cobra.Command {
	return c.EventCommand("cancel", "Withdraw jobs",
		`Withdraws jobs as far as their lifecycle lets it; an ingest batch as long as it is Pending. Ingest jobs at work can be stopped: stagepost stop.
A flow is ended and what it did is rolled back; stagepost flow cancel can do more. A compute job is ended in every state. If its agent does not answer, the
request is recorded, and the job ends as Killed ten minutes after the agent's last answer; standard error shows when. One that has ended stays as it is.`,
		`  stagepost cancel bat_01J9... --note 'handed in twice'`)
}
