package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/format/ocfl"
)

// healing is the repair of a version of an object.
type healing struct {
	*Checker
	root   *ocfl.Root
	of     *catalog.VersionResult
	left   []catalog.VersionFault // not repaired yet
	done   int                    // repaired
	errs   []error                // why sources were of no use
	others map[string]*ocfl.Root  // by location
}

// healVersion repairs the damaged files of a version: from the same object in other storage roots, from files of the
// archive in the storage locations, and from its packages there. Then it reads the version again, and puts the faults
// that remain into x. The reason is why some remain. Unexpected files stay for a person to decide about.
func (c *Checker) healVersion(
	ctx context.Context, root *ocfl.Root, x *catalog.VersionResult, fresh bool,
) (reason, err error) {
	h := &healing{Checker: c, root: root, of: x, left: damaged(x.Faults), others: map[string]*ocfl.Root{}}
	if len(h.left) == 0 {
		return nil, nil
	}
	for name, other := range c.o.Objects() {
		if location := RootPrefix + name; location != x.Location && other.Ready() == nil {
			h.others[location] = other
		}
	}
	for _, from := range []func(context.Context) error{h.fromRoots, h.fromFiles, h.fromPackages, h.wholeObject} {
		if len(h.left) == 0 {
			break
		}
		if err := errors.Join(from(ctx), ctx.Err()); err != nil {
			return nil, err
		}
	}
	before := x.Faults
	if h.done > 0 {
		_, faults, err := c.readVersion(ctx, root, &x.Version)
		if err != nil {
			return nil, err
		}
		x.Faults = since(faults, before, x.At)
		x.Healed = max(0, len(damaged(before))-len(damaged(x.Faults)))
	}
	return h.report(ctx, fresh)
}

// damaged leaves out unexpected files.
func damaged(all []catalog.VersionFault) []catalog.VersionFault {
	return slices.DeleteFunc(slices.Clone(all), func(f catalog.VersionFault) bool {
		return f.Kind == string(ocfl.FaultExtra)
	})
}

// report reports what became of the faults. That nothing can heal one is reported of a new fault only.
func (h *healing) report(ctx context.Context, fresh bool) (reason, err error) {
	object := versionObject(&h.of.Version)
	if h.of.Healed > 0 {
		h.o.Log.Info("fixity fault healed", "object", object, "files", h.of.Healed)
		note := fmt.Sprintf("%d files were replaced from good copies", h.of.Healed)
		if err := h.o.Report(ctx, EventHealed, object, note); err != nil {
			return nil, err
		}
	}
	if len(damaged(h.of.Faults)) == 0 {
		return nil, nil
	}
	if reason = errors.Join(h.errs...); reason == nil {
		reason = errors.New("there is no good copy")
	}
	h.o.Log.Error("fixity fault not healed", "object", object, "error", reason)
	if fresh {
		note := reason.Error()
		err = h.o.Report(ctx, EventLost, object, strings.ToValidUTF8(note[:min(len(note), mostNote)], ""))
	}
	return reason, err
}

// each tries to repair each file that is left, and notes why it cannot.
func (h *healing) each(repair func(f *catalog.VersionFault) (bool, error)) {
	h.left = slices.DeleteFunc(h.left, func(f catalog.VersionFault) bool {
		if f.Path == "." {
			return false
		}
		ok, err := repair(&f)
		if err != nil {
			h.errs = append(h.errs, err)
		}
		if ok {
			h.done++
		}
		return ok
	})
}

// fromRoots takes files from the same object in other storage roots.
func (h *healing) fromRoots(ctx context.Context) error {
	for location, other := range h.others {
		h.each(func(f *catalog.VersionFault) (bool, error) {
			err := h.root.RestoreFile(ctx, h.of.Object, f.Path, stageName, other, h.pace)
			if errors.Is(err, ocfl.ErrInvalid) || errors.Is(err, ocfl.ErrNotFound) { // it cannot have the file
				return false, nil
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", location, err)
			}
			return err == nil, err
		})
	}
	return nil
}

// fromFiles takes files of the archive that are stored as they are.
func (h *healing) fromFiles(ctx context.Context) error {
	h.each(func(f *catalog.VersionFault) (bool, error) {
		if f.Algorithm != ocfl.SHA512 {
			return false, nil
		}
		same, err := h.o.Catalog.ArtifactsWith(ctx, h.of.Job, f.Expected)
		errs := []error{err}
		for _, a := range same {
			err := h.root.RestoreContent(ctx, h.of.Object, f.Path, stageName, func() (io.ReadCloser, error) {
				return h.o.Copies.Open(ctx, a.Job, a.Path, 0)
			}, h.pace)
			if err == nil {
				return true, nil
			}
			errs = append(errs, err)
		}
		return false, errors.Join(errs...)
	})
	return nil
}

// fromPackages takes files from the packages of the archive. A package has them under the names that the version has;
// their digests decide.
func (h *healing) fromPackages(ctx context.Context) error {
	o, err := h.root.Object(h.of.Object)
	if err != nil {
		return nil // the whole object is damaged
	}
	files, err := o.Files(h.of.Name)
	if err != nil {
		return nil
	}
	names := map[string][]string{} // logical names by content path
	for _, f := range files {
		names[f.Content] = append(names[f.Content], f.Path)
	}
	if !slices.ContainsFunc(h.left, func(f catalog.VersionFault) bool { return len(names[f.Path]) > 0 }) {
		return nil // no package has what is left
	}
	return h.packages(ctx, func(name string, content io.Reader) bool {
		h.each(func(f *catalog.VersionFault) (bool, error) {
			if !endsAs(name, names[f.Path]) {
				return false, nil
			}
			err := h.root.RestoreContent(ctx, h.of.Object, f.Path, stageName, func() (io.ReadCloser, error) {
				return io.NopCloser(content), nil
			}, nil)
			if errors.Is(err, ocfl.ErrDigest) { // a file of another activity, or of a later job
				return false, nil
			}
			return err == nil, err
		})
		return len(h.left) > 0
	})
}

// wholeObject replaces an object with that of another storage root that has the same versions and no fault.
func (h *healing) wholeObject(ctx context.Context) error {
	for location, other := range h.others {
		err := h.sound(ctx, location, other)
		if err == nil {
			err = h.root.RestoreObject(ctx, h.of.Object, stageName, other, h.pace)
		}
		if err == nil {
			h.left, h.done = nil, h.done+1
			return nil
		}
		h.errs = append(h.errs, fmt.Errorf("%s: %w", location, err))
	}
	return nil
}

// sound reports why the object in another storage root cannot replace this one.
func (h *healing) sound(ctx context.Context, location string, other *ocfl.Root) error {
	want, err := h.o.Catalog.Versions(ctx, h.of.Location, h.of.Object)
	if err != nil {
		return err
	}
	has, err := h.o.Catalog.Versions(ctx, location, h.of.Object)
	if err != nil {
		return err
	}
	for _, l := range []string{h.of.Location, location} {
		removing, err := h.o.Catalog.Removing(ctx, l, h.of.Object)
		if err != nil {
			return err
		}
		if removing {
			return errors.New("a version of the object is being deleted in " + l)
		}
	}
	same := func(a, b catalog.Version) bool { return a.Name == b.Name && a.Job == b.Job && a.Digest == b.Digest }
	if !slices.EqualFunc(want, has, same) {
		return errors.New("the object has other versions there")
	}
	for i := range has {
		_, faults, err := h.readVersion(ctx, other, &has[i])
		if err != nil {
			return err
		}
		if len(faults) > 0 {
			return fmt.Errorf("the object is damaged there: %s %s", faults[0].Path, faults[0])
		}
	}
	return nil
}
