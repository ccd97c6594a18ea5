package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/store/sqlite"
)

func (c *cli) accept() *cobra.Command {
	var note, actor string
	cmd := &cobra.Command{
		Use:   "accept --note REASON",
		Short: "Go on with a store that misses commits",
		Long: `Makes a store usable that is refused because commits are missing: its log was removed or damaged, an older database was put in its place, entries
of the audit list were deleted, or the file head is missing. The store goes on without them. It prints what is missing; the audit list keeps that, the reason and who gave it.

First try to put back what is missing, or restore a backup into an empty directory. No server may run on the data directory.`,
		Example: `  stagepost accept --data /srv/stagepost --note "the log was lost with the disk"`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if note == "" {
				return usagef("say why the store goes on without what is missing: --note REASON")
			}
			dir, err := filepath.Abs(c.settings.Data)
			if err != nil {
				return err
			}
			missing, err := sqlite.Accept(cmd.Context(), dir, whoami(actor), note)
			if err != nil {
				return err
			}
			if c.out.mode == modeJSON {
				return c.out.json(map[string]string{"missing": missing})
			}
			return c.out.sheet([][2]string{{"accepted", missing}})
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "why; goes into the audit list")
	cmd.Flags().StringVar(&actor, "actor", "", "your name in the audit list; defaults to the login name")
	return cmd
}
