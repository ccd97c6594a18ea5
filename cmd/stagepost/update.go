package main

import "github.com/spf13/cobra"

func (c *cli) update() *cobra.Command {
	return c.eventCommand("update", "Report on a batch again after its jobs changed",
		`Reports on a batch again after its jobs were retried or deleted. The depositor gets another mail only if something changed.`,
		`  stagepost update bat_01J9... --note 'all are mended'`)
}
