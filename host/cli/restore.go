package hostcli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/backup"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/host"
)

func (c *commands) restore() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "restore BACKUP --data NEW",
		Short: "Make a data directory of a backup",
		Long: `Checks a backup made by stagepost admin backup, every file against its digest, and then makes the data directory NEW of it, which must not exist or be empty. A
backup with a missing, changed or added file, a database of another moment or installation, or from a newer version is refused, and nothing is written. With
--check nothing is written either way. If the restore is interrupted, no server starts on NEW: remove it and restore again.

The restored directory is the same installation: never run it beside the one that it was made of. What the backup refers to and does not contain is printed:
storage locations must be there before a server starts; files of the configuration are in NEW/outside.`,
		Example: "  stagepost admin restore /mnt/backup/stagepost-2026-05-04 --data /srv/stagepost-new\n" +
			"  stagepost admin restore --check /mnt/backup/stagepost-2026-05-04",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !check && !cmd.Flags().Changed("data") {
				return cli.Usagef("name the new data directory with --data NEW")
			}
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			set := args[0]
			var m *backup.Manifest
			var err error
			if check {
				m, err = backup.Check(ctx, set, c.host.SetReader())
			} else {
				m, err = backup.Restore(ctx, set, c.Settings.Data, c.host.SetReader())
			}
			if err != nil {
				return err
			}
			done := host.BackedUp(set, m)
			if err := c.printBackup(&done); err != nil || check {
				return err
			}
			c.afterRestore(m)
			return nil
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "check the backup only")
	return cmd
}

// afterRestore prints what a person must do before a server starts.
func (c *commands) afterRestore(m *backup.Manifest) {
	c.Note("%s is whole. Never run it beside the installation that it was made of.", c.Settings.Data)
	for _, l := range m.Outside {
		c.Note("outside: %s (%s) must be there before the server starts", l.Path, l.What)
	}
	if slices.Contains(m.Without, "storage") {
		c.Note("the backup was made without stored objects: copy them to %s before the server starts",
			filepath.Join(c.Settings.Data, "storage"))
	}
	if outside := filepath.Join(c.Settings.Data, backup.OutsideName); Exists(outside) {
		c.Note("configuration that lay elsewhere is in %s: put it back if it is lost there", outside)
	}
	if Exists(filepath.Join(c.Settings.Data, host.CheckpointsName)) {
		c.Note("copy the key of checkpoints back (checkpoint.key_file), then record the restore: stagepost admin "+
			"checkpoint restored --data %s --note WHY", c.Settings.Data)
	}
	c.Note("next: stagepost admin verify --data %s", c.Settings.Data)
}

// knownBackups returns a hint for a backup that does not exist: the backups in the directory of that name, if any.
func knownBackups(named string) string {
	dir := filepath.Dir(named)
	if all, err := backup.List(dir, ""); err == nil && len(all) > 0 {
		names := []string{}
		for _, f := range slices.Backward(all) { // newest first
			names = append(names, f.Name)
		}
		more := ""
		if len(names) > mostNames {
			more = fmt.Sprintf(" and %d older", len(names)-mostNames)
			names = names[:mostNames]
		}
		return fmt.Sprintf("backups in %s: %s%s", dir, strings.Join(names, ", "), more)
	}
	return fmt.Sprintf("no backups in %s; the server writes them to the directory backup.dir of its configuration, "+
		"by default backups in its data directory", dir)
}

// mostNames is how many backups a hint names.
const mostNames = 5

func Exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
