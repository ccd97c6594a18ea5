package jobs

import "github.com/spf13/cobra"

func (c *Commands) stop() *cobra.Command {
	return c.EventCommand("stop", "Make running jobs fail, so that they can be retried or deleted",
		`Makes jobs at work fail: what their worker does afterwards is refused, their locks are released. Failed jobs can be retried or
deleted.`,
		`  stagepost stop ing_01J9... --note 'wrong file'`)
}
