// Package computecli has the commands of compute jobs.
package computecli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// commands are the commands of one call.
type commands struct {
	jobs.Commands
}

// Part adds the commands of compute jobs.
func Part(call *cli.Call) cli.Part {
	c := &commands{jobs.Commands{Call: call}}
	return cli.Part{
		Groups: []*cobra.Command{cli.Group("compute", "Run files on services, fetch results, administer agents",
			"Runs users' files on services, fetches results and administers the agents that run jobs.",
			"  stagepost compute run run.sh --service python\n  stagepost compute jobs --open",
			c.run(), c.jobs(), c.services(), c.agents(), c.results(), c.clone(), c.clean())},
		Daily: []*cobra.Command{cli.Short("compute", c.run())},
		Cause: func(ctx context.Context, api *client.Client, id job.ID, e lifecycle.Event, a *client.Act) (j client.Job,
			known bool, err error) {
			do := computeEvents[e]
			if do == nil || !isCompute(string(id)) {
				return j, false, nil
			}
			made, err := do(ctx, api, id, a)
			if err != nil {
				return j, true, err
			}
			if j, err = api.Job(ctx, made.ID); err == nil && j.State == compute.Killing && j.Message != "" &&
				c.Out.Mode != cli.ModeJSON {
				c.Err.Line("stagepost: %s: %s", j.ID, j.Message)
			}
			return j, true, err
		},
		Done: func(e lifecycle.Event, j *client.Job) string {
			switch {
			case j.Kind != compute.JobKind:
			case e == "retry":
				return "new jobs made of their files"
			case e == "cancel" && j.Ended && j.State != compute.Killed:
				return "had ended already"
			}
			return ""
		},
		Logs:   c.output,
		Code:   computeCode,
		Report: c.exitRun,
		Hint:   c.computeHint,
		Missing: func(path []string, _ *job.Error) string {
			if path[0] == "compute" && len(path) > 1 && path[1] != "agent" && path[1] != "import" {
				return "stagepost compute jobs shows what there is"
			}
			return ""
		},
	}
}

// output adds to the command logs what a script wrote.
func (c *commands) output(cmd *cobra.Command) func(ctx context.Context, api *client.Client, id job.ID,
	v cli.LogView) (bool, error) {
	var events bool
	var stream string
	cmd.Flags().BoolVar(&events, "events", false, "of a compute job: what the server did")
	cmd.Flags().StringVar(&stream, "stream", client.Both, "of a compute job: stdout, stderr or both")
	c.Complete(cmd, "stream", client.Stdout, client.Stderr, client.Both)
	return func(ctx context.Context, api *client.Client, id job.ID, v cli.LogView) (bool, error) {
		switch {
		case !isCompute(string(id)):
			return false, nil
		case events && v.Tail > 0:
			return true, cli.Usagef("--tail goes without --events")
		case events:
			return true, c.readEvents(ctx, api, id, v.Follow)
		}
		return true, c.readOutput(ctx, api, id, stream, v)
	}
}

func (c *commands) computeHint(err error, code int) string {
	var f cli.FailedJob
	p := client.ProblemOf(err)
	switch {
	case code == cli.ExitUsage && p != nil &&
		(strings.Contains(p.Detail, "there is no service") || strings.Contains(p.Detail, "that its service allows")):
		return "stagepost compute services shows the services and what they allow"
	case code == cli.ExitRefused && p != nil && strings.Contains(p.Detail, "confirm that it is to run again"):
		return fmt.Sprintf("if that is meant: stagepost retry %s --confirm --note WHY", p.Job)
	case code == cli.ExitFailed && errors.As(err, &f) && isCompute(string(f.Job.ID)) &&
		f.Job.Cause == compute.CauseRejected:
		return changesHelp(f.Job.ID)
	}
	return ""
}
