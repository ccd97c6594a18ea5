package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/backup"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/config"
	"github.com/stagepost/stagepost/edge/disk"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var backupName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// lastBackupName is the file of the data directory that names the last backup.
const lastBackupName = "last-backup.json"

// lastBackup is the content of that file.
type lastBackup struct {
	Moment time.Time `json:"moment"`
	Dir    string    `json:"dir,omitempty"`  // the backup directory of the last scheduled one
	Name   string    `json:"name,omitempty"` // of its set
}

// backups makes backups of one data directory, one after another.
type backups struct{ busy sync.Mutex }

// namedBackupDir returns the directory of the setting backup.dir as an absolute path. The directory is not made: it may
// be a mount point whose file system is missing. A full file system is no error here.
func (s *Settings) namedBackupDir(data string) (string, error) {
	dir, err := filepath.Abs(s.BackupDir)
	if err != nil {
		return "", fmt.Errorf("backup.dir: %w", err)
	}
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("backup.dir: %s does not exist: mount its file system, or make the directory once "+
			"(mkdir %s)", dir, dir)
	case err != nil:
		return "", fmt.Errorf("backup.dir: %w", err)
	case !info.IsDir():
		return "", fmt.Errorf("backup.dir: %s is not a directory", dir)
	}
	if inner, inside := below(data, dir); inside {
		first, _, _ := strings.Cut(inner, string(filepath.Separator))
		if e := backup.Find(s.DurableData(), first); e != nil && e.How != backup.Left {
			return "", fmt.Errorf("backup.dir: %s is in %s, which backups contain: name a directory outside of the "+
				"data directory", dir, filepath.Join(data, first))
		}
	}
	if err := disk.Write(dir); err != nil && !job.IsFull(err) {
		var cause *fs.PathError
		if errors.As(err, &cause) { // without the name of the file that was tried
			err = cause.Err
		}
		return "", fmt.Errorf("backup.dir: %s accepts no files: %w: correct its owner or its mode, or name another "+
			"directory", dir, err)
	}
	return dir, nil
}

// CheckBackupDir checks the directory that a configuration file names for backups, if it names one.
func (s *Settings) CheckBackupDir(file string) error {
	entries, err := config.ReadEntries(file)
	if err != nil {
		return err
	}
	of := s.Fresh()
	for _, e := range entries {
		switch e.Name {
		case "data":
			of.Data = e.Text
		case "backup.dir":
			of.BackupDir = e.Text
		}
	}
	if of.BackupDir == "" {
		return nil
	}
	data, err := filepath.Abs(of.Data)
	if err == nil {
		_, err = of.namedBackupDir(data)
	}
	return err
}

// backupDir returns the directory of backups.
func (d *Maintenance) backupDir() (string, error) {
	if d.Settings.BackupDir != "" {
		dir, err := d.Settings.namedBackupDir(d.Dir)
		if err != nil {
			return "", &job.Error{Op: "backup", Kind: job.Unavailable, Err: err}
		}
		return dir, nil
	}
	dir := filepath.Join(d.Dir, "backups")
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return "", &job.Error{Op: "backup", Kind: job.Unavailable, Err: err}
	}
	return dir, nil
}

// Backup makes a set in the backup directory and enters it in the audit list.
func (d *Maintenance) Backup(ctx context.Context, b client.Backup) (client.BackedUp, error) {
	return d.backUp(ctx, b, lifecycle.Operator)
}

func (d *Maintenance) backUp(ctx context.Context, b client.Backup, by lifecycle.Actor) (client.BackedUp, error) {
	if d.Store.Freeze == nil {
		return client.BackedUp{}, &job.Error{Op: "backup", Kind: job.Refused, Err: errors.New(d.Store.Instead)}
	}
	if b.Name == "" {
		b.Name = backup.NameAt("backup-", time.Now())
	}
	if !backupName.MatchString(b.Name) {
		return client.BackedUp{}, job.Errorf(job.Invalid, "backup", "",
			"%.100q is not a plain name (letters, digits, dot, dash, underscore)", b.Name)
	}
	for _, part := range b.Without {
		if !slices.Contains(d.Settings.Omissible(), part) {
			return client.BackedUp{}, job.Errorf(job.Invalid, "backup", "",
				"%.100q is no part that can be left out (%s)", part, strings.Join(d.Settings.Omissible(), ", "))
		}
	}
	if !d.backups.busy.TryLock() {
		return client.BackedUp{}, job.Errorf(job.Conflict, "backup", "",
			"a backup is being made already: wait until it is complete")
	}
	defer d.backups.busy.Unlock()
	dir, err := d.backupDir()
	if err != nil {
		return client.BackedUp{}, err
	}
	from, err := d.source(ctx)
	if err != nil {
		return client.BackedUp{}, &job.Error{Op: "backup", Kind: job.Unavailable, Err: err}
	}
	m, err := backup.Write(ctx, from, backup.Options{Dir: dir, Name: b.Name, Without: append([]string{}, b.Without...),
		Now: time.Now})
	if err != nil {
		return client.BackedUp{}, err
	}
	done := BackedUp(filepath.Join(dir, b.Name), m)
	if err := d.enter(ctx, by, "backup", b.Actor, b.Note, done.Dir); err != nil {
		return done, err
	}
	l := d.last()
	if l.Moment = m.Moment; by == lifecycle.Engine { // others may be moved elsewhere
		l.Dir, l.Name = dir, b.Name
	}
	return done, d.noteLast(l)
}

// BackedUp returns the description of a backup for the API.
func BackedUp(dir string, m *backup.Manifest) client.BackedUp {
	b := client.BackedUp{
		Dir: dir, ID: m.ID, Installation: m.Installation, Moment: m.Moment, Frozen: m.Frozen, Files: m.Files,
		Bytes: m.Bytes, Without: m.Without, Unknown: m.Unknown,
		Outside: []client.Location{},
	}
	for _, l := range m.Outside {
		b.Outside = append(b.Outside, client.Location(l))
	}
	return b
}

// enter enters what was done to the data directory in the audit list.
func (d *Maintenance) enter(ctx context.Context, by lifecycle.Actor, event lifecycle.Event, actor, note,
	object string) error {
	return EnterAudit(ctx, d.Store.Jobs, job.Audit{Event: event, By: by, Actor: actor, Note: note, Object: object})
}

// EnterAudit enters what was done now in the audit list of a store.
func EnterAudit(ctx context.Context, store job.AuditLog, a job.Audit) error {
	a.Actor, a.At = cli.Whoami(a.Actor), time.Now()
	return store.Note(ctx, a)
}

// noteLast remembers a backup in the data directory.
func (d *Maintenance) noteLast(l lastBackup) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(d.Dir, lastBackupName), append(text, '\n'))
}

// last returns the last backup, or the zero value. A file that cannot be read counts as none: only warnings depend on
// it.
func (d *Maintenance) last() (l lastBackup) {
	if text, err := os.ReadFile(filepath.Join(d.Dir, lastBackupName)); err != nil || json.Unmarshal(text, &l) != nil {
		return lastBackup{}
	}
	return l
}

// scheduled makes a backup by the settings, and removes those that are too many.
func (d *Maintenance) scheduled(ctx context.Context) error {
	dir, err := d.backupDir()
	if err != nil {
		return err
	}
	if l := d.last(); l.Dir == dir {
		if _, gone := os.Stat(filepath.Join(dir, l.Name)); gone != nil {
			if all, err := backup.List(dir, d.Store.Installation); err == nil && len(all) == 0 {
				return job.Errorf(job.Unavailable, "backup", "",
					"backup.dir: %s has none of the backups that were made there, the last one %s: mount its file "+
						"system, or make one manually (stagepost admin backup)", dir, l.Name)
			}
		}
	}
	b := client.Backup{
		Name: backup.NameAt(backup.Scheduled, time.Now()), Actor: "schedule",
		Without: config.List(d.Settings.BackupWithout),
	}
	if _, err := d.backUp(ctx, b, lifecycle.Engine); err != nil {
		return err
	}
	_, err = backup.Prune(dir, d.Store.Installation, d.Settings.BackupKeep)
	return err
}
