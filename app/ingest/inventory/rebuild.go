package inventory

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/stagepost/stagepost/internal/headfile"
)

// OpenUnsynced makes an inventory whose commits are not synced: who makes it syncs the file at the end, or throws it
// away.
func OpenUnsynced(ctx context.Context, path, installation string) (*Inventory, error) {
	i := newInventory()
	i.unsynced = true
	if err := i.open(ctx, path, installation); err != nil {
		_ = i.Close()
		return nil, fmt.Errorf("inventory %s: %w", path, err)
	}
	return i, nil
}

// OpenOld opens an inventory for reading only, as it is: also one that is older than what was written last.
func OpenOld(ctx context.Context, path string) (*Inventory, error) {
	i := &Inventory{deaths: make(chan error, 1)}
	var err error
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + "?mode=ro&_pragma=busy_timeout(10000)&_pragma=query_only(1)"
	if i.read, err = openReader(dsn, 0); err != nil {
		return nil, err
	}
	err = i.read.QueryRowContext(ctx, "SELECT installation FROM meta").Scan(&i.installation)
	if err != nil {
		_ = i.Close()
		return nil, fmt.Errorf("inventory %s: %w", path, err)
	}
	return i, nil
}

// Continue lets the inventory count its entries after those of another one, which it replaces.
func (i *Inventory) Continue(ctx context.Context, from string) error {
	_, noted, _, err := headfile.Read(from)
	if err != nil {
		return err
	}
	return i.advanced(ctx, func(tx *change) (bool, error) {
		_, err := tx.ExecContext(ctx, "UPDATE meta SET sequence = ?1 WHERE sequence < ?1", noted)
		return true, err
	})
}

// Has reports whether there is an object.
func (i *Inventory) Has(ctx context.Context, ark string) (has bool, err error) {
	err = i.read.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM objects WHERE ark = ?)", ark).Scan(&has)
	return has, err
}

// Names gives how many jobs have an identifier.
func (i *Inventory) Names(ctx context.Context) (n int, err error) {
	err = i.read.QueryRowContext(ctx, "SELECT count(*) FROM named").Scan(&n)
	return n, err
}

// EnterName enters which identifier a job has, and the local ids of the object, from a record or from storage. Entries
// that exist stay.
func (i *Inventory) EnterName(ctx context.Context, job, ark, owner string, minted bool, localIDs []string) error {
	return i.advanced(ctx, func(tx *change) (bool, error) {
		if _, err := tx.ExecContext(ctx, "INSERT INTO named VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", job, ark,
			owner, minted); err != nil {
			return false, err
		}
		for _, id := range localIDs {
			if strings.TrimSpace(id) == "" {
				continue
			}
			if _, err := tx.ExecContext(ctx, "INSERT INTO local_ids VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", owner,
				id, ark, job); err != nil {
				return false, err
			}
		}
		return true, nil
	})
}

// EnterLost enters that no storage location has the version that a job stored.
func (i *Inventory) EnterLost(ctx context.Context, job, ark string, version int) error {
	return i.tx(ctx, func(tx *change) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO lost VALUES (?, ?, ?) ON CONFLICT DO NOTHING", job, ark, version)
		return err
	})
}
