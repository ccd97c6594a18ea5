package ocfl

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
)

// Recovery reports what Recover repaired.
type Recovery struct {
	Removed []string // version directories that no inventory listed
	Sidecar bool     // the sidecar was rewritten
}

// Recover removes what a crash of AddVersion left: version directories that the inventory does not list, and a
// sidecar that is older than the inventory. AddVersion does this itself; Recover is for an operator who cleans an
// object without adding to it. stage names the attempt, as in Options.
func (r *Root) Recover(ctx context.Context, id, stage string) (Recovery, error) {
	s, err := r.openStage(stage, true)
	if err != nil {
		return Recovery{}, fmt.Errorf("recover %q: %w", id, err)
	}
	done, err := r.recover(ctx, s, id)
	if err := errors.Join(err, s.close()); err != nil {
		return done, fmt.Errorf("recover %q: %w", id, err)
	}
	return done, nil
}

func (r *Root) recover(ctx context.Context, s *stage, id string) (Recovery, error) {
	lock, err := r.lockObject(ctx, r.Path(id))
	if err != nil {
		return Recovery{}, err
	}
	if lock == nil {
		return Recovery{}, ErrNotFound
	}
	defer lock.Close()
	_, done, err := r.recoverLocked(s, r.Path(id))
	return done, err
}

// recoverLocked returns the recovered object. The caller holds the object's lock: without it, a directory that
// another writer is about to commit would count as a leftover.
func (r *Root) recoverLocked(s *stage, dir string) (*Object, Recovery, error) {
	var done Recovery
	o, err := r.load(dir)
	if err != nil {
		return nil, done, err
	}
	if o.home.staleSidecar {
		if err := r.rewriteSidecar(s, o); err != nil {
			return nil, done, err
		}
		done.Sidecar = true
	}
	entries, err := readDir(r.dir, dir)
	if err != nil {
		return nil, done, err
	}
	head, _ := parseVersionName(o.inv.Head)
	for _, e := range entries {
		n, ok := parseVersionName(e.Name())
		if !ok || n <= head || !e.IsDir() {
			continue
		}
		if err := r.purge(s, dir, e.Name()); err != nil {
			return nil, done, err
		}
		done.Removed = append(done.Removed, e.Name())
	}
	slices.Sort(done.Removed)
	return o, done, nil
}

// purge moves a version directory out before it removes it. The object is valid at once, and an interrupted removal
// leaves only a stage.
func (r *Root) purge(s *stage, dir, version string) error {
	left := s.path("left-" + version)
	if err := r.ops.Rename(path.Join(dir, version), left); err != nil {
		return err
	}
	if err := r.ops.SyncDir(dir); err != nil {
		return err
	}
	return r.ops.RemoveAll(left)
}

// rewriteSidecar is called only after load has proved inventory.json.
func (r *Root) rewriteSidecar(s *stage, o *Object) error {
	algorithm := o.inv.DigestAlgorithm
	staged := s.path("sidecar")
	if err := writeSynced(r.ops, staged, sidecarText(o.home.digest)); err != nil {
		return err
	}
	if err := r.ops.Rename(staged, path.Join(o.dir, sidecarName(algorithm))); err != nil {
		return err
	}
	o.home.staleSidecar = false
	return r.ops.SyncDir(o.dir)
}
