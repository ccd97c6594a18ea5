package hostcli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/backup"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/host"
	"github.com/stagepost/stagepost/job"
)

func (c *commands) backup() *cobra.Command {
	var b client.Backup
	cmd := &cobra.Command{
		Use:   "backup [DIR]",
		Short: "Make a backup of the data directory",
		Long: `Makes a backup of the whole data directory, as it is at one moment, while the server works or when none does: databases, payloads, stored objects, logs,
profiles, keys, and the files that the configuration names. A manifest has the digest of every file. It prints what the backup contains and what it refers to
elsewhere, such as storage locations outside the data directory. The key that signs checkpoints is not in it.

DIR must not exist. A plain name is one in the backup directory (setting backup.dir); without DIR the time is the name. A server makes the backup in its
backup directory; DIR elsewhere must be on the same machine. stagepost admin restore makes a data directory of a backup. The backup contains secrets: it is
readable by its owner alone.`,
		Example: "  stagepost admin backup\n  stagepost admin backup /mnt/backup/stagepost-2026-05-04\n" +
			"  stagepost admin backup --without compute,storage records-only",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			to := ""
			if len(args) == 1 {
				b.Name = args[0]
			}
			if filepath.Base(b.Name) != b.Name {
				b.Name, to = "", b.Name
				if _, err := os.Lstat(to); err == nil {
					return job.Errorf(job.Conflict, "backup", "", "%s exists already: choose another name", to)
				}
			}
			b.Actor = cli.Whoami(b.Actor)
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			return c.makeBackup(ctx, b, to)
		},
	}
	cmd.Flags().StringSliceVar(&b.Without, "without", nil, "parts to leave out: compute, storage")
	cmd.Flags().StringVarP(&b.Note, "note", "m", "", "why; is entered in the audit log")
	c.Complete(cmd, "without", c.host.Omissible()...)
	return cmd
}

// makeBackup makes a backup, and moves it if it is to be elsewhere.
func (c *commands) makeBackup(ctx context.Context, b client.Backup, to string) error {
	done, err := withStore(ctx, c,
		func(ctx context.Context, api *client.Client) (client.BackedUp, error) { return api.Backup(ctx, b) },
		func(ctx context.Context, d *host.Maintenance) (client.BackedUp, error) {
			if err := c.Reasoned(b.Note); err != nil {
				return client.BackedUp{}, err
			}
			return d.Backup(ctx, b)
		})
	if err != nil {
		return err
	}
	if to != "" {
		if err := backup.Move(ctx, done.Dir, to); err != nil {
			return fmt.Errorf("the backup is complete in %s, and stays there: %w", done.Dir, err)
		}
		done.Dir = to
	}
	return c.printBackup(&done)
}

// printBackup prints what a backup contains and what lies outside.
func (c *commands) printBackup(b *client.BackedUp) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(b)
	}
	pairs := [][2]string{
		{"backup", b.Dir}, {"installation", b.Installation}, {"moment", c.Out.Moment(b.Moment)},
		{"files", strconv.FormatInt(b.Files, 10)},
		{"bytes", c.Bytes(b.Bytes)}, {"left out", strings.Join(b.Without, ", ")},
		{"not known", strings.Join(b.Unknown, ", ")},
	}
	for _, l := range b.Outside {
		pairs = append(pairs, [2]string{"outside", l.Path + " (" + l.What + ")"})
	}
	return c.Out.Sheet(pairs)
}
