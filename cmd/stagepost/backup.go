package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

func (c *cli) backup() *cobra.Command {
	return &cobra.Command{
		Use:   "backup [FILE]",
		Short: "Copy the store while it works",
		Long: `Copies the store, as it is at one moment, to FILE, which must not exist; a name without a directory is one in DIR/backups of the data
directory, and without FILE the time is the name. It prints the file and its size. A server makes the copy in its own directory; FILE elsewhere
must be on the same machine. To use a copy, put it as stagepost.db into an empty data directory and start a server there. Payloads and logs are plain files: copy
them as such.`,
		Example: "  stagepost backup\n  stagepost backup /mnt/backup/stagepost-2026-05-04.db",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, file := "", ""
			if len(args) == 1 {
				name = args[0]
			}
			if filepath.Base(name) != name {
				name, file = "", name
				if _, err := os.Lstat(file); err == nil {
					return job.Errorf(job.Conflict, "backup", "", "%s exists already", file)
				}
			}
			ctx, cancel := c.patient(cmd)
			defer cancel()
			b, err := withStore(ctx, c,
				func(ctx context.Context, api *client.Client) (client.BackedUp, error) {
					return api.Backup(ctx, client.Backup{Name: name})
				},
				func(ctx context.Context, k *keeper) (client.BackedUp, error) { return k.Backup(ctx, name) })
			if err != nil {
				return err
			}
			if file != "" {
				if err := shift(b.File, file); err != nil {
					return fmt.Errorf("the copy is in %s: %w", b.File, err)
				}
				b.File = file
			}
			if c.out.mode == modeJSON {
				return c.out.json(b)
			}
			return c.out.table([]string{"FILE", "BYTES"}, [][]string{{b.File, strconv.FormatInt(b.Bytes, 10)}})
		},
	}
}

// shift moves a file, to another file system too. The file is whole and on disk under its new name before the old one goes; a file that is there
// is not replaced.
func shift(from, to string) error {
	if err := os.Link(from, to); err == nil {
		return os.Remove(from)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return os.Remove(from)
}
