package archivecli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/client"
)

// hooks are the commands of notifications.
func (c *commands) hooks() *cobra.Command {
	return c.Hooks(jobs.HookLog{
		Group: "archive", Key: "arc_01J9.../12/archive_job_completed/lms", Job: "arc_01J9...",
		Long: "The configuration names webhooks, which are notified of what happens to archive jobs and their tasks.",
		List: (*client.Client).ArchiveHooks, One: (*client.Client).ArchiveHook,
		Replay: (*client.Client).ReplayArchiveHooks,
	}, c.hooksPing())
}

func (c *commands) hooksPing() *cobra.Command {
	var b client.PingArchiveHooks
	cmd := &cobra.Command{
		Use:   "ping",
		Short: "Send a notification of type ping to the webhooks of archives, to try them",
		Long: `Each webhook of the configuration is called once, now, signed as always. The exit code is 1 if one of them did not accept it.
Pings are not in the list of notifications.`,
		Example: "  stagepost archive hooks ping\n  stagepost archive hooks ping --hook lms",
		Args:    cobra.NoArgs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, _ []string) error {
			b.Actor = cli.Whoami(b.Actor)
			pings, err := api.PingArchiveHooks(ctx, b)
			if err != nil {
				return err
			}
			return c.PrintPings(pings)
		}),
	}
	cmd.Flags().StringVar(&b.Hook, "hook", "", "only the webhook of this name")
	cli.Audited(cmd, &b.Note, &b.Actor)
	return cmd
}
