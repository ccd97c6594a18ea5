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
	var f cloneFlags
	cmd := &cobra.Command{
		Use:   "clone ID",
		Short: "Make a new compute job of the files of another, with changes",
		Long: `Makes a new compute job of the files of another one, whether that completed or failed. Flags replace the values of the other job; --env adds variables to those that it had, and
NAME= removes one. To repeat a failed job without changes, use stagepost retry ID.`,
		Example: "  stagepost compute clone cmp_01J9... --limit memory=8GiB\n  stagepost compute clone " +
			"cmp_01J9... --service large --env SEED=2 --name again",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeComputeIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			r, err := f.order(cmd)
			if err != nil {
				return err
			}
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
	f.bind(cmd)
	c.Complete(cmd, "as", "operator", "owner")
	c.completeCompute(cmd)
	return cmd
}

// cloneFlags are the flags that state what is other in the new job.
type cloneFlags struct {
	repeat              client.ComputeRepeat
	act                 jobs.Act
	env, labels, limits []string
	priority            int
	callback            string
}

func (f *cloneFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.repeat.Service, "service", "", "another service")
	flags.StringVar(&f.repeat.Name, "name", "", "another name")
	flags.StringArrayVarP(&f.env, "env", "e", nil, "a variable: NAME=VALUE; NAME= takes it away; may be given again")
	flags.StringArrayVar(&f.limits, "limit", nil, "other limits, such as wall=10m,memory=2GiB")
	flags.StringArrayVar(&f.labels, "label", nil, "other labels, in place of all: NAME=VALUE; may be given again")
	flags.StringSliceVar(&f.repeat.Requires, "requires", nil,
		"other required labels, in place of all, with commas between")
	flags.StringVar(&f.repeat.Key, "key", "", "idempotency key: a second order with it gives the job of the first")
	flags.IntVar(&f.priority, "priority", job.DefaultPriority, "0 goes first, 99 last")
	flags.StringVar(&f.callback, "callback", "", "another URL that is notified of the job's end; empty: none")
	cli.Recorded(cmd, &f.act.Note, &f.act.Actor)
	flags.StringVar(&f.act.As, "as", "",
		"who asks: operator or owner; defaults to owner if the token is a user's, else to operator")
}

// order returns what the flags of a call request.
func (f *cloneFlags) order(cmd *cobra.Command) (r client.ComputeRepeat, err error) {
	r = f.repeat
	if r.Env, err = variables(f.env); err != nil {
		return r, err
	}
	if r.Labels, err = pairs("label", f.labels); err != nil {
		return r, err
	}
	if len(f.limits) > 0 {
		if r.Limits, err = api.ParseComputeLimits(strings.Join(f.limits, ",")); err != nil {
			return r, cli.Usagef("--limit: %w", err)
		}
	}
	if cmd.Flags().Changed("callback") {
		r.Callback = &f.callback
	}
	if cmd.Flags().Changed("priority") {
		r.Priority = &f.priority
	}
	r.Note, r.Actor, r.As = f.act.Note, cli.Whoami(f.act.Actor), f.act.As
	return r, nil
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
