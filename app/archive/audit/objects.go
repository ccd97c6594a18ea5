package audit

import (
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/format/ocfl"
)

// RootPrefix begins the names of storage roots of OCFL in reports: the configuration may give a root and a location
// the same name.
const RootPrefix = copies.RootPrefix

const (
	rootEvery   = 30 * 24 * time.Hour // a storage root is a local directory
	faultyEvery = 24 * time.Hour      // of a version with a fault
	stageName   = "fixity"            // of repairs in a storage root: one checker works on it
	mostFiles   = 1000                // faults of one version that are noted
	mostNote    = 400                 // bytes of a reason in the audit log
)

// Stored describes a version that was stored now, for the catalog.
func Stored(root *ocfl.Root, name, object, version, job string, at time.Time) (catalog.Version, error) {
	o, err := root.Object(object)
	if err != nil {
		return catalog.Version{}, err
	}
	digest, err := stateDigest(o, version)
	return catalog.Version{
		Location: RootPrefix + name, Object: object, Name: version, Job: job, Digest: digest, Stored: at,
		LastFixity: at, NextFixity: at.Add(rootEvery),
	}, err
}

// stateDigest gives the SHA-512 of the list of the files of a version by path, in the form of sha512sum.
func stateDigest(o *ocfl.Object, version string) (string, error) {
	files, err := o.Files(version)
	if err != nil {
		return "", err
	}
	slices.SortFunc(files, func(a, b ocfl.StoredFile) int { return strings.Compare(a.Path, b.Path) })
	sum := sha512.New()
	for _, f := range files {
		fmt.Fprintf(sum, "%s  %s\n", strings.ToLower(f.Digest), f.Path)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// names lists the locations and storage roots that are configured.
func (c *Checker) names() []string {
	all := slices.Clone(c.o.Copies.Names())
	for name := range c.o.Objects() {
		all = append(all, RootPrefix+name)
	}
	slices.Sort(all)
	return all
}

// root gives a storage root; nil: it is not configured.
func (c *Checker) root(location string) *ocfl.Root {
	name, ok := strings.CutPrefix(location, RootPrefix)
	if !ok {
		return nil
	}
	return c.o.Objects()[name]
}

// ready reports why a location or storage root cannot be read now.
func (c *Checker) ready(ctx context.Context, location string) error {
	if root := c.root(location); root != nil {
		return root.Ready()
	}
	if strings.HasPrefix(location, RootPrefix) {
		return errors.New("it is not configured")
	}
	return c.o.Copies.Ready(ctx, location)
}

// checkRoot checks the versions in a storage root that are due at a time.
func (c *Checker) checkRoot(ctx context.Context, location string, until time.Time) (r Result, err error) {
	root := c.root(location)
	if root == nil { // the configuration changed
		return r, errors.New("it is not configured")
	}
	var errs []error
	for {
		due, err := c.o.Catalog.DueVersions(ctx, location, until, batch)
		if err != nil || len(due) == 0 {
			return r, errors.Join(append(errs, err)...)
		}
		if err := root.Ready(); err != nil {
			return r, errors.Join(append(errs, err)...)
		}
		for i := range due {
			err := c.checkVersion(ctx, root, &due[i], until, &r)
			var unhealed *unhealedError
			if errs = append(errs, err); err != nil && !errors.As(err, &unhealed) {
				return r, errors.Join(errs...)
			}
		}
	}
}

// checkVersion checks a version, heals it, and enters the result. Nothing is entered if the root cannot be read.
func (c *Checker) checkVersion(
	ctx context.Context, root *ocfl.Root, v *catalog.Version, until time.Time, r *Result,
) error {
	done, faults, err := c.readVersion(ctx, root, v)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		if err := root.Ready(); err != nil { // its file system may be gone meanwhile
			return err
		}
		if same, err := c.isCurrent(ctx, v); err != nil || !same {
			return err
		}
	}
	known, err := c.o.Catalog.FaultsOf(ctx, v)
	if err != nil {
		return err
	}
	at := c.o.Now()
	for _, last := range []time.Time{until, v.LastFixity} {
		if !at.After(last) { // with a clock that stands still or was set back, it would be due again
			at = last.Add(time.Nanosecond)
		}
	}
	r.Copies, r.Bytes = r.Copies+1, r.Bytes+done.Bytes
	x := catalog.VersionResult{Version: *v, At: at, Bytes: done.Bytes}
	x.Faults = since(faults, known, at)
	events, err := c.reportVersion(ctx, &x, known)
	if err != nil {
		return err
	}
	var reason error
	if len(faults) > 0 {
		r.Faults++
		if reason, err = c.healVersion(ctx, root, &x, len(events) > 0); err != nil {
			return err
		}
		events = append(events, c.healedEvent(&x)...)
		r.Healed += x.Healed
	}
	if x.Next = at.Add(rootEvery); len(x.Faults) > 0 {
		x.Next = at.Add(faultyEvery)
	}
	if err := c.o.Catalog.PutVersionChecked(ctx, x, events...); err != nil {
		return err
	}
	if reason != nil {
		return &unhealedError{fmt.Errorf("heal %s: %w", versionObject(v), reason)}
	}
	return nil
}

// isCurrent reports whether a version still is what the list of due ones had. Else the deletion of an archive removed
// it, or gave it another name, or is about to; it is listed again when that ended.
func (c *Checker) isCurrent(ctx context.Context, v *catalog.Version) (bool, error) {
	all, err := c.o.Catalog.Versions(ctx, v.Location, v.Object)
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(all, func(x catalog.Version) bool { return x.Name == v.Name && x.Job == v.Job }) {
		return false, nil
	}
	removing, err := c.o.Catalog.Removing(ctx, v.Location, v.Object)
	return !removing, err
}

// readVersion reads the files of a version. The error is that of the context or of the pace.
func (c *Checker) readVersion(
	ctx context.Context, root *ocfl.Root, v *catalog.Version,
) (done ocfl.Checked, faults []ocfl.FileFault, err error) {
	found := func(f ocfl.FileFault) {
		same := func(o ocfl.FileFault) bool { return o.Path == f.Path }
		if len(faults) < mostFiles && !slices.ContainsFunc(faults, same) {
			faults = append(faults, f)
		}
	}
	o, err := root.Object(v.Object)
	switch {
	case errors.Is(err, ocfl.ErrNotFound):
		found(ocfl.FileFault{Kind: ocfl.FaultMissing, Path: "."})
	case errors.Is(err, ocfl.ErrCorrupt):
		found(ocfl.FileFault{Kind: ocfl.FaultChanged, Path: ".", Detail: err.Error()})
	case err != nil:
		found(ocfl.FileFault{Kind: ocfl.FaultUnreadable, Path: ".", Detail: err.Error()})
	}
	if err != nil {
		return done, faults, ctx.Err()
	}
	done, err = o.CheckVersion(ctx, v.Name, c.pace, found)
	switch {
	case errors.Is(err, ocfl.ErrNotFound):
		found(ocfl.FileFault{Kind: ocfl.FaultMissing, Path: v.Name})
		return done, faults, nil
	case err != nil:
		return done, faults, err
	}
	switch digest, err := stateDigest(o, v.Name); {
	case err != nil:
		found(ocfl.FileFault{Kind: ocfl.FaultChanged, Path: ".", Detail: err.Error()})
	case digest != v.Digest:
		found(ocfl.FileFault{Kind: ocfl.FaultChanged, Path: ".",
			Detail: "the inventory lists other files for " + v.Name + " than were stored"})
	}
	return done, faults, nil
}

func (c *Checker) pace(ctx context.Context, n int) error {
	if c.o.Pace == nil {
		return ctx.Err()
	}
	return c.o.Pace(ctx, n)
}

// since gives the faults of a check for the catalog: a known one has the time at which it was found.
func since(faults []ocfl.FileFault, known []catalog.VersionFault, at time.Time) (all []catalog.VersionFault) {
	for _, f := range faults {
		x := catalog.VersionFault{Path: f.Path, Kind: string(f.Kind), Algorithm: f.Algorithm, Expected: f.Expected,
			Found: f.Found, Detail: f.Detail, Since: at}
		for _, k := range known {
			if k.Path == x.Path {
				x.Since = k.Since
			}
		}
		all = append(all, x)
	}
	return all
}

// versionObject names a version in the audit log.
func versionObject(v *catalog.Version) string { return v.Location + " " + v.Object + " " + v.Name }

// reportVersion reports new faults of a version, and the end of its faults. It gives the event of a change.
func (c *Checker) reportVersion(
	ctx context.Context, x *catalog.VersionResult, known []catalog.VersionFault,
) ([]catalog.Event, error) {
	has := func(all []catalog.VersionFault, path string) bool {
		return slices.ContainsFunc(all, func(f catalog.VersionFault) bool { return f.Path == path })
	}
	fresh := 0
	for _, f := range x.Faults {
		if has(known, f.Path) {
			continue
		}
		fresh++
		c.o.Log.Error("fixity fault", "job", x.Job, "location", x.Location, "object", x.Object, "version", x.Name,
			"file", f.Path, "fault", f.Kind, "detail", f.Detail)
		if err := c.o.Report(ctx, EventFault, versionObject(&x.Version)+" "+f.Path, describe(&f)); err != nil {
			return nil, err
		}
	}
	switch {
	case fresh > 0:
		return []catalog.Event{c.versionEvent(x, "fixity check", "failure", describe(&x.Faults[0]))}, nil
	case len(x.Faults) == 0 && len(known) > 0:
		event := c.versionEvent(x, "fixity check", "success", "no fault")
		return []catalog.Event{event}, c.o.Report(ctx, EventSound, versionObject(&x.Version),
			"a later check finds no fault")
	}
	return nil, nil
}

// describe describes a fault in one line.
func describe(f *catalog.VersionFault) string {
	if f.Found != "" {
		return fmt.Sprintf("%s: %s expected %s, found %s", f.Kind, f.Algorithm, f.Expected, f.Found)
	}
	return strings.TrimSuffix(f.Kind+": "+f.Detail, ": ")
}

func (c *Checker) versionEvent(x *catalog.VersionResult, kind, outcome, detail string) catalog.Event {
	return catalog.Event{
		Key: fmt.Sprintf("%s/%s/%s/%s/%d", kind, x.Location, x.Object, x.Name, x.At.UnixNano()), Job: x.Job,
		Type: kind, Outcome: outcome, Agent: c.o.Agent, At: x.At,
		Detail: fmt.Sprintf("version %s of %s in %s: %s", x.Name, x.Object, x.Location, detail),
	}
}

func (c *Checker) healedEvent(x *catalog.VersionResult) []catalog.Event {
	if x.Healed == 0 {
		return nil
	}
	return []catalog.Event{c.versionEvent(x, "replication", "success",
		fmt.Sprintf("%d damaged files were replaced from good copies", x.Healed))}
}
