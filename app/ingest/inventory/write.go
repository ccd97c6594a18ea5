package inventory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/stagepost/stagepost/job"
)

// layer is the file layer below SQLite as a part of the name of the file; tests replace it by one whose syncs fail.
var layer = ""

// alone carries out a call in a transaction of its own.
func (i *Inventory) alone(c *call) error {
	if why := i.dead.Load(); why != nil {
		return &job.Error{Op: "inventory", Kind: job.Unavailable,
			Err: fmt.Errorf("nothing is written after a failure of the disk: %w", *why)}
	}
	if err := i.pace(c.ctx, !c.volatile); err != nil {
		return err
	}
	tx, err := i.begin(c.ctx)
	if err != nil {
		return err
	}
	if err := c.do(tx); err != nil {
		if fault(err) == faultCorrupt {
			i.die(err)
		}
		return errors.Join(err, tx.Rollback())
	}
	return i.commit(tx)
}

// pace makes the next commit sync the log of the database, or not. Without that SQLite syncs the log before it copies
// it into the database, and before it begins the log anew (PRAGMA synchronous, WAL mode), so the database stays whole,
// and a later commit that syncs includes this one. The caller has the turn.
func (i *Inventory) pace(ctx context.Context, synced bool) error {
	if i.unsynced || synced == !i.relaxed {
		return nil
	}
	mode := "NORMAL"
	if synced {
		mode = "FULL"
	}
	if _, err := i.write.ExecContext(ctx, "PRAGMA synchronous = "+mode); err != nil {
		return err
	}
	i.relaxed = !synced
	return nil
}

// commit ends a transaction. A disk that refuses it ends the inventory.
func (i *Inventory) commit(tx *change) error {
	err := tx.Commit()
	if err != nil && fault(err) != faultOther {
		i.die(fmt.Errorf("commit: %w", err))
	}
	return err
}

// advanced is tx for what counts as an entry: it updates the file beside the inventory.
func (i *Inventory) advanced(ctx context.Context, do func(tx *change) (bool, error)) error {
	var sequence int64
	err := i.tx(ctx, func(tx *change) error {
		sequence = 0
		entered, err := do(tx)
		if err == nil && entered {
			err = tx.QueryRowContext(ctx, "UPDATE meta SET sequence = sequence + 1 RETURNING sequence").Scan(&sequence)
		}
		return err
	})
	if err == nil && sequence > 0 {
		i.head.Note(sequence)
	}
	return err
}

// Dead gives the error that ended the inventory, once. The process should end: the next start reads what is there.
func (i *Inventory) Dead() <-chan error { return i.deaths }

func (i *Inventory) die(err error) {
	if i.dead.CompareAndSwap(nil, &err) {
		i.deaths <- err
	}
}

// The kinds of fault of a disk that end the inventory.
const (
	faultOther   = iota
	faultIO      // the disk refused
	faultCorrupt // the file is damaged
)

func fault(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return faultOther
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
		return faultIO
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return faultCorrupt
	}
	return faultOther
}

// private makes the file when there is none, for this user only, and takes from one that is there, and from its log,
// the rights that the store beside it does not give.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(filepath.Join(filepath.Dir(path), "stagepost.db")); err == nil {
		mode = info.Mode().Perm()
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if had := info.Mode().Perm(); had&^mode != 0 {
			if err := os.Chmod(name, had&mode); err != nil {
				return err
			}
		}
	}
	return nil
}
