package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

func (c *Commands) drain() *cobra.Command {
	var note, actor string
	var noWait bool
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Let running steps end, and start no new ones",
		Long: `Puts a hold on everything and waits until no step runs. Then the server, its storage or its network can be stopped.
Submissions are still accepted, and mails are still sent. A drain outlasts restarts; stagepost admin resume ends it.`,
		Example: "  stagepost admin drain --note 'storage moves to the new array'\n  stagepost admin resume",
		Args:    cobra.NoArgs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, _ []string) error {
			if _, err := api.Hold(ctx, client.Hold{Everything: true, Who: cli.Whoami(actor), Why: note}); err != nil {
				return err
			}
			if noWait {
				return c.Out.None("nothing new is begun; end this with: stagepost admin resume")
			}
			return c.drained(ctx, api)
		}),
	}
	f := cmd.Flags()
	f.StringVarP(&note, "note", "m", "", "why; stagepost why shows it for each held job")
	f.StringVar(&actor, "actor", "", "your name; defaults to the login name")
	f.BoolVar(&noWait, "no-wait", false, "do not wait for what runs")
	return cmd
}

// drained waits until no job is at work.
func (c *Commands) drained(ctx context.Context, api *client.Client) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for printed := int64(-1); ; {
		counts, err := api.Counts(ctx)
		if err != nil {
			return err
		}
		running := int64(0)
		for _, t := range counts {
			running += t.Claimed
		}
		if running == 0 {
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(map[string]int{"running": 0})
			}
			_, err := fmt.Fprintln(c.Out, "nothing runs any more; end this with: stagepost admin resume")
			return err
		}
		if running != printed && c.Out.Mode != cli.ModeJSON {
			c.Note("%d %s still at work", running, cli.Plural(running, "job is", "jobs are"))
			printed = running
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (c *Commands) resume() *cobra.Command {
	var note, actor string
	cmd := &cobra.Command{
		Use:     "resume",
		Short:   "End a drain",
		Long:    `Ends the hold on everything that stagepost admin drain put on, and prints the holds that are left.`,
		Example: "  stagepost admin resume --note 'the disks are in'",
		Args:    cobra.NoArgs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, _ []string) error {
			holds, err := api.Release(ctx, job.Scope{}, cli.Whoami(actor), note)
			return c.released(job.Scope{}, holds, err)
		}),
	}
	f := cmd.Flags()
	f.StringVarP(&note, "note", "m", "", "why; is entered in the audit log")
	f.StringVar(&actor, "actor", "", "your name; defaults to the login name")
	return cmd
}
