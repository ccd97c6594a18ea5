// Package fixity reads stored files again and compares them with their digests: the oldest check first, one location
// at a time, at a bounded rate. What it finds stands in the inventory until a later check of the same version in the
// same location finds it sound. A fault names the location, the object and the file. It is healed from a good copy in
// another location, which is read back before the fault ends; the damaged bytes are removed.
package fixity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/format/ocfl"
)

// Options of a checker. Every field but Every, Pace and Leads is required.
type Options struct {
	Inventory *inventory.Inventory
	Locations func(ctx context.Context) ([]string, error) // names of the storage locations
	// gives the same root as long as it is the same directory; an error: it cannot be read
	Open  func(ctx context.Context, dir string) (*ocfl.Root, error)
	Audit func(ctx context.Context, event, object, note string) error // enters a fault in the audit list
	Now   func() time.Time
	Log   *slog.Logger
	Every time.Duration // after which a stored file is read again. 0: only on request
	Pace  ocfl.Pace     // waits for the bytes that were read; defaults to no wait
	// Leads reports whether Run checks here, not in another server on the same inventory. It is called before each
	// query. Defaults to always.
	Leads func() bool
}

const (
	again      = time.Hour        // between queries for files whose check is old
	afterFault = 10 * time.Minute // until a location that could not be read is tried again
	takeOver   = time.Minute      // between queries whether this server leads
	requests   = 5 * time.Second  // between queries for checks that other servers on the inventory requested
)

// Checker checks the storage locations of one installation.
type Checker struct {
	Options
	poke     chan struct{}
	requests time.Duration

	// of the goroutine of Run
	seen    map[string]time.Time // by location: the beginning of the requested check that was found last
	queried time.Time
}

// New makes a checker.
func New(o Options) *Checker {
	if o.Pace == nil {
		o.Pace = func(ctx context.Context, _ int) error { return ctx.Err() }
	}
	if o.Leads == nil {
		o.Leads = func() bool { return true }
	}
	return &Checker{Options: o, poke: make(chan struct{}, 1), requests: requests, seen: map[string]time.Time{}}
}

// ErrUnreadable means that a storage location cannot be read. It implies nothing about the files in it.
var ErrUnreadable = errors.New("the storage location cannot be read")

// Start begins a check of all files in the given locations, or goes on with one that is under way. It returns when
// the request is on disk; Run does the work, also after a restart.
func (c *Checker) Start(ctx context.Context, dirs []string) error {
	for _, dir := range dirs {
		if err := c.Inventory.BeginCheck(ctx, dir, c.Now()); err != nil {
			return err
		}
	}
	c.stir()
	return nil
}

func (c *Checker) stir() {
	select {
	case c.poke <- struct{}{}:
	default:
	}
}

// Run checks until ctx ends.
func (c *Checker) Run(ctx context.Context) {
	for {
		pause := again
		if !c.Leads() {
			pause = takeOver
		} else if err := c.pass(ctx); err != nil && ctx.Err() == nil {
			c.Log.Error("fixity check", "error", err)
			pause = afterFault
		}
		if c.sleep(ctx, pause); ctx.Err() != nil {
			return
		}
	}
}

// sleep waits until a check is requested, here or in another server whose requests this one carries out, at most for a
// pause.
func (c *Checker) sleep(ctx context.Context, pause time.Duration) {
	end := time.NewTimer(pause)
	defer end.Stop()
	tick := time.NewTicker(c.requests)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.poke:
			return
		case <-end.C:
			return
		case <-tick.C:
			if c.Leads() {
				c.query(ctx)
			}
		}
	}
}

// query wakes Run if a check was requested that it has not found yet.
func (c *Checker) query(ctx context.Context) {
	c.queried = time.Now()
	dirs, err := c.Locations(ctx)
	for _, dir := range dirs {
		var asked inventory.Check
		if asked, err = c.Inventory.LastCheck(ctx, dir); err != nil {
			if errors.Is(err, inventory.ErrNotFound) {
				continue
			}
			break
		}
		if asked.Ended.IsZero() && !asked.Began.Equal(c.seen[dir]) {
			c.seen[dir] = asked.Began
			c.stir()
		}
	}
	if err != nil && !errors.Is(err, inventory.ErrNotFound) {
		c.Log.Debug("fixity checks that were requested", "error", err) // the next pass reports it
	}
}

// interrupted reports whether a check was requested, which goes before what is due by its age.
func (c *Checker) interrupted(ctx context.Context) bool {
	if time.Since(c.queried) >= c.requests {
		c.query(ctx)
	}
	return len(c.poke) > 0
}

// pass checks what was asked for, then what is due by its age. A location that cannot be read does not keep the
// others from being checked.
func (c *Checker) pass(ctx context.Context) error {
	dirs, err := c.Locations(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		asked, err := c.Inventory.LastCheck(ctx, dir)
		switch {
		case errors.Is(err, inventory.ErrNotFound), err == nil && !asked.Ended.IsZero():
			continue
		case err != nil:
			return err
		}
		c.seen[dir] = asked.Began
		err = c.location(ctx, dir, asked.Began, func() bool { return false })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		failure := ""
		if err != nil {
			errs = append(errs, err)
			failure = err.Error()
		}
		if err := c.Inventory.EndCheck(ctx, dir, c.Now(), failure); err != nil {
			return err
		}
	}
	errs = append(errs, c.checkKnown(ctx))
	if c.Every <= 0 || ctx.Err() != nil {
		return errors.Join(append(errs, ctx.Err())...)
	}
	asked := func() bool { return c.interrupted(ctx) }
	for _, dir := range dirs {
		if asked() {
			break
		}
		errs = append(errs, c.location(ctx, dir, c.Now().Add(-c.Every), asked))
	}
	return errors.Join(errs...)
}

// location checks the copies in a location whose check is not after the given moment, until it is interrupted.
func (c *Checker) location(ctx context.Context, dir string, until time.Time, interrupted func() bool) error {
	for !interrupted() {
		next, err := c.Inventory.Due(ctx, dir, until, c.Now())
		if errors.Is(err, inventory.ErrNotFound) {
			return nil
		}
		if err == nil {
			err = c.copy(ctx, next, until)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copy checks a version in a location and notes the result. Nothing is noted if the location cannot be read.
func (c *Checker) copy(ctx context.Context, next inventory.Copy, until time.Time) error {
	root, err := c.Open(ctx, next.Place)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	var all found
	done, err := c.read(ctx, root, next, &all)
	if err != nil {
		return err
	}
	if len(all.faults) > 0 { // it may have been unmounted meanwhile
		switch now, err := c.Open(ctx, next.Place); {
		case err != nil:
			return fmt.Errorf("%w: %w", ErrUnreadable, err)
		case now != root:
			return fmt.Errorf("%w: %s was exchanged while it was read", ErrUnreadable, next.Place)
		}
	}
	at := c.Now()
	if !at.After(until) {
		at = until.Add(time.Nanosecond)
	}
	known, err := c.Inventory.Faults(ctx, next.Place, next.ARK, next.Version)
	if err != nil {
		return err
	}
	faults := all.settle(at, known)
	if err := c.report(ctx, next, known, faults); err != nil {
		return err
	}
	result := inventory.Result{At: at, Faults: faults, Files: done.Files, Bytes: done.Bytes}
	if len(faults) == 0 {
		return c.Inventory.EnterCheck(ctx, next, result)
	}
	return c.repair(ctx, root, next, known, result)
}

// repair heals the faults of a copy that was checked, and enters the result.
func (c *Checker) repair(
	ctx context.Context, root *ocfl.Root, next inventory.Copy, known []inventory.Fault, r inventory.Result,
) error {
	healed, reason, err := c.heal(ctx, root, next, r.Faults)
	if err != nil {
		return err
	}
	if reason != nil && len(known) == 0 {
		object := fmt.Sprintf("%s %s v%d", next.Place, next.ARK, next.Version)
		c.Log.Error("fixity fault not healed", "object", object, "error", reason)
		if err := c.Audit(ctx, "fixity-lost", object, strings.ToValidUTF8(reason.Error()[:min(len(reason.Error()),
			mostText)], "")); err != nil {
			return err
		}
	}
	if len(healed) == 0 {
		return c.Inventory.EnterCheck(ctx, next, r)
	}
	return c.verify(ctx, root, next, r.Faults, healed, r.At)
}

// read reads the files of a copy.
func (c *Checker) read(ctx context.Context, root *ocfl.Root, next inventory.Copy, all *found) (ocfl.Checked, error) {
	object, err := root.Object(next.ARK)
	if err == nil {
		done, err := object.CheckVersion(ctx, next.Name, c.Pace, all.file)
		switch {
		case errors.Is(err, ocfl.ErrNotFound):
			all.file(ocfl.FileFault{Kind: ocfl.FaultMissing, Path: next.Name})
		case err != nil:
			return done, err
		default:
			return done, c.digests(ctx, object, next, all)
		}
		return done, nil
	}
	fault := ocfl.FileFault{Kind: ocfl.FaultUnreadable, Path: ".", Detail: err.Error()}
	switch {
	case errors.Is(err, ocfl.ErrNotFound):
		fault.Kind, fault.Detail = ocfl.FaultMissing, ""
	case errors.Is(err, ocfl.ErrCorrupt):
		fault.Kind = ocfl.FaultChanged
	}
	all.file(fault)
	return ocfl.Checked{}, ctx.Err()
}

// digests compares the digests that the object's inventory has with those of ours: a file that was exchanged together
// with its digest is noticed.
func (c *Checker) digests(ctx context.Context, object *ocfl.Object, next inventory.Copy, all *found) error {
	if object.Inventory().DigestAlgorithm != ocfl.SHA512 {
		return nil
	}
	stored, err := object.Files(next.Name)
	if err != nil {
		all.file(ocfl.FileFault{Kind: ocfl.FaultChanged, Path: ".", Detail: err.Error()})
		return nil
	}
	digests := make(map[string]ocfl.StoredFile, len(stored))
	for _, f := range stored {
		digests[f.Path] = f
	}
	const page = 1000
	for after := ""; ; {
		files, err := c.Inventory.Files(ctx, next.ARK, next.Version, after, page)
		if err != nil {
			return err
		}
		for _, f := range files {
			switch there, ok := digests[f.Path]; {
			case !ok:
				all.file(ocfl.FileFault{Kind: ocfl.FaultMissing,
					Path: f.Path, Algorithm: ocfl.SHA512, Expected: f.SHA512,
					Detail: "the object's inventory does not name it"})
			case f.SHA512 != "" && !sameDigest(f.SHA512, there.Digest):
				all.file(ocfl.FileFault{
					Kind: ocfl.FaultChanged, Path: there.Content, Algorithm: ocfl.SHA512, Expected: f.SHA512,
					Found:  there.Digest,
					Detail: "the object's inventory has another digest than ours",
				})
			}
		}
		if len(files) < page {
			return nil
		}
		after = files[len(files)-1].Path
	}
}
