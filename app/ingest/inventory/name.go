package inventory

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/stagepost/stagepost/format/noid"
)

// Claim is what a job knows of its object's identity.
type Claim struct {
	Job      string
	Owner    string
	Given    string   // the ARK in normal form, if the depositor gave one
	LocalIDs []string // the depositor's own names
	Template *noid.Template
}

// Name says which object a job is about.
type Name struct {
	ARK    string // empty: a service has to mint, see Settle; or Holder has to finish first
	Minted bool   // made for this job
	Holder string // a job that is getting an ARK for one of the local ids
}

// Name finds the ARK of a job's object or mints one, in one transaction: the ARK the job got before; else the given one; else the one
// that a local id stands for; else the next of the template. Without a template the local ids are reserved for the job and ARK stays
// empty. A contradiction is ErrConflict.
func (i *Inventory) Name(ctx context.Context, c Claim) (Name, error) {
	var n Name
	err := i.tx(ctx, func(tx *sql.Tx) error {
		var err error
		if n, err = before(ctx, tx, c.Job); err != nil || n.ARK != "" {
			return err
		}
		if n, err = known(ctx, tx, &c); err != nil || n.Holder != "" {
			return err
		}
		if n.ARK == "" && c.Template != nil {
			if n.ARK, err = mint(ctx, tx, c.Template); err != nil {
				return err
			}
			n.Minted = true
		}
		return keep(ctx, tx, &c, n)
	})
	if err != nil {
		return Name{}, fmt.Errorf("name of %s: %w", c.Job, err)
	}
	return n, nil
}

// Settle notes the ARK that a service minted for the job.
func (i *Inventory) Settle(ctx context.Context, c Claim, ark string) (Name, error) {
	var n Name
	err := i.tx(ctx, func(tx *sql.Tx) error {
		var err error
		if n, err = before(ctx, tx, c.Job); err != nil || n.ARK != "" {
			return err
		}
		taken, err := used(ctx, tx, ark)
		if err != nil {
			return err
		}
		if taken {
			return fmt.Errorf("%w: the minter gave %s, which is in use", ErrConflict, ark)
		}
		n = Name{ARK: ark, Minted: true}
		return keep(ctx, tx, &c, n)
	})
	if err != nil {
		return Name{}, fmt.Errorf("name of %s: %w", c.Job, err)
	}
	return n, nil
}

// Free gives up the local ids that a job reserved and got no ARK for. It is for jobs that ended.
func (i *Inventory) Free(ctx context.Context, job string) error {
	_, err := i.write.ExecContext(ctx, "DELETE FROM local_ids WHERE job = ? AND ark = ''", job)
	return err
}

func before(ctx context.Context, tx *sql.Tx, job string) (Name, error) {
	var n Name
	err := tx.QueryRowContext(ctx, "SELECT ark, minted FROM named WHERE job = ?", job).Scan(&n.ARK, &n.Minted)
	if errors.Is(err, sql.ErrNoRows) {
		return Name{}, nil
	}
	return n, err
}

// known finds the ARK that the given one and the local ids agree upon.
func known(ctx context.Context, tx *sql.Tx, c *Claim) (Name, error) {
	n := Name{ARK: c.Given}
	from := "the primary id"
	for _, id := range c.LocalIDs {
		var ark, job string
		err := tx.QueryRowContext(ctx, "SELECT ark, job FROM local_ids WHERE owner = ? AND local_id = ?", c.Owner, id).Scan(&ark, &job)
		switch {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return n, err
		case ark == "" && job != c.Job:
			return Name{Holder: job}, nil
		case ark == "":
		case n.ARK == "":
			n.ARK, from = ark, "local id "+id
		case n.ARK != ark:
			return n, fmt.Errorf("%w: local id %s is %s, %s says %s", ErrConflict, id, ark, from, n.ARK)
		}
	}
	if n.ARK == "" {
		return n, nil
	}
	var owner string
	err := tx.QueryRowContext(ctx, "SELECT owner FROM objects WHERE ark = ? UNION SELECT owner FROM named WHERE ark = ? LIMIT 1",
		n.ARK, n.ARK).Scan(&owner)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return n, nil
	case err != nil:
		return n, err
	case owner != c.Owner:
		return n, fmt.Errorf("%w: %s belongs to another owner", ErrConflict, n.ARK)
	}
	return n, nil
}

// mint takes the template's next name that is not in use.
func mint(ctx context.Context, tx *sql.Tx, t *noid.Template) (string, error) {
	var next uint64
	err := tx.QueryRowContext(ctx, "SELECT next FROM minters WHERE template = ?", t.String()).Scan(&next)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", err
	}
	for {
		name, err := t.Mint(next)
		if err != nil {
			return "", err
		}
		next++
		ark := "ark:/" + name
		taken, err := used(ctx, tx, ark)
		if err != nil {
			return "", err
		}
		if taken {
			continue
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO minters VALUES (?, ?) ON CONFLICT DO UPDATE SET next = excluded.next", t.String(), next)
		return ark, err
	}
}

func used(ctx context.Context, tx *sql.Tx, ark string) (taken bool, err error) {
	err = tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM objects WHERE ark = ?) OR EXISTS (SELECT 1 FROM named WHERE ark = ?)",
		ark, ark).Scan(&taken)
	return taken, err
}

// keep notes the name of the job and reserves its local ids.
func keep(ctx context.Context, tx *sql.Tx, c *Claim, n Name) error {
	if n.ARK != "" {
		if _, err := tx.ExecContext(ctx, "INSERT INTO named VALUES (?, ?, ?, ?)", c.Job, n.ARK, c.Owner, n.Minted); err != nil {
			return err
		}
	}
	for _, id := range c.LocalIDs {
		if strings.TrimSpace(id) == "" {
			continue
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO local_ids VALUES (?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET ark = excluded.ark, job = excluded.job WHERE ark = ''`, c.Owner, id, n.ARK, c.Job)
		if err != nil {
			return err
		}
	}
	return nil
}
