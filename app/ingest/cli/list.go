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
			if len(f.Kinds) == 0 {
				f.Kinds = []string{"ingest.batch", "ingest.job", "ingest.access"}
			}
			return c.ListMatching(cmd, &f)
		},
	}
	f.Bind(cmd)
	c.CompleteNames(cmd)
	return cmd
}
