package host

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/backup"
	"github.com/stagepost/stagepost/host/stores"
	"github.com/stagepost/stagepost/store/sqlite"
)

// The first backup is made when the last one is as old as the interval, then one each interval; a failure is tried
// again sooner, and warned of.
func TestSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var last atomic.Pointer[time.Time] // warnings read it beside the schedule
		set := func(at time.Time) { last.Store(&at) }
		set(began.Add(-20 * time.Hour))
		var at []time.Duration
		s := &schedule{every: 24 * time.Hour, last: func() time.Time { return *last.Load() },
			log: slog.New(slog.DiscardHandler)}
		s.do = func(context.Context) error {
			at = append(at, time.Since(began))
			if len(at) == 2 {
				return errors.New("the disk is gone")
			}
			set(time.Now())
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.run(ctx)
		}()
		time.Sleep(28*time.Hour + time.Minute)
		if w := s.warnings(time.Now()); len(w) != 1 || !strings.Contains(w[0], "the disk is gone") {
			t.Errorf("after a failure: %q", w)
		}
		time.Sleep(24 * time.Hour)
		cancel()
		<-ended
		if diff := cmp.Diff([]time.Duration{4 * time.Hour, 28 * time.Hour, 28*time.Hour + 10*time.Minute},
			at); diff != "" {
			t.Errorf("backups (-want +got):\n%s", diff)
		}
		if w := s.warnings(time.Now()); len(w) > 0 {
			t.Errorf("afterwards: %q", w)
		}
		if w := s.warnings(time.Now().Add(72 * time.Hour)); len(w) != 1 ||
			!strings.Contains(w[0], "backup.every is 1d") {
			t.Errorf("when it is old: %q", w)
		}
	})
}

// TestBackupDirIsCheckedAtStart: a server does not start with a directory of backups that it cannot use. The error
// names the setting, the path and what to do.
func TestBackupDirIsCheckedAtStart(t *testing.T) {
	root := t.TempDir()
	data := filepath.Join(root, "data")
	for _, dir := range []string{"data/logs/sets", "fine", "data/backups/mine"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		"missing":           "does not exist: mount its file system, or make the directory once (mkdir ",
		"file":              "is not a directory",
		"file/below":        "not a directory",
		"/proc/self":        "/proc/self accepts no files: ",
		"data/logs/sets":    "is in " + data + "/logs, which backups contain: name a directory outside",
		"fine":              "",
		"data/backups/mine": "",
	} {
		s := NewSettings()
		if s.BackupDir = dir; !filepath.IsAbs(dir) {
			s.BackupDir = filepath.Join(root, dir)
		} else if runtime.GOOS != "linux" {
			continue
		}
		s.Data, s.Listen = data, "127.0.0.1:0"
		r, err := Start(t.Context(), s, slog.New(slog.DiscardHandler))
		switch {
		case want == "" && err == nil:
			if err := r.Stop(); err != nil {
				t.Error(err)
			}
		case want == "" || err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "backup.dir: ") || !strings.Contains(err.Error(), s.BackupDir):
			t.Errorf("%s: got %v, want %q", dir, err, want)
		}
		file := filepath.Join(root, "stagepost.yaml")
		if err := os.WriteFile(file, []byte("data: "+data+"\nbackup:\n  dir: "+s.BackupDir+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if found := NewSettings().CheckBackupDir(file); (found == nil) != (want == "") || err != nil &&
			found.Error() != err.Error() {
			t.Errorf("%s: the check of the file reports %v, the start %v", dir, found, err)
		}
	}
}

// Scheduled backups keep to backup.keep. A backup directory that is missing, or has lost all that was made there, is
// refused: nothing is written below an unmounted mount point.
func TestScheduledBackups(t *testing.T) {
	data, dir := t.TempDir(), filepath.Join(t.TempDir(), "mount")
	store, err := sqlite.Open(data, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s := NewSettings()
	s.Data, s.BackupDir, s.BackupKeep = data, dir, 2
	d := &Maintenance{Store: stores.OfSQLite(store), Dir: data, Settings: s}
	refused := func(what, want string) {
		t.Helper()
		if err := d.scheduled(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("no directory", "does not exist: mount its file system")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := d.scheduled(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	all, err := backup.List(dir, store.Installation())
	if err != nil || len(all) != 2 || !strings.HasPrefix(all[0].Name, backup.Scheduled) {
		t.Errorf("kept %v, %v", all, err)
	}
	if err := os.Rename(dir, dir+"-elsewhere"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	refused("an empty mount point", "has none of the backups that were made there")
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("written below the mount point: %v, %v", names, err)
	}
	list, err := store.Audit(t.Context(), 0, 10)
	if err != nil || len(list) != 3 || list[0].Event != "backup" || list[0].Actor != "schedule" {
		t.Errorf("audit list %+v, %v", list, err)
	}
}
