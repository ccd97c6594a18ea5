package jobs

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

func (c *Commands) exportAudit() *cobra.Command {
	return &cobra.Command{
		Use:   "export",
		Short: "Write all entries of the audit log as JSON lines, and check their chain",
		Long: `Writes the audit log from its first entry on, one JSON object a line, with the hashes of its chain. Each entry is checked before it is written:
an entry that was changed, removed or moved ends the command with exit code 5. Entries that are missing at the end are found by comparing the last number with
that of an earlier export, or by the anchors of stagepost admin export.`,
		Example: "  stagepost admin audit export > audit.jsonl",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			api, err := c.API()
			if err != nil {
				return err
			}
			out := json.NewEncoder(c.Out)
			var last *job.Audit
			for q := (client.AuditQuery{}); ; {
				page, err := api.AuditAfter(ctx, q)
				if err != nil {
					return err
				}
				if err := job.VerifyAudit(last, page.Entries); err != nil {
					return job.Errorf(job.Internal, "audit", "", "%w", err)
				}
				for i := range page.Entries {
					if err := out.Encode(&page.Entries[i]); err != nil {
						return err
					}
					last = &page.Entries[i]
				}
				if q.After = page.Next; q.After == "" {
					return nil
				}
			}
		},
	}
}
