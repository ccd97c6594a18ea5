package ingestcli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/ingest/fsck"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/host"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/sqlite"
)

func (c *commands) inventory() *cobra.Command {
	return cli.Group("inventory", "Rebuild the inventory of stored objects",
		`The inventory (inventory.db) lists which objects are stored, with versions, files, digests and identifiers. The server refuses to start when it is missing,
empty, damaged, older than what was recorded, or that of another installation.`,
		"  stagepost ingest inventory rebuild --data /srv/stagepost",
		c.rebuildInventory())
}

func (c *commands) rebuildInventory() *cobra.Command {
	var in fsck.Rebuild
	var actor string
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Rebuild the inventory from the storage locations and the records",
		Long: `Reads every object in the storage locations, and all records of jobs, and makes a new inventory. Stop the server first. The old inventory is kept beside the
new one, which replaces it when it is complete: the command can be stopped at any time, and repeated.

Every stored file is read once and compared with its digest. What the records of jobs no longer have is taken from the files that Stagepost added to each
version. Media types are guessed by the names of files. Versions that a record names and no location has are listed; their identifiers are not minted again.

All storage locations that profiles, records or the old inventory name must be there. --skip leaves a lost one out; --adopt gives one to this installation that has
no stagepost-location.json or belonged to another installation. The exit code is 1 if something was damaged or missing.`,
		Example: "  stagepost ingest inventory rebuild --data /srv/stagepost\n  stagepost ingest inventory rebuild " +
			"--skip /mnt/lost\n" +
			"  stagepost ingest inventory rebuild --adopt /mnt/archive --note 'its identity file was lost'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(in.Adopt) > 0 && in.Note == "" {
				return cli.Usagef("a storage location is adopted for a reason: --note WHY")
			}
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			if err := c.Reasoned(in.Note); err != nil {
				return err
			}
			in.Actor = cli.Whoami(actor)
			done, err := c.rebuilt(ctx, in)
			if err != nil {
				return err
			}
			return c.printRebuilt(done)
		},
	}
	cmd.Flags().StringArrayVar(&in.Skip, "skip", nil, "a storage location to leave out; may be repeated")
	cmd.Flags().StringArrayVar(&in.Adopt, "adopt", nil,
		"a storage location to give to this installation; may be repeated")
	cmd.Flags().StringVarP(&in.Note, "note", "m", "",
		"why; is entered in the audit log, and stands in the file of a location that is adopted")
	cmd.Flags().StringVar(&actor, "actor", "", "your name in the audit log; defaults to the login name")
	return cmd
}

// rebuilt makes the inventory anew. The store's own lock keeps a server from working on the directory meanwhile.
func (c *commands) rebuilt(ctx context.Context, in fsck.Rebuild) (done fsck.Rebuilt, err error) {
	if err := c.Settings.OwnStore("restore the inventory with its database (pg_restore); or stagepost migrate the " +
		"jobs to sqlite, rebuild, and migrate them back"); err != nil {
		return done, err
	}
	dir, err := filepath.Abs(c.Settings.Data)
	if err != nil {
		return done, err
	}
	if _, err := os.Stat(filepath.Join(dir, "stagepost.db")); err != nil {
		return done, job.Errorf(job.NotFound, cli.NoStore, "", "there is no store in %s: restore stagepost.db "+
			"first; an inventory in PostgreSQL is restored with its database (pg_restore)", dir)
	}
	store, err := sqlite.Open(dir, sqlite.Options{NoLog: true})
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	profiles, err := c.settings.OpenProfiles(dir)
	if err != nil {
		return done, err
	}
	in.Source = fsck.Source{Dir: dir, Installation: store.Installation(), Records: store, Profiles: profiles}
	done, err = fsck.RebuildInventory(ctx, in)
	if err != nil {
		return done, err
	}
	what := fmt.Sprintf("%d objects, %d versions of %d storage locations", done.Objects, done.Versions,
		len(done.Locations))
	return done, host.EnterAudit(ctx, store, job.Audit{Event: "inventory-rebuild", By: lifecycle.Operator,
		Actor: in.Actor, Note: in.Note, Object: what})
}

func (c *commands) printRebuilt(done fsck.Rebuilt) error {
	if c.Out.Mode == cli.ModeJSON {
		if err := c.Out.JSON(done); err != nil {
			return err
		}
	} else {
		for _, f := range done.Faults {
			c.Out.Line("%s", f)
		}
		rows := [][2]string{
			{"locations", strconv.Itoa(len(done.Locations))}, {"objects", strconv.Itoa(done.Objects)}, {"versions",
				strconv.Itoa(done.Versions)},
			{"identifiers", strconv.Itoa(done.Names)}, {"lost", strconv.Itoa(done.Lost)}, {"faults",
				strconv.Itoa(len(done.Faults))},
		}
		if done.Kept != "" {
			rows = append(rows, [2]string{"old inventory", done.Kept})
		}
		if err := c.Out.Sheet(rows); err != nil {
			return err
		}
	}
	if len(done.Faults) > 0 {
		return cli.Faults{N: len(done.Faults)}
	}
	return nil
}
