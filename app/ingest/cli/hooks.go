package ingestcli

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
		Group: "ingest", Key: "bat_01J9.../5/batch-completed/library", Job: "bat_01J9...",
		Long: "Profiles name webhooks, which are notified of what happens to batches and jobs.",
		List: (*client.Client).Hooks, One: (*client.Client).Hook, Replay: (*client.Client).ReplayHooks,
	}, c.hooksPing())
}

func (c *commands) hooksPing() *cobra.Command {
	var b client.PingHooks
	cmd := &cobra.Command{
		Use:   "ping PROFILE",
		Short: "Send a notification of type ping to the webhooks of a profile, to try them",
		Long: `Each webhook of the profile is called once, now, signed as always. The exit code is 1 if one of them did not accept it. Pings are not in the list of
notifications.`,
		ValidArgsFunction: c.completeProfiles,
		Example:           "  stagepost ingest hooks ping maps\n  stagepost ingest hooks ping maps --hook library",
		Args:              cobra.ExactArgs(1),
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
			b.Profile, b.Actor = args[0], cli.Whoami(b.Actor)
			pings, err := api.PingHooks(ctx, b)
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
