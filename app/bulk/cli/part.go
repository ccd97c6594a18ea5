// Package bulkcli has the command for many jobs at once.
package bulkcli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
)

// commands are the commands of one call.
type commands struct {
	jobs.Commands
}

// Part adds the command for many jobs at once.
func Part(call *cli.Call) cli.Part {
	c := &commands{jobs.Commands{Call: call}}
	return cli.Part{
		More: []*cobra.Command{c.bulk()},
		Hint: func(err error, code int) string {
			var f cli.FailedJob
			if code == cli.ExitFailed && errors.As(err, &f) && f.Job.Kind == "bulk" {
				return "stagepost bulk with the same filters and --dry-run shows what it would meet now"
			}
			return ""
		},
	}
}
