package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// Backup writes a copy of the database to file while the store continues: the state of one moment, complete and on
// disk when Backup returns nil. To open a copy, move it into an empty directory as stagepost.db. Kinds of error:
// Conflict (the file exists), Unavailable (no free space, no access, ctx ended).
func (s *Store) Backup(ctx context.Context, file string) error {
	if s.dead.Load() != nil {
		return s.deadError()
	}
	if err := s.applier.flush(ctx); err != nil {
		return err
	}
	if _, err := os.Lstat(file); err == nil {
		return job.Errorf(job.Conflict, "backup", "", "%s exists already", file)
	}
	dir, err := os.MkdirTemp(filepath.Dir(file), ".backup-") // accessible to this user only
	if err != nil {
		return &job.Error{Op: "backup", Kind: job.Unavailable, Err: err}
	}
	defer os.RemoveAll(dir)
	copied := filepath.Join(dir, database)
	if err := s.copyTo(ctx, copied); err != nil {
		return &job.Error{Op: "backup", Kind: job.Unavailable, Err: err}
	}
	if err := os.Link(copied, file); errors.Is(err, os.ErrExist) { // a rename would overwrite
		return job.Errorf(job.Conflict, "backup", "", "%s exists already", file)
	} else if err != nil {
		return &job.Error{Op: "backup", Kind: job.Unavailable, Err: err}
	}
	if err := durable.Sync(filepath.Dir(file)); err != nil {
		return &job.Error{Op: "backup", Kind: job.Unavailable, Err: err}
	}
	return nil
}

// copyTo writes a compact copy and syncs it.
func (s *Store) copyTo(ctx context.Context, file string) error {
	c, err := s.connect(conn.ReadWrite, "")
	if err != nil {
		return err
	}
	defer c.Close()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		c.Interrupt()
		close(interrupted)
	})
	defer func() {
		if !stop() {
			<-interrupted // the connection is closed next
		}
	}()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.Exec("VACUUM INTO '" + strings.ReplaceAll(file, "'", "''") + "'"); err != nil {
		return fmt.Errorf("copy: %w", errors.Join(err, ctx.Err()))
	}
	if err := s.leave(file); err != nil {
		return err
	}
	return durable.Sync(file)
}

// noHead marks a copy as having no head file.
const noHead = "PRAGMA synchronous = FULL; UPDATE head SET series = '', copied = 1"

// leave marks a copy as having no head file: the next Open creates it.
func (s *Store) leave(file string) error {
	c, err := conn.Open(file, conn.ReadWrite, s.options.vfs)
	if err != nil {
		return err
	}
	err = c.Exec(noHead)
	return errors.Join(err, c.Close())
}
