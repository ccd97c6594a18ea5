package jobs

import "github.com/spf13/cobra"

func (c *Commands) retry() *cobra.Command {
	return c.EventCommand("retry", "Send failed jobs back to where they failed",
		`Sends failed jobs back to the phase they failed in; what earlier phases did is not done again. It is refused where a retry cannot help.
A compute job has no way back: a new job is made of its files, and that is what is printed. For one that had completed it takes --confirm.
All failed jobs of a kind, cause or collection: stagepost bulk retry.`,
		`  stagepost retry ing_01J9... --note 'the file is there now'
  stagepost bulk retry --state Failed --cause network --note 'the line is back'`)
}
