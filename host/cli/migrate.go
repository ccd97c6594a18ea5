package hostcli

import (
	"context"
	"net/url"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/host"
	"github.com/stagepost/stagepost/host/stores"
	"github.com/stagepost/stagepost/internal/transfer"
)

func (c *commands) migrate() *cobra.Command {
	var m host.Migration
	var reopen bool
	var password string
	cmd := &cobra.Command{
		Use:   "migrate FROM TO",
		Short: "Copy all jobs from SQLite to PostgreSQL, or back",
		Long: `Copies the store FROM into the empty store TO, with the databases of the applications, and compares both row by row. No server may run on either
of them. FROM and TO are sqlite, the database in the data directory (--data), and postgres://USER@HOST/DATABASE; postgres alone is the database of the
setting store. The password of its user is in the file of store.password_file.

Everything of the jobs is copied: records, specifications, data, histories with their hashes, tasks, numbers, keys, tags, holds, messages with their
deliveries, the audit log, the clock, and the id of the installation. Claims are kept: a worker on another machine continues with its epoch, and the lease
of one that does not ends as usual. The files of jobs stay in the data directory. With PostgreSQL it is the directory of the setting shared of all servers.

Until everything was compared, no server starts on TO. If the command is interrupted, run it again: it begins anew. Afterwards no server starts on FROM.
To go back, migrate in the other direction with --replace, which removes the former jobs from that store. To discard what was done since, use --reopen:
servers start again on the store that it names, and no longer on the other one.

Warnings name the settings that servers on TO refuse, and the jobs of the agent in the server (compute.local), which several servers do not have: let these
jobs end before. With --dry-run they are the same.`,
		Example: "  stagepost migrate sqlite postgres://stagepost@db.example.org/jobs --data /srv/stagepost " +
			"--dry-run\n" +
			"  stagepost migrate postgres sqlite --replace --data /srv/stagepost\n" +
			"  stagepost migrate --reopen sqlite --data /srv/stagepost",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			m.Settings = c.host
			if password != "" {
				c.host.StorePassword = password
			}
			if m.Dir, err = filepath.Abs(c.Settings.Data); err != nil {
				return err
			}
			for i := range args {
				if args[i], err = c.storeNamed(args[i]); err != nil {
					return err
				}
			}
			if reopen {
				return c.reopen(ctx, &m, args)
			}
			return c.copyStore(ctx, &m, args)
		},
	}
	cmd.Flags().BoolVar(&m.Check, "dry-run", false, "check both stores and count what would be copied")
	cmd.Flags().BoolVar(&m.Replace, "replace", false,
		"remove what TO still has of jobs that were migrated away from it")
	cmd.Flags().StringVar(&password, "store-password-file", "",
		"file with the password of the user of the database; defaults to the setting store.password_file")
	cmd.Flags().BoolVar(&reopen, "reopen", false, "let servers use a store again whose jobs were migrated")
	return cmd
}

// copyStore copies the jobs of the first of two stores into the second one.
func (c *commands) copyStore(ctx context.Context, m *host.Migration, named []string) error {
	if len(named) != 2 || stores.Shared(named[0]) == stores.Shared(named[1]) {
		return cli.Usagef("name two stores, one of which is sqlite and the other one is in PostgreSQL")
	}
	m.From, m.To = named[0], named[1]
	bar := &cli.Bar{Out: c.Err}
	if c.Err.Terminal {
		m.Progress = func(done, total int64, what string) { _ = bar.Show(done, total, what) } // decoration
	}
	done, err := m.Run(ctx)
	bar.Clear()
	if err != nil {
		return err
	}
	return c.printMigrated(&done)
}

// reopen lets servers use one store again.
func (c *commands) reopen(ctx context.Context, m *host.Migration, named []string) error {
	if len(named) > 1 {
		return cli.Usagef("--reopen takes one store, whose jobs were migrated")
	}
	m.From = named[0]
	name, err := m.Reopen(ctx)
	if err != nil {
		return err
	}
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(map[string]string{"reopened": name})
	}
	return c.Out.Sheet([][2]string{{"reopened", name}})
}

// storeNamed is a store as the setting names it.
func (c *commands) storeNamed(name string) (string, error) {
	if name == "postgres" || name == "postgresql" {
		if !stores.Shared(c.host.Store) {
			return "", cli.Usagef("%s is the database of the setting store, which is %s: write "+
				"postgres://USER@HOST/DATABASE", name, c.host.Store)
		}
		return c.host.Store, nil
	}
	u, err := url.Parse(name)
	if err != nil {
		return "", cli.Usagef("a store is sqlite or postgres://USER@HOST/DATABASE")
	}
	if _, given := u.User.Password(); given {
		return "", cli.Usagef("every user of this machine can read a password in the command line: name its file " +
			"with --store-password-file, or set store in the configuration file and write postgres")
	}
	return name, nil
}

// printMigrated prints what both stores have.
func (c *commands) printMigrated(done *host.Migrated) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(done)
	}
	heading := "WOULD COPY\tROWS\tSHA-256 OF BOTH STORES"
	if done.Copied {
		heading = "COPIED\tROWS\tSHA-256 OF BOTH STORES"
	}
	err := cli.List(c.Out, done.Tables, "", heading, func(t *transfer.Table) []string {
		digest := t.Digest
		if len(digest) > 16 && c.Out.Mode == cli.ModeTable {
			digest = digest[:16]
		}
		return []string{t.Name, strconv.FormatInt(t.Rows, 10), digest}
	})
	for _, w := range done.Warnings {
		c.Note("warning: on the %s: %s", done.To, w)
	}
	if err != nil || !done.Copied {
		return err
	}
	c.Note("both stores were compared and are equal. Start servers on the %s", done.To)
	c.Note("the files of jobs stay in %s. No server starts on the %s any more", done.Directory, done.From)
	return nil
}
