package hostcli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/host"
)

func (c *commands) verify() *cobra.Command {
	var checkpoints checkpointFlags
	cmd := &cobra.Command{
		Use: "verify [ID]",
		Example: "  stagepost admin verify --data /srv/stagepost\n" +
			"  stagepost admin verify --key stagepost.pub --checkpoints /mnt/copies/checkpoints",
		Short: "Compare the history of every job with its record",
		Long: `Checks the history of one job, or of all: each entry's hash and the chain of them, and that its replay by the lifecycle ends at the record's
state; each record, task, message and hold against its checksum; and the audit log. It changes nothing. The exit code is 1 if there are faults.

With --key it compares all histories and the audit log with the signed checkpoints in place of the records: those of the file --checkpoints, by default those of
the data directory. It names the first checkpoint that they do not extend, and what differs. So it finds a change by a person who computed the hashes anew. The exit
code is 5 then. stagepost admin checkpoint show prints the public key; use a key and a copy of the file that you kept where that person could not write.

On a running server the check goes through its API. On a data directory without a server it opens the store itself.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.CompleteIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := strings.Join(args, "")
			if len(checkpoints.keys) > 0 && name == "" {
				return c.verifyCheckpoints(cmd, &checkpoints)
			}
			if len(checkpoints.keys) > 0 || checkpoints.file != "" {
				return cli.Usagef("checkpoints are verified for all jobs, with --key KEY")
			}
			return c.checkup(cmd,
				func(ctx context.Context, api *client.Client) (found client.Checkup, err error) {
					id, err := c.JobID(ctx, api, name)
					if err != nil {
						return found, err
					}
					return api.Verify(ctx, client.Verify{Job: id})
				},
				func(ctx context.Context, d *host.Maintenance) (found client.Checkup, err error) {
					id, err := c.StoredID(ctx, d.Store.Named, name)
					if err != nil {
						return found, err
					}
					return d.Verify(ctx, id)
				})
		},
	}
	checkpoints.add(cmd, "; defaults to that of the data directory")
	return cmd
}
