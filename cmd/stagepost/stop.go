package main

import "github.com/spf13/cobra"

func (c *cli) stop() *cobra.Command {
	return c.eventCommand("stop", "Make running jobs fail, so that they can be retried or deleted")
}
