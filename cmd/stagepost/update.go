package main

import "github.com/spf13/cobra"

func (c *cli) update() *cobra.Command {
	return c.eventCommand("update", "Report on a batch again after its jobs changed")
}
