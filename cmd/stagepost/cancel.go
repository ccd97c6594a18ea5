package main

import "github.com/spf13/cobra"

func (c *cli) cancel() *cobra.Command {
	return c.eventCommand("cancel", "Withdraw jobs",
		`Withdraws jobs as far as their lifecycle lets it; an ingest batch as long as it is Pending. Ingest jobs at work can be stopped: stagepost stop.`,
		`  stagepost cancel bat_01J9... --note 'handed in twice'`)
}
