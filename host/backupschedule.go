package host

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/backup"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/config"
	"github.com/stagepost/stagepost/quantity"
)

// backupRetry is the longest pause after a scheduled backup that failed.
const backupRetry = 10 * time.Minute

// schedule makes backups again and again.
type schedule struct {
	every time.Duration // 0: none are made
	last  func() time.Time
	do    func(context.Context) error
	log   *slog.Logger

	mu      sync.Mutex // guards failure
	failure error      // of the newest attempt
}

// openBackups makes the schedule of a server, and removes what a backup left that was under way when the server ended.
func (r *Server) openBackups(s *Settings, d *Maintenance) error {
	if r.store.Freeze == nil {
		if s.BackupEvery > 0 {
			return cli.Usagef("backup.every must be off: %s", r.store.Instead)
		}
		return nil
	}
	if s.BackupKeep < 1 {
		return cli.Usagef("backup.keep must be at least 1; backup.every: off makes no backups")
	}
	if s.BackupDir != "" {
		if _, err := s.namedBackupDir(r.Data); err != nil {
			return cli.Usage(err)
		}
	}
	for _, part := range config.List(s.BackupWithout) {
		if all := s.Omissible(); !slices.Contains(all, part) {
			return cli.Usagef("backup.without: %q is no part of backups that can be left out (%s)", part,
				strings.Join(all, ", "))
		}
	}
	r.backups = &schedule{every: s.BackupEvery, last: func() time.Time { return d.last().Moment }, do: d.scheduled,
		log: r.Log}
	return backup.Sweep(r.Data)
}

// run makes backups until ctx ends: the first when the last one is as old as the interval, or at once if there is none.
func (s *schedule) run(ctx context.Context) {
	if s.every <= 0 {
		return
	}
	pause := time.Until(s.last().Add(s.every))
	for {
		timer := time.NewTimer(min(max(pause, 0), s.every)) // a last one in the future is of a clock that was wrong
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		err := s.do(ctx)
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		s.failure = err
		s.mu.Unlock()
		if pause = s.every; err != nil {
			s.log.Error("scheduled backup failed", "error", err)
			pause = min(s.every, backupRetry)
		}
	}
}

// warnings returns the faults of the backups for /healthz.
func (s *schedule) warnings(now time.Time) []string {
	if s.every <= 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	if s.failure != nil {
		all = append(all, fmt.Sprintf("the last scheduled backup failed: %v", s.failure))
	}
	if last := s.last(); !last.IsZero() && now.Sub(last) > 2*s.every {
		all = append(all, fmt.Sprintf("the last backup is of %s, and backup.every is %s: read the log, or run "+
			"stagepost admin backup", last.UTC().Format(time.RFC3339), quantity.FormatDuration(s.every)))
	}
	return all
}
