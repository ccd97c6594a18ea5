package main

import "github.com/spf13/cobra"

func (c *cli) delete() *cobra.Command {
	return c.eventCommand("delete", "Delete jobs; their history stays")
}
