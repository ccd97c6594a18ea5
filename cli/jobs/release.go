package jobs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

func (c *Commands) release() (cmd *cobra.Command, ready func()) {
	var a Act
	var s scope
	cmd = &cobra.Command{
		Use:   "release [ID...]",
		Short: "Release held jobs: single ones, or all of a scope",
		Long: `With ids it causes the event release on these jobs, which is refused while a hold applies to them. With a scope it ends the
hold on exactly that scope, and prints the holds that remain.

Jobs that the hold moved to the state Held stay there until they are released: by id, or many with stagepost bulk release.`,
		Example: "  stagepost release --group maps\n  stagepost release bat_01J9...\n" +
			"  stagepost bulk release --state Held --group maps --note 'storage is back'",
		ValidArgsFunction: c.CompleteIDs,
		Args:              cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			of, given, err := s.read(c, cmd)
			switch {
			case err != nil:
				return err
			case given == (len(args) > 0):
				return cli.Usagef("either ids or a scope")
			case !given:
				return c.causeAll(cmd, "release", args, a.Body())
			}
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			api, err := c.API()
			if err != nil {
				return err
			}
			if err := c.Resolve(ctx, api, &of.Job); err != nil {
				return err
			}
			holds, err := api.Release(ctx, of, cli.Whoami(a.Actor), a.Note)
			if err := c.released(of, holds, err); err != nil {
				return err
			}
			return c.printHeld(ctx, api, of)
		},
	}
	a.Bind(cmd)
	s.bind(cmd)
	c.CompleteNames(cmd)
	return cmd, func() { s.bindMore(c, cmd) }
}

// released prints that a hold ended, and the holds that remain.
func (c *Commands) released(of job.Scope, holds []job.Hold, err error) error {
	if err != nil {
		return err
	}
	if c.Out.Mode == cli.ModeTable {
		c.Out.Line("released %s; %d %s", of, len(holds), cli.Plural(int64(len(holds)), "hold remains", "holds remain"))
		if len(holds) == 0 {
			return nil
		}
	}
	return c.printHolds(holds, nil)
}

// printHeld prints how many jobs are still held after a hold ended, and how to release them.
func (c *Commands) printHeld(ctx context.Context, api *client.Client, of job.Scope) error {
	counts, err := api.Counts(ctx)
	if err != nil || c.Out.Mode == cli.ModeJSON {
		return err
	}
	held := int64(0)
	for _, t := range counts {
		if t.State == "Held" && (of.Group == "" || of.Group == t.Group) && (of.Kind == "" || of.Kind == t.Kind) {
			held += t.Jobs
		}
	}
	if held == 0 {
		return nil
	}
	filter := ""
	if of.Group != "" {
		filter = " --group " + of.Group
	}
	c.Note("%d %s still Held; let them go: stagepost bulk release --state Held%s --note WHY", held,
		cli.Plural(held, "job is", "jobs are"), filter)
	return nil
}
