package main

import "github.com/spf13/cobra"

func (c *cli) retry() *cobra.Command {
	return c.eventCommand("retry", "Send failed jobs back to where they failed")
}
