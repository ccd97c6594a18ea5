package inventory

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/job"
)

// LockKind is what a lock reserves for one job.
type LockKind string

// The kinds of lock.
const (
	// adding a version, from Storing until it is recorded; the name is the object's ARK
	ObjectLock    LockKind = "object"
	InventoryLock LockKind = "inventory" // entering a version, while Recording; the name is the object's ARK
	// getting an identifier from a minter, until it is settled; the name is localIDName
	LocalIDLock LockKind = "local-id"
)

// LockKinds lists all kinds.
func LockKinds() []LockKind { return []LockKind{ObjectLock, InventoryLock, LocalIDLock} }

// localIDName names the lock of a local id. (Two pairs with a slash in the owner may have one name: then they wait for
// each other, and no more.)
func localIDName(owner, localID string) string { return owner + "/" + localID }

// Lock is a claim of one job on one name. It survives the process and ends when it is released, or taken over because
// its job has ended, or broken. Token is the fencing token: every acquisition gets a higher one than any before, so
// that a holder who lost the lock without knowing is refused by comparing tokens. (A loss of power ends the holders of
// the tokens that were not on the disk, and these may be given again.) An attempt of the same job under a later epoch
// is an acquisition too.
type Lock struct {
	Kind  LockKind
	Name  string
	Job   string // the holder
	Epoch int64  // of the holder's claim
	Since time.Time
	Token int64
	Note  string // what it is for
}

// String names the lock as people do: "object ark:/99999/fk4abc".
func (l Lock) String() string { return string(l.Kind) + " " + l.Name }

// ErrStale: a lock under which something was to be done is not the caller's any more. The error is of kind Stale.
var ErrStale = errors.New("the lock was lost")

// HeldError: another job has the lock.
type HeldError struct{ Lock Lock }

func (e *HeldError) Error() string { return fmt.Sprintf("%s is locked by %s", e.Lock, e.Lock.Job) }

// Taker is the attempt that asks for locks.
type Taker struct {
	Job   string
	Epoch int64
	At    time.Time
	Over  []int64 // tokens of locks whose holders have ended: these are taken over
}

// Want names a lock that is wanted.
type Want struct {
	Kind LockKind
	Name string
	Note string
}

// Take acquires all of the locks or none: *HeldError names one that another job has. The same attempt gets what it has;
// a later attempt of the job gets a new token, and an earlier one is refused with ErrStale. A loss of power may end the
// locks that were taken last: it also ends all attempts that have them.
func (i *Inventory) Take(ctx context.Context, by Taker, wants ...Want) ([]Lock, error) {
	var got []Lock
	err := i.volatile(ctx, func(tx *change) (err error) {
		got, err = take(ctx, tx, by, wants)
		return err
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

func take(ctx context.Context, tx *change, by Taker, wants []Want) ([]Lock, error) {
	got := make([]Lock, 0, len(wants))
	for _, w := range wants {
		l, err := takeOne(ctx, tx, by, w)
		if err != nil {
			return nil, err
		}
		got = append(got, l)
	}
	return got, nil
}

func takeOne(ctx context.Context, tx *change, by Taker, w Want) (Lock, error) {
	l := Lock{Kind: w.Kind, Name: w.Name, Job: by.Job, Epoch: by.Epoch, Since: by.At.UTC().Truncate(time.Second),
		Note: w.Note}
	held, found, err := lockOf(ctx, tx, w.Kind, w.Name)
	switch {
	case err != nil:
		return l, err
	case found && held.Job == by.Job && held.Epoch == by.Epoch:
		return held, nil
	case found && held.Job == by.Job && held.Epoch > by.Epoch:
		return l, staleLock(l, held)
	case found && held.Job == by.Job:
		l.Since = held.Since
	case found && !by.over(held.Token):
		return l, &HeldError{Lock: held}
	}
	if found {
		if _, err := tx.ExecContext(ctx, "DELETE FROM locks WHERE token = ?", held.Token); err != nil {
			return l, err
		}
	}
	err = tx.QueryRowContext(ctx, `INSERT INTO locks (kind, name, job, epoch, since, note) VALUES (?, ?, ?, ?, ?, ?)
		RETURNING token`, l.Kind, l.Name, l.Job, l.Epoch, l.Since.Format(time.RFC3339), l.Note).Scan(&l.Token)
	return l, err
}

func (t Taker) over(token int64) bool {
	for _, o := range t.Over {
		if o == token {
			return true
		}
	}
	return false
}

const lockColumns = "kind, name, job, epoch, since, token, note"

func scanLock(scan func(...any) error) (l Lock, err error) {
	var since string
	err = scan(&l.Kind, &l.Name, &l.Job, &l.Epoch, &since, &l.Token, &l.Note)
	l.Since = moment(since)
	return l, err
}

func lockOf(ctx context.Context, a asked, kind LockKind, name string) (l Lock, found bool, err error) {
	l, err = scanLock(a.QueryRowContext(ctx, "SELECT "+lockColumns+" FROM locks WHERE kind = ? AND name = ?", kind,
		name).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return Lock{}, false, nil
	}
	return l, err == nil, err
}

// check refuses with ErrStale unless every lock is still the one that was taken.
func check(ctx context.Context, a asked, locks []Lock) error {
	for _, l := range locks {
		now, found, err := lockOf(ctx, a, l.Kind, l.Name)
		if err != nil {
			return err
		}
		if !found || now.Token != l.Token || now.Job != l.Job {
			return staleLock(l, now)
		}
	}
	return nil
}

func staleLock(mine, now Lock) error {
	has := "no job has it"
	if now.Job != "" {
		has = fmt.Sprintf("%s has it with token %d", now.Job, now.Token)
	}
	return job.Errorf(job.Stale, "lock", job.ID(mine.Job), "%w: %s with token %d (%s now)", ErrStale, mine, mine.Token,
		has)
}

// Check refuses with ErrStale unless every lock is still the one that was taken. What is written afterwards, outside
// the inventory, needs a fence of its own.
func (i *Inventory) Check(ctx context.Context, locks ...Lock) error { return check(ctx, i.read, locks) }

// Release ends locks and returns those that the job still had. A lock that another job has meanwhile stays.
func (i *Inventory) Release(ctx context.Context, locks ...Lock) (released []Lock, err error) {
	err = i.tx(ctx, func(tx *change) error {
		released, err = release(ctx, tx, locks)
		return err
	})
	return released, err
}

func release(ctx context.Context, tx *change, locks []Lock) (released []Lock, err error) {
	for _, l := range locks {
		r, err := tx.ExecContext(ctx, "DELETE FROM locks WHERE token = ? AND kind = ? AND name = ?", l.Token, l.Kind,
			l.Name)
		if err != nil {
			return nil, err
		}
		if n, err := r.RowsAffected(); err != nil {
			return nil, err
		} else if n > 0 {
			released = append(released, l)
		}
	}
	return released, nil
}

// Locks gives all locks by kind and name.
func (i *Inventory) Locks(ctx context.Context) ([]Lock, error) {
	return i.locks(ctx, "ORDER BY kind, name")
}

// LocksOf gives the locks that a job has.
func (i *Inventory) LocksOf(ctx context.Context, job string) ([]Lock, error) {
	return i.locks(ctx, "WHERE job = ? ORDER BY kind, name", job)
}

func (i *Inventory) locks(ctx context.Context, rest string, args ...any) ([]Lock, error) {
	return rows(ctx, i.read, func(r *sql.Rows) (Lock, error) { return scanLock(r.Scan) },
		"SELECT "+lockColumns+" FROM locks "+rest, args...)
}

// LockOf gives the lock of a name, if there is one.
func (i *Inventory) LockOf(ctx context.Context, kind LockKind, name string) (l Lock, found bool, err error) {
	return lockOf(ctx, i.read, kind, name)
}
