package jobs

import "github.com/spf13/cobra"

func (c *Commands) delete() *cobra.Command {
	return c.EventCommand("delete", "Delete jobs; their history stays",
		`Deletes jobs that have ended, or are Held. Record and history stay as a tombstone, working files go to the trash; what is stored stays. Where something would
be lost of which no user was notified, it is refused until --confirm.`,
		`  stagepost delete ing_01J9... --note 'withdrawn'
  stagepost delete bat_01J9... --confirm --note 'a test'`)
}
