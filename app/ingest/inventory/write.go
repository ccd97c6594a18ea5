package inventory

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/stagepost/stagepost/internal/sqldb"
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
	undone, err := i.transact(c.ctx, !c.volatile, c.do)
	if undone && sqldb.FaultOf(err) == sqldb.Corrupt {
		i.die(err)
	}
	return err
}

// transact runs do in a transaction. undone: nothing has happened. After another error that is unknown.
func (i *Inventory) transact(ctx context.Context, synced bool, do func(tx *change) error) (undone bool, err error) {
	if i.shared != nil {
		err := i.shared.Write(ctx, func(tx *sql.Tx) error { return do(&change{Tx: tx}) })
		if errors.As(err, new(*sqldb.Unavailable)) {
			return false, &job.Error{Op: "inventory", Kind: job.Unavailable, Err: err}
		}
		return err != nil, err
	}
	if err := i.pace(ctx, synced); err != nil {
		return true, err
	}
	tx, err := i.begin(ctx)
	if err != nil {
		return true, err
	}
	if err := do(tx); err != nil {
		return true, errors.Join(err, tx.Rollback())
	}
	return false, i.commit(tx)
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
	if err != nil && sqldb.FaultOf(err) != sqldb.Other {
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
	if err == nil && sequence > 0 && i.head != nil {
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
