package inventory

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/stagepost/stagepost/format/noid"
)

// Claim is the identity of its object that a job asks for.
type Claim struct {
	Taker    // the job's attempt
	Owner    string
	Given    string   // the ARK in normal form, if the depositor gave one
	LocalIDs []string // the depositor's own names
	Template *noid.Template

	// Stored reports whether a storage location has an object of that name. It is called before a name is minted,
	// outside of any transaction. Defaults to none: only the inventory is asked.
	Stored func(ctx context.Context, ark string) (bool, error)

	Depositor string // who deposits the object, if it is new
	Profile   string // under which it is deposited, if it is new
	Permit    Permit // which objects the job may add a version to
}

// Name is the object that a job is about.
type Name struct {
	ARK    string // empty: a service has to mint under Locks, see Settle
	Minted bool   // made for this job
	Locks  []Lock // of the local ids, until Settle
}

// Name finds the ARK of a job's object or mints one: the ARK the job got before; else the given one; else the one that
// a local id stands for; else the next of the template, in the installation's own order, that is neither in the
// inventory nor, by Claim.Stored, in storage. Without a template the local ids are locked for the job and ARK stays
// empty. *HeldError: another job is getting an ARK for one of the local ids. A contradiction is ErrConflict, an object
// that the permit does not cover ErrUnknown. A call that ends early may leave a name of the template unused, never one
// used twice.
func (i *Inventory) Name(ctx context.Context, c Claim) (Name, error) {
	n, err := i.name(ctx, &c)
	if err != nil {
		return Name{}, fmt.Errorf("name of %s: %w", c.Job, err)
	}
	return n, nil
}

// candidate is a name of a template that is to be tried, and its number.
type candidate struct {
	ark    string
	number uint64
}

// name asks storage, which may take long, outside of the transaction that enters the name; so it needs one only.
func (i *Inventory) name(ctx context.Context, c *Claim) (n Name, _ error) {
	for {
		try, err := i.candidate(ctx, c)
		if err != nil {
			return Name{}, err
		}
		err = i.advanced(ctx, func(tx *change) (entered bool, err error) {
			n, entered, err = i.enter(ctx, tx, c, try)
			return entered, err
		})
		if err != nil || n.ARK != "" || c.Template == nil {
			return n, err
		} // else another process entered the candidate meanwhile
	}
}

// candidate gives a name of the template that no storage location has, and that no other call is given, unless the
// object seems to have a name or the claim has no template: then it is nil. What it reads may change before the name
// is entered.
func (i *Inventory) candidate(ctx context.Context, c *Claim) (*candidate, error) {
	if c.Template == nil {
		return nil, nil
	}
	if n, err := before(ctx, i.read, c.Job); err != nil || n.ARK != "" {
		return nil, err
	}
	if n, err := known(ctx, i.read, c); err != nil || n.ARK != "" {
		return nil, err
	}
	for {
		try, err := i.mint(ctx, c.Template.Seeded(i.installation))
		if err != nil || c.Stored == nil {
			return try, err
		}
		if stored, err := c.Stored(ctx, try.ark); err != nil || !stored {
			return try, err
		}
	}
}

// enter finds the name of a claim and enters it, or locks the local ids if a service has to mint it. It changes nothing
// and gives no name if the object needs a candidate that is not in use, and there is none.
func (i *Inventory) enter(ctx context.Context, tx *change, c *Claim, try *candidate) (n Name, entered bool, err error) {
	if n, err = before(ctx, tx, c.Job); err != nil || n.ARK != "" {
		return n, false, err
	}
	if n, err = known(ctx, tx, c); err != nil {
		return n, false, err
	}
	if n.ARK == "" && c.Template == nil {
		n.Locks, err = take(ctx, tx, c.Taker, c.locksOf())
		return n, false, err
	}
	if n.ARK == "" {
		if try == nil {
			return n, false, nil
		}
		if taken, err := used(ctx, tx, try.ark); err != nil || taken {
			return n, false, err
		}
		if err := count(ctx, tx, c.Template.Seeded(i.installation), try.number); err != nil {
			return n, false, err
		}
		n = Name{ARK: try.ark, Minted: true}
	}
	return n, true, keep(ctx, tx, c, n)
}

// locksOf names the locks of the local ids.
func (c *Claim) locksOf() []Want {
	var all []Want
	for _, id := range c.LocalIDs {
		if strings.TrimSpace(id) != "" {
			all = append(all, Want{Kind: LocalIDLock, Name: localIDName(c.Owner, id), Note: "getting an identifier"})
		}
	}
	return all
}

// Settle notes the ARK that a service minted for the job and ends the locks under which it was asked. ErrStale: one of
// them was lost, and another job may be at it.
func (i *Inventory) Settle(ctx context.Context, c Claim, locks []Lock, ark string) (Name, error) {
	stored := false
	if c.Stored != nil {
		var err error
		if stored, err = c.Stored(ctx, ark); err != nil {
			return Name{}, fmt.Errorf("name of %s: %w", c.Job, err)
		}
	}
	var n Name
	err := i.advanced(ctx, func(tx *change) (bool, error) {
		var err error
		if n, err = before(ctx, tx, c.Job); err != nil {
			return false, err
		}
		entered := n.ARK == ""
		if entered {
			if err := check(ctx, tx, locks); err != nil {
				return false, err
			}
			if n, err = settle(ctx, tx, &c, ark, stored); err != nil {
				return false, err
			}
		}
		_, err = release(ctx, tx, locks)
		return entered, err
	})
	if err != nil {
		return Name{}, fmt.Errorf("name of %s: %w", c.Job, err)
	}
	return n, nil
}

func settle(ctx context.Context, tx *change, c *Claim, ark string, stored bool) (Name, error) {
	taken, err := used(ctx, tx, ark)
	switch {
	case err != nil:
		return Name{}, err
	case taken:
		return Name{}, fmt.Errorf("%w: the minter gave %s, which is in use", ErrConflict, ark)
	case stored:
		return Name{}, fmt.Errorf("%w: the minter gave %s, which a storage location has already", ErrConflict, ark)
	}
	n := Name{ARK: ark, Minted: true}
	return n, keep(ctx, tx, c, n)
}

func before(ctx context.Context, db asked, job string) (Name, error) {
	var n Name
	err := db.QueryRowContext(ctx, "SELECT ark, minted FROM named WHERE job = ?", job).Scan(&n.ARK, &n.Minted)
	if errors.Is(err, sql.ErrNoRows) {
		return Name{}, nil
	}
	return n, err
}

// known finds the ARK that the given one and the local ids agree upon, or *HeldError if one of them is just being
// settled.
func known(ctx context.Context, db asked, c *Claim) (Name, error) {
	n := Name{ARK: c.Given}
	from := "the primary id"
	if c.Given != "" {
		if err := c.Permit.check(ctx, db, c.Given, c.Given); err != nil {
			return n, err
		}
	}
	for _, id := range c.LocalIDs {
		held, found, err := lockOf(ctx, db, LocalIDLock, localIDName(c.Owner, id))
		if err != nil {
			return n, err
		}
		if found && held.Job != c.Job && !c.over(held.Token) {
			return n, &HeldError{Lock: held}
		}
		var ark string
		err = db.QueryRowContext(ctx, "SELECT ark FROM local_ids WHERE owner = ? AND local_id = ?", c.Owner,
			id).Scan(&ark)
		if err == nil { // before anything is reported about the object
			if err := c.Permit.check(ctx, db, ark, "local id "+id); err != nil {
				return n, err
			}
		}
		switch {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return n, err
		case n.ARK == "":
			n.ARK, from = ark, "local id "+id
		case n.ARK != ark && c.Given != "":
			return n, fmt.Errorf("%w: local ID and primary ID mapping is incorrect: local id %s is %s, the primary "+
				"id is %s", ErrConflict, id, ark, c.Given)
		case n.ARK != ark:
			return n, fmt.Errorf("%w: the local ids are of two objects: %s is %s, %s is %s", ErrConflict, from, n.ARK,
				id, ark)
		}
	}
	if n.ARK == "" {
		return n, nil
	}
	var owner string
	err := db.QueryRowContext(ctx, "SELECT owner FROM objects WHERE ark = ? UNION SELECT owner FROM named WHERE ark "+
		"= ? LIMIT 1",
		n.ARK, n.ARK).Scan(&owner)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return n, nil
	case err != nil:
		return n, err
	case owner != c.Owner:
		return n, fmt.Errorf("%w: %s belongs to another owner than %s", ErrConflict, n.ARK, c.Owner)
	}
	return n, nil
}

// mint takes the template's next name that is not in use. It is taken in memory: until it is entered, nothing of this
// is on the disk, and another process may take it, too.
func (i *Inventory) mint(ctx context.Context, t *noid.Template) (*candidate, error) {
	for {
		number, err := i.number(ctx, t)
		if err != nil {
			return nil, err
		}
		name, err := t.Mint(number)
		if err != nil {
			return nil, err
		}
		ark := "ark:/" + name
		if taken, err := used(ctx, i.read, ark); err != nil || !taken {
			return &candidate{ark, number}, err
		}
	}
}

// number gives the template's next number that no other call has.
func (i *Inventory) number(ctx context.Context, t *noid.Template) (uint64, error) {
	var next uint64
	err := i.read.QueryRowContext(ctx, "SELECT next FROM minters WHERE template = ?", t.String()).Scan(&next)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	next = max(next, i.minted[t.String()])
	i.minted[t.String()] = next + 1
	return next, nil
}

// count notes that a number of a template was used.
func count(ctx context.Context, tx *change, t *noid.Template, number uint64) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO minters VALUES (?, ?)
		ON CONFLICT (template) DO UPDATE SET next = excluded.next
		WHERE minters.next < excluded.next`, t.String(), number+1)
	return err
}

func used(ctx context.Context, db asked, ark string) (taken bool, err error) {
	err = db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM objects WHERE ark = ?) OR EXISTS (SELECT 1 FROM "+
		"named WHERE ark = ?)",
		ark, ark).Scan(&taken)
	return taken, err
}

// keep notes the name of the job and of its local ids.
func keep(ctx context.Context, tx *change, c *Claim, n Name) error {
	if _, err := tx.ExecContext(ctx, "INSERT INTO named VALUES (?, ?, ?, ?)", c.Job, n.ARK, c.Owner,
		n.Minted); err != nil {
		return err
	}
	if err := deposited(ctx, tx, n.ARK, c.Depositor, c.Profile); err != nil {
		return err
	}
	for _, id := range c.LocalIDs {
		if strings.TrimSpace(id) == "" {
			continue
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO local_ids VALUES (?, ?, ?, ?)
			ON CONFLICT DO NOTHING`, c.Owner, id, n.ARK, c.Job)
		if err != nil {
			return err
		}
	}
	return nil
}
