package ingestcli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
)

func (c *commands) storage() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "storage",
		Short: "List the storage locations, their directories and states",
		Long: `A storage location is a directory with an OCFL storage root. Its file stagepost-location.json identifies the location and the installation that
owns it. STATE is usable, unused (nothing was stored there yet) or refused: the file is missing, so that its file system is not mounted, or it names another
location or another installation. Jobs that need a refused location wait, and go on when it is usable.`,
		Example: "  stagepost ingest storage\n  stagepost ingest storage adopt /mnt/archive --note 'taken over from " +
			"the old server'",
		Args: cobra.NoArgs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, _ []string) error {
			all, err := api.StorageLocations(ctx)
			if err != nil {
				return err
			}
			return c.printStorage(all)
		}),
	}
	cmd.AddCommand(c.adoptStorage())
	return cmd
}

// printStorage prints storage locations. Columns: directory, state, profiles, id, reason.
func (c *commands) printStorage(all []client.StorageLocation) error {
	return cli.List(c.Out, all, "no profile names a storage location", "LOCATION|STATE|PROFILES|ID|REASON",
		func(l *client.StorageLocation) []string {
			return []string{l.Dir, l.State, strings.Join(l.Profiles, ","), l.Location, l.Reason}
		})
}

func (c *commands) adoptStorage() *cobra.Command {
	var actor, note string
	cmd := &cobra.Command{
		Use:   "adopt DIR --note WHY",
		Short: "Give a storage location to this installation",
		Long: `Writes a new identity into the storage location DIR, which is named as in the profile. Use it for a directory that replaces another one, or
when another installation that owned it must not write there any more: its jobs wait from then on. Jobs of this server that waited for the location go on.

Objects in it that the inventory does not know stay as they are, and get no new versions. "stagepost ingest inventory rebuild" enters them. The reason stands in the
audit log and in the location's file.`,
		Example: "  stagepost ingest storage adopt /mnt/archive --note 'taken over from the old server'",
		Args:    cobra.ExactArgs(1),
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
			if note == "" {
				return cli.Usagef("a storage location is adopted for a reason: --note WHY")
			}
			l, err := api.AdoptLocation(ctx, client.Adoption{Dir: args[0], Note: note, Actor: cli.Whoami(actor)})
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(l)
			}
			c.Out.Line("%s is %s", l.Dir, l.State)
			return nil
		}),
	}
	cli.Audited(cmd, &note, &actor)
	return cmd
}
