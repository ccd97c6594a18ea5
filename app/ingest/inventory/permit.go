package inventory

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrUnknown: the object does not exist, or exists and the permit does not cover it. The two are not distinguished.
var ErrUnknown = errors.New("unknown object")

// Permit limits a claim or a query to the objects that one user may use: those that the user deposited, and all objects
// of some profiles. It may be limited to the objects of collections, too. The zero Permit limits nothing.
type Permit struct {
	User     string   // owner of a token; empty: no limit
	Profiles []string // ids of profiles of which the user may use every object
	Within   []string // ids of the only profiles whose objects may be used; nil: no limit
}

// unlimited reports whether the permit covers every object.
func (p *Permit) unlimited() bool { return p.User == "" && p.Within == nil }

// covers reports whether the permit includes an object, given who deposited it and under which profile it is kept.
func (p *Permit) covers(depositor, profile string) bool {
	return (p.User == "" || depositor == p.User || slices.Contains(p.Profiles, profile)) &&
		(p.Within == nil || slices.Contains(p.Within, profile))
}

// asked is a database or a transaction.
type asked interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// check returns ErrUnknown if the object of an ARK exists and the permit does not cover it. name is what the depositor
// called the object.
func (p *Permit) check(ctx context.Context, db asked, ark, name string) error {
	if p.unlimited() {
		return nil
	}
	var depositor, profile string
	err := db.QueryRowContext(ctx, `SELECT coalesce(d.depositor, ''), coalesce(o.profile, d.profile, '')
		FROM (SELECT ?1 AS ark WHERE EXISTS (SELECT 1 FROM objects WHERE ark = ?1) OR EXISTS (SELECT 1 FROM named WHERE ark = ?1)) AS a
		LEFT JOIN objects AS o ON o.ark = a.ark LEFT JOIN depositors AS d ON d.ark = a.ark`, ark).Scan(&depositor, &profile)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	case !p.covers(depositor, profile):
		return fmt.Errorf("%w: %s accepts no version from %s", ErrUnknown, name, cmp.Or(p.User, "this sender"))
	}
	return nil
}

// Permitted returns ErrUnknown if the ARK or one of the local ids of an owner belongs to an object that the permit does
// not cover. Identifiers that are not in use are permitted.
func (i *Inventory) Permitted(ctx context.Context, p Permit, owner, ark string, localIDs []string) error {
	if p.unlimited() {
		return nil
	}
	if ark != "" {
		if err := p.check(ctx, i.read, ark, ark); err != nil {
			return err
		}
	}
	for _, id := range localIDs {
		var of string
		err := i.read.QueryRowContext(ctx, "SELECT ark FROM local_ids WHERE owner = ? AND local_id = ?", owner,
			id).Scan(&of)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err == nil {
			err = p.check(ctx, i.read, of, "local id "+id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// deposited notes who deposited an object and under which profile. The first note counts.
func deposited(ctx context.Context, tx *change, ark, depositor, profile string) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO depositors (ark, depositor, profile) VALUES (?, ?, ?) ON CONFLICT "+
		"DO NOTHING", ark, depositor, profile)
	return err
}

// where gives the condition on objects that the permit stands for.
func (p *Permit) where() (condition string, args []any) {
	of := func(profiles []string) string {
		for _, one := range profiles {
			args = append(args, one)
		}
		return "profile IN (" + strings.TrimPrefix(strings.Repeat(", ?", len(profiles)), ", ") + ")"
	}
	condition = "1 = 1"
	if p.User != "" {
		args = append(args, p.User)
		condition = "ark IN (SELECT ark FROM depositors WHERE depositor = ?)"
		if len(p.Profiles) > 0 {
			condition += " OR " + of(p.Profiles)
		}
	}
	condition = "(" + condition + ")"
	switch {
	case p.Within == nil:
		return condition, args
	case len(p.Within) == 0:
		return "1 = 0", nil
	}
	return condition + " AND " + of(p.Within), args
}
