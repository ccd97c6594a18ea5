// Package flowcli has the commands of flows.
package flowcli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	flowserve "github.com/stagepost/stagepost/app/flowfile/serve"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/sqlite"
)

// commands are the commands of one call.
type commands struct {
	jobs.Commands
	settings *flowserve.Settings
}

// Part adds the commands of flows.
func Part(s *flowserve.Settings) func(*cli.Call) cli.Part {
	return func(call *cli.Call) cli.Part {
		c := &commands{jobs.Commands{Call: call}, s}
		return cli.Part{
			Groups: []*cobra.Command{c.flow()},
			Hint: func(err error, code int) string {
				var f cli.FailedJob
				var used *sqlite.InUse
				p := client.ProblemOf(err)
				switch {
				case code == cli.ExitRefused && c.Local != "" && p != nil && p.Job != "" &&
					!strings.Contains(p.Detail, "confirm"):
					return fmt.Sprintf("stagepost flow show %s%s shows its state", p.Job, c.Local)
				case code == cli.ExitFailed && errors.As(err, &f) && f.Job.Kind == client.FlowKind:
					return c.afterFlow(&f.Job)
				case strings.HasPrefix(c.CalledPath(), "stagepost flow ") && errors.As(err, &used):
					return "if that is a flow with --local, Ctrl-C there lets it pause; then this command works, and " +
						"stagepost flow resume goes on with it"
				}
				return ""
			},
			Missing: func(path []string, _ *job.Error) string {
				if path[0] == "flow" {
					return "stagepost flow list shows what there is"
				}
				return ""
			},
		}
	}
}
