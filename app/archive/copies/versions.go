package copies

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/format/ocfl"
)

// RootPrefix begins the names of storage roots of OCFL in the catalog and in reports: the configuration may give a root
// and a location the same name.
const RootPrefix = "objects/"

// removalPage is the number of removals that are continued together.
const removalPage = 1000

// SetObjects gives the store the storage roots of OCFL by name, from which it removes versions of archives that are
// deleted. It is called before the store is used.
func (s *Store) SetObjects(roots func() map[string]*ocfl.Root) { s.objects.Store(&roots) }

// erase removes all copies and all versions of a job. What cannot be removed does not keep the rest.
func (s *Store) erase(ctx context.Context, job, by, reason string) error {
	copied := s.removeAll(ctx, job, by, reason, func(*catalog.Copy) bool { return true })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	versions := s.removeVersions(ctx, job, by, reason)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var a, b *Error
	if errors.As(copied, &a) && errors.As(versions, &b) {
		a.Missing, a.Transient = append(a.Missing, b.Missing...), a.Transient && b.Transient
		return a
	}
	return errors.Join(copied, versions)
}

// PassRemovals continues removals of versions that were interrupted, or whose storage root was down. One that fails
// does not keep the others.
func (s *Store) PassRemovals(ctx context.Context) error {
	all, err := s.o.Catalog.Removals(ctx, removalPage)
	errs := []error{err}
	for _, o := range all {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		errs = append(errs, s.removeVersions(ctx, o.Job, o.By, o.Reason))
	}
	return errors.Join(errs...)
}

// removeVersions removes the versions that a job stored, and enters that. The catalog has each object before its
// version is stored, and its rows change after the storage root: a repetition continues after any crash.
func (s *Store) removeVersions(ctx context.Context, job, by, reason string) error {
	all, err := s.o.Catalog.BeginRemoval(ctx, job, by, reason, s.o.Now())
	if err != nil {
		return err
	}
	out := &Error{Op: "delete versions of", Job: job, Transient: true}
	for _, o := range all { // by location
		err := s.removeVersion(ctx, o)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			continue
		}
		if n := len(out.Missing); n == 0 || out.Missing[n-1].Location != o.Location {
			out.Missing = append(out.Missing, Missing{Location: o.Location})
		}
		last := &out.Missing[len(out.Missing)-1]
		last.Copies, last.Err = last.Copies+1, err
	}
	if len(out.Missing) > 0 {
		return out
	}
	return nil
}

// removeVersion removes the version of a job from an object: the job is its key. Versions of other jobs stay, with
// other numbers.
func (s *Store) removeVersion(ctx context.Context, o catalog.JobObject) error {
	select { // the message of a deletion and a pass may come to the same object
	case s.removing <- struct{}{}:
		defer func() { <-s.removing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	root := s.root(o.Location)
	if root == nil {
		return errors.New("the OCFL storage root is not configured: add it to objects in archive.yaml")
	}
	if err := root.Ready(); err != nil { // one that is not mounted is not taken for one without the object
		return err
	}
	sum := sha256.Sum256([]byte(o.Object + "\n" + o.Job))
	stage := "delete-" + hex.EncodeToString(sum[:16]) // a repetition has the same, and removes what a crash left
	ofJob := func(_ string, v *ocfl.VersionBlock) bool { return v.Key() == o.Job }
	_, err := root.RemoveVersions(ctx, o.Object, stage, ofJob, nil)
	if errors.Is(err, ocfl.ErrCorrupt) {
		var only bool
		if only, err = s.onlyOf(ctx, o, err); only {
			err = root.RemoveObject(ctx, o.Object, stage)
		}
	}
	if err != nil {
		return err
	}
	if _, err := root.Sweep(); err != nil { // attempts of the job that crashed left files as well
		return err
	}
	names, err := namesByJob(root, o.Object)
	if err != nil {
		return err
	}
	return s.o.Catalog.EndRemoval(ctx, o, names, s.o.Now())
}

// onlyOf reports whether an object that cannot be read has no version of another job. Else it gives the error.
func (s *Store) onlyOf(ctx context.Context, o catalog.JobObject, failed error) (bool, error) {
	others, err := s.o.Catalog.OtherJobs(ctx, o)
	if err != nil {
		return false, err
	}
	if others > 0 {
		return false, fmt.Errorf("%d other archives have versions of the object; it has to be healed first: %w", others,
			failed)
	}
	return true, nil
}

// root gives a storage root by its name in the catalog; nil: it is not configured.
func (s *Store) root(location string) *ocfl.Root {
	roots := s.objects.Load()
	if roots == nil {
		return nil
	}
	return (*roots)()[strings.TrimPrefix(location, RootPrefix)]
}

// namesByJob gives the names of the versions of an object by the job that stored them.
func namesByJob(root *ocfl.Root, object string) (map[string]string, error) {
	names := map[string]string{}
	o, err := root.Object(object)
	if errors.Is(err, ocfl.ErrNotFound) {
		return names, nil
	}
	if err != nil {
		return nil, err
	}
	for name, v := range o.Inventory().Versions {
		if job := v.Key(); job != "" {
			names[job] = name
		}
	}
	return names, nil
}
