// Package jobs has the commands for jobs of every kind.
package jobs

import (
	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/job"
)

// Commands are the commands of one call. Other packages print jobs as they do.
type Commands struct {
	*cli.Call
}

// Part adds the commands for jobs of every kind.
func Part(call *cli.Call) cli.Part {
	c := &Commands{call}
	logs, ready := c.logs()
	return cli.Part{
		Ready: ready,
		Look:  []*cobra.Command{c.list(), c.show(), c.why(), c.history(), logs, c.watch(), c.stuck(), c.audit(), c.outbox(), c.lifecycle()},
		Act: []*cobra.Command{
			c.create(), c.retry(), c.hold(), c.release(), c.cancel(), c.stop(), c.delete(), c.update(), c.priority(), c.event(), c.drain(), c.resume(),
		},
		Missing: func(path []string, _ *job.Error) string {
			scoped := c.Called.Flags().NArg() == 0
			switch path[1] {
			case "release":
				if scoped {
					return "stagepost hold shows what is held"
				}
			case "resume":
				return "stagepost hold shows what is held"
			case "outbox", "lifecycle":
				return "stagepost " + path[1] + map[bool]string{true: " list"}[path[1] == "lifecycle"] + " shows what there is"
			}
			return ""
		},
	}
}
