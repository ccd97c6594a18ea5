package main

import "github.com/spf13/cobra"

func (c *cli) cancel() *cobra.Command {
	return c.eventCommand("cancel", "Withdraw jobs")
}
