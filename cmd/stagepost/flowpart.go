package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// flowPart adds the commands of flows.
func flowPart(c *cli) Part {
	return Part{
		Act: []*cobra.Command{c.flow()},
		Hint: func(err error, code int) string {
			var f failedJob
			var e *job.Error
			switch {
			case code == exitFailed && errors.As(err, &f) && f.job.Kind == client.FlowKind:
				return c.afterFlow(&f.job)
			case strings.HasPrefix(c.calledPath(), "stagepost flow ") && errors.As(err, &e) && e.Kind == job.Unavailable && e.Op == "open" &&
				strings.Contains(err.Error(), " is in use by "):
				return "if that is a flow with --local, Ctrl-C there lets it pause; then this command works, and stagepost flow resume goes on with it"
			}
			return ""
		},
		Missing: func(path []string, _ *job.Error) string {
			if path[1] == "flow" {
				return "stagepost flow list shows what there is"
			}
			return ""
		},
	}
}
