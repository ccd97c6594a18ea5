package main

import "github.com/spf13/cobra"

func (c *cli) cancel() *cobra.Command {
	return c.eventCommand("cancel", "Withdraw jobs",
		`Withdraws jobs as far as their lifecycle lets it; an ingest batch as long as it is Pending. Ingest jobs at work can be stopped: stagepost stop.
A flow is ended and what it did is rolled back; stagepost flow cancel can do more. A compute job is ended wherever it is; on its way to or from an agent that is waited for. One that has ended stays as it is.`,
		`  stagepost cancel bat_01J9... --note 'handed in twice'`)
}
