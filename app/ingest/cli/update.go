package ingestcli

import "github.com/spf13/cobra"

func (c *commands) update() *cobra.Command {
	return c.EventCommand("update", "Report on a batch again after its jobs changed",
		`Reports on a batch again after its jobs were retried or deleted. The depositor gets another mail only if something
changed.`,
		`  stagepost ingest update bat_01J9... --note 'all are mended'`)
}
