package archivecli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
)

// schedules are the commands of schedules. Without a subcommand it lists them.
func (c *commands) schedules() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedules",
		Short: "List schedules with their next time and their newest run",
		Long: `Lists the schedules of the server's configuration, by name. The columns in a pipe are name, source, next time (or paused),
state and id of the newest run, time of that run, and what it did.`,
		Example: "  stagepost archive schedules\n  stagepost archive schedules run nightly --dry-run",
		Args:    cobra.NoArgs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, _ []string) error {
			all, err := api.ArchiveSchedules(ctx)
			if err != nil {
				return err
			}
			return cli.List(c.Out, all, "there is no schedule: add one to schedules in the file of archive.config",
				"NAME|SOURCE|NEXT|STATE|RUN|SINCE|RESULT", c.scheduleRow)
		}),
	}
	cmd.AddCommand(c.scheduleRun())
	return cmd
}

func (c *commands) scheduleRow(s *client.ArchiveSchedule) []string {
	next := "paused"
	if !s.Next.IsZero() {
		next = c.Out.Moment(s.Next)
	}
	if s.Last == nil {
		return []string{s.Name, s.Source, next, "", "", "", ""}
	}
	return []string{
		s.Name, s.Source, next, string(s.Last.State), c.Out.ID(s.Last.ID), c.when(s.Last.Created), s.Last.Message,
	}
}

func (c *commands) scheduleRun() *cobra.Command {
	var s client.StartSchedule
	var wait bool
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "Start a run of a schedule now",
		Long: `Starts a run of a schedule now, a paused one too. With --dry-run it records what it decides about each activity, and
starts no archive jobs. With --wait it follows the run; the exit code then is 5 if the run failed. stagepost show JOB
shows its decisions. With --key a repetition of the command gives the same run.`,
		Example: "  stagepost archive schedules run nightly --dry-run --wait",
		Args:    cobra.ExactArgs(1),
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
			s.Actor = cli.Whoami(s.Actor)
			j, err := api.StartSchedule(ctx, args[0], s)
			if err != nil {
				return err
			}
			if !wait || c.Out.Mode != cli.ModeJSON {
				if err := c.PrintOutcome(&j); err != nil || !wait {
					return err
				}
			}
			return c.Follow(ctx, j.ID)
		}),
	}
	flags := cmd.Flags()
	flags.BoolVar(&s.DryRun, "dry-run", false, "record the decisions, and start no archive jobs")
	flags.BoolVar(&wait, "wait", false, "follow the run until it has ended")
	flags.StringVarP(&s.Note, "note", "m", "", "why; stands in the history of the run")
	flags.StringVar(&s.Actor, "actor", "", "your name in the history; defaults to the login name")
	flags.StringVar(&s.Key, "key", "", "idempotency key")
	return cmd
}
