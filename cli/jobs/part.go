// Package jobs has the commands for jobs of every kind.
package jobs

import (
	"strings"

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
	logs, logsReady := c.logs()
	hold, holdReady := c.hold()
	release, releaseReady := c.release()
	return cli.Part{
		Ready: func() {
			logsReady()
			holdReady()
			releaseReady()
		},
		Groups: []*cobra.Command{
			c.lifecycle(), cli.InGroup("admin", c.audit(), c.outbox(), c.drain(), c.resume()),
		},
		Daily: []*cobra.Command{c.list(), c.show(), c.why(), logs, c.watch(), c.retry()},
		More: []*cobra.Command{
			c.history(), c.stuck(), c.workers(), c.create(), c.cancel(), c.stop(), hold, release, c.delete(),
			c.priority(), c.event(),
		},
		Missing: func(path []string, _ *job.Error) string {
			scoped := c.Called.Flags().NArg() == 0
			switch words := strings.Join(path, " "); {
			case words == "release" && scoped, words == "admin resume":
				return "stagepost hold shows what is held"
			case strings.HasPrefix(words, "admin outbox"):
				return "stagepost admin outbox shows what there is"
			case path[0] == "lifecycle", words == "work":
				return "stagepost lifecycle list shows what there is"
			}
			return ""
		},
	}
}
