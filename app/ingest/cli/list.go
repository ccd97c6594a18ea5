package ingestcli

import (
	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli/jobs"
)

func (c *commands) list() *cobra.Command {
	var f jobs.Filter
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List batches and jobs of ingest, newest first",
		Long:    "Lists batches, jobs and packages, newest first: all that match every filter given.",
		Example: "  stagepost ingest list --open\n  stagepost ingest list --kind ingest.batch --outcome failed",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			if f.All = f.All || c.WantsAll(cmd); len(f.Kinds) == 0 {
				f.Kinds = []string{"ingest.batch", "ingest.job", "ingest.access"}
			}
			q, err := f.Query()
			if err != nil {
				return err
			}
			api, err := c.API()
			if err != nil {
				return err
			}
			return c.ListAll(ctx, api, q, f.All)
		},
	}
	f.Bind(cmd)
	c.CompleteNames(cmd)
	return cmd
}
