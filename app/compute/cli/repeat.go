package computecli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// clone makes a new compute job of the files of another.
func (c *commands) clone() *cobra.Command {
	var r client.ComputeRepeat
	var a jobs.Act
	var env, labels, limits []string
	var priority int
	var callback string
	cmd := &cobra.Command{
		Use:   "clone ID",
		Short: "Make a new compute job of the files of another, with changes",
		Long: `Makes a new compute job of the files of another one, whatever became of that. What is given replaces what the other one had; variables are laid over its own, and
NAME= takes one away. Without changes for one that failed: stagepost retry ID.`,
		Example: "  stagepost compute clone cmp_01J9... --limit memory=8GiB\n  stagepost compute clone " +
			"cmp_01J9... --service large --env SEED=2 --name again",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeComputeIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			var err error
			if r.Env, err = variables(env); err != nil {
				return err
			}
			if r.Labels, err = pairs("label", labels); err != nil {
				return err
			}
			if len(limits) > 0 {
				if r.Limits, err = api.ParseComputeLimits(strings.Join(limits, ",")); err != nil {
					return cli.Usagef("--limit: %w", err)
				}
			}
			if cmd.Flags().Changed("callback") {
				r.Callback = &callback
			}
			if cmd.Flags().Changed("priority") {
				r.Priority = &priority
			}
			r.Note, r.Actor, r.As = a.Note, cli.Whoami(a.Actor), a.As
			api, err := c.API()
			if err != nil {
				return err
			}
			id, err := c.JobOf(ctx, api, compute.JobKind, args[0])
			if err != nil {
				return err
			}
			j, err := api.CloneCompute(ctx, id, r)
			if err != nil {
				return err
			}
			return c.jobLine(&j, []string{"ID", "STATE", "OUTCOME"})
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.Service, "service", "", "another service")
	f.StringVar(&r.Name, "name", "", "another name")
	f.StringArrayVarP(&env, "env", "e", nil, "a variable: NAME=VALUE; NAME= takes it away; may be given again")
	f.StringArrayVar(&limits, "limit", nil, "other limits, such as wall=10m,memory=2GiB")
	f.StringArrayVar(&labels, "label", nil, "other labels, in place of all: NAME=VALUE; may be given again")
	f.StringSliceVar(&r.Requires, "requires", nil, "other required labels, in place of all, with commas between")
	f.StringVar(&r.Key, "key", "", "idempotency key: a second order with it gives the job of the first")
	f.IntVar(&priority, "priority", job.DefaultPriority, "0 goes first, 99 last")
	f.StringVar(&callback, "callback", "", "another URL that is notified of the job's end; empty: none")
	cli.Recorded(cmd, &a.Note, &a.Actor)
	f.StringVar(&a.As, "as", "",
		"who asks: operator or owner; defaults to owner if the token is a user's, else to operator")
	c.Complete(cmd, "as", "operator", "owner")
	c.completeCompute(cmd)
	return cmd
}

// computeEvents are the events of people that compute jobs have calls of their own for: a cancellation waits for a job
// in passing, and a retry makes a new job, for what was reported once stays true.
var computeEvents = map[lifecycle.Event]func(context.Context, *client.Client, job.ID, *client.Act) (client.ComputeJob,
	error){
	"cancel": func(ctx context.Context, api *client.Client, id job.ID, a *client.Act) (client.ComputeJob, error) {
		return api.CancelCompute(ctx, id, *a)
	},
	"clean": func(ctx context.Context, api *client.Client, id job.ID, a *client.Act) (client.ComputeJob, error) {
		return api.CleanCompute(ctx, id, *a)
	},
	"delete": noDelete,
	"retry": func(ctx context.Context, api *client.Client, id job.ID, a *client.Act) (client.ComputeJob, error) {
		return api.RetryCompute(ctx, id, client.ComputeRepeat{Confirm: a.Confirm, Note: a.Note, Actor: a.Actor,
			As: a.As})
	},
}
