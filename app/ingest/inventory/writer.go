package inventory

import (
	"context"
	"database/sql"
)

// Lock makes the job the only writer of an object and gives the job that is: another one if it came first. The lock survives the
// process; Record ends it, and so does Unlock once the holder has ended.
func (i *Inventory) Lock(ctx context.Context, ark, job string) (holder string, err error) {
	err = i.tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO writers VALUES (?, ?) ON CONFLICT DO NOTHING", ark, job); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, "SELECT job FROM writers WHERE ark = ?", ark).Scan(&holder)
	})
	return holder, err
}

// Unlock ends the lock of an object if the job has it.
func (i *Inventory) Unlock(ctx context.Context, ark, job string) error {
	_, err := i.write.ExecContext(ctx, "DELETE FROM writers WHERE ark = ? AND job = ?", ark, job)
	return err
}
