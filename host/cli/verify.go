package hostcli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/host"
)

func (c *commands) verify() *cobra.Command {
	return &cobra.Command{
		Use:     "verify [ID]",
		Example: "  stagepost admin verify --data /srv/stagepost",
		Short:   "Compare the history of every job with its record",
		Long: `Checks the history of one job, or of all: each entry's hash and the chain of them, and that its replay by the lifecycle ends at the record's
state; each record, task, message and hold against its checksum; and the audit list. It changes nothing. The exit code is 1 if there are faults.

On a running server the check goes through its API. On a data directory without a server it opens the store itself.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.CompleteIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := strings.Join(args, "")
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
}
