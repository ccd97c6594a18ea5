package main

import "github.com/spf13/cobra"

// demoPart adds the demo.
func demoPart(c *cli) Part {
	return Part{Run: []*cobra.Command{c.demo()}}
}
