package hostcli

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/sqlite"
)

func (c *commands) accept() *cobra.Command {
	var note, actor string
	cmd := &cobra.Command{
		Use:   "accept --note REASON [ID...]",
		Short: "Open a store that lacks commits or has damaged records",
		Long: `Makes a store usable that is refused because commits are missing: its log was removed or damaged, an older database replaced it, entries
of the audit log were deleted, or the file head is missing. The store continues without them. It prints what is missing; the audit log keeps that, the reason and who gave it.

With IDs it takes the records of these jobs as they are, with their tasks and messages, although they do not match their checksums (see verify).

First try to put back what is missing, or restore a backup into an empty directory. No server may run on the data directory.`,
		Example: `  stagepost admin accept --data /srv/stagepost --note "the log was lost with the disk"`,
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if note == "" {
				return cli.Usagef("state why the store continues without what is missing: --note REASON")
			}
			err := c.Settings.OwnStore("a database server finds lost commits itself: restore its backup")
			if err != nil {
				return err
			}
			dir, err := filepath.Abs(c.Settings.Data)
			if err != nil {
				return err
			}
			if len(args) > 0 {
				ids, err := c.storedIDs(cmd.Context(), dir, args)
				if err != nil {
					return err
				}
				if err := sqlite.AcceptRecords(cmd.Context(), dir, cli.Whoami(actor), note, ids...); err != nil {
					return err
				}
				return cli.List(c.Out, ids, "", "ACCEPTED", func(id *job.ID) []string { return []string{string(*id)} })
			}
			missing, err := sqlite.Accept(cmd.Context(), dir, cli.Whoami(actor), note)
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(map[string]string{"missing": missing})
			}
			return c.Out.Sheet([][2]string{{"accepted", missing}})
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "why; is entered in the audit log")
	cmd.Flags().StringVar(&actor, "actor", "", "your name in the audit log; defaults to the login name")
	return cmd
}

// storedIDs returns the ids of jobs in a data directory that no server works on.
func (c *commands) storedIDs(ctx context.Context, dir string, names []string) (ids []job.ID, err error) {
	store, err := sqlite.Open(dir, sqlite.Options{NoLog: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	for _, name := range names {
		id, err := c.StoredID(ctx, store, name)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}
