package ocfl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// RestoreFile replaces a content file of an object, which is damaged or missing, with the same content of the object
// in another storage root. The new file is compared with all digests that the object's inventory states before it
// replaces the old one, which is removed. After an error or a crash the old file is as before; the call may
// be repeated. stage names the attempt (see [Options]). pace is called for what is read; nil: as fast as possible.
// Errors: ErrInvalid if the inventory does not list the file, ErrNotFound if the other object has not the content,
// ErrDigest if it is damaged there as well, ErrBusy, those of pace and of the file system.
func (r *Root) RestoreFile(ctx context.Context, id, name, stage string, from *Root, pace Pace) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("restore %s of %q: %w", name, id, err)
		}
	}()
	lost, err := r.lost(id, name)
	if err != nil {
		return err
	}
	other, err := from.Object(id)
	if err != nil {
		return err
	}
	source := other.contentOf(lost.want[0])
	if source == "" {
		return fmt.Errorf("%w: the other storage root has no file of this content", ErrNotFound)
	}
	return r.restore(ctx, lost, stage, func() (io.ReadCloser, error) {
		return openRegular(from.dir, path.Join(other.dir, source))
	}, pace)
}

// RestoreContent is as [Root.RestoreFile], with the content that open gives, from wherever it was kept.
func (r *Root) RestoreContent(
	ctx context.Context, id, name, stage string, open func() (io.ReadCloser, error), pace Pace,
) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("restore %s of %q: %w", name, id, err)
		}
	}()
	lost, err := r.lost(id, name)
	if err != nil {
		return err
	}
	return r.restore(ctx, lost, stage, open, pace)
}

// lostFile is a content file that is replaced.
type lostFile struct {
	dir, name string   // of the object, and in it
	want      []stated // its digests, that of the manifest first
}

// lost finds a content file in the inventory of its object.
func (r *Root) lost(id, name string) (lostFile, error) {
	o, err := r.Object(id)
	if err != nil {
		return lostFile{}, err
	}
	want := o.stated(name)
	if want == nil {
		return lostFile{}, fmt.Errorf("%w: the inventory does not list it", ErrInvalid)
	}
	return lostFile{o.dir, name, want}, nil
}

// restore replaces a content file.
func (r *Root) restore(
	ctx context.Context, lost lostFile, stage string, open func() (io.ReadCloser, error), pace Pace,
) (err error) {
	s, err := r.openStage(stage, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	c := &restoration{root: r, pace: pace, buf: make([]byte, copyBuffer)}
	if err := c.copy(ctx, open, s.path("incoming"), lost.want); err != nil {
		return err
	}
	lock, err := r.lockObject(ctx, lost.dir)
	if err != nil {
		return err
	}
	if lock == nil {
		return ErrNotFound
	}
	defer lock.Close()
	to := path.Join(lost.dir, lost.name)
	if err := mkdirSynced(r.ops, path.Dir(to)); err != nil {
		return err
	}
	if err := r.ops.Rename(s.path("incoming"), to); err != nil {
		return err
	}
	return r.ops.SyncDir(path.Dir(to))
}

// stated gives the digests of a content file, that of the manifest first; nil: the inventory does not list it.
func (o *Object) stated(name string) []stated {
	for digest, paths := range o.inv.Manifest {
		if slices.Contains(paths, name) {
			return append([]stated{{o.inv.DigestAlgorithm, digest}}, fixityByPath(o.inv)[name]...)
		}
	}
	return nil
}

// contentOf gives the path of a content file with a digest; "": there is none.
func (o *Object) contentOf(want stated) string {
	for digest, paths := range o.inv.Manifest {
		if o.inv.DigestAlgorithm == want.algorithm && len(paths) > 0 && sameDigest(digest, want.digest) {
			return paths[0]
		}
	}
	return ""
}

// RestoreObject replaces an object, which is damaged or missing, with that of another storage root. The copy is read
// back in full and compared with its inventory before it replaces the damaged object, which is removed. The
// caller makes sure that the other object has all versions. ErrConflict: the object can be read, and has a version that
// the other one has not. A crash leaves the damaged object, none, or the restored one; the call may be repeated.
// The other errors and arguments are as for [Root.RestoreFile].
func (r *Root) RestoreObject(ctx context.Context, id, stage string, from *Root, pace Pace) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("restore %q: %w", id, err)
		}
	}()
	other, err := from.Object(id)
	if err != nil {
		return err
	}
	s, err := r.openStage(stage, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	a := &addition{root: r, stage: s, id: id, dir: r.Path(id), set: r.ops.Set()}
	defer func() { _ = a.set.Close() }()
	c := &restoration{root: r, from: from, pace: pace, buf: make([]byte, copyBuffer)}
	if err := c.tree(ctx, other.dir, a.home()); err != nil {
		return err
	}
	fresh, err := c.readBack(ctx, id, a.home())
	if err != nil {
		return err
	}
	return a.replace(ctx, fresh)
}

// replace exchanges the damaged object for the staged one.
func (a *addition) replace(ctx context.Context, fresh *Object) error {
	ops := a.root.ops
	lock, err := a.root.lockObject(ctx, a.dir)
	if err != nil {
		return err
	}
	if lock == nil {
		if err := a.renameObject(); err != nil {
			return err
		}
		return a.syncUp(path.Dir(a.dir))
	}
	defer lock.Close()
	if now, err := a.root.load(a.dir); err == nil {
		for _, v := range now.Versions() {
			if !slices.Contains(fresh.Versions(), v) {
				return fmt.Errorf("%w: the other object has no %s", ErrConflict, v)
			}
		}
	}
	damaged := a.stage.path("damaged")
	if err := ops.Rename(a.dir, damaged); err != nil {
		return err
	}
	if err := ops.Rename(a.home(), a.dir); err != nil {
		return errors.Join(err, ops.Rename(damaged, a.dir))
	}
	return ops.SyncDir(path.Dir(a.dir))
}

// restoration copies files into a stage of a storage root.
type restoration struct {
	root *Root
	from *Root // of a tree
	pace Pace
	buf  []byte
}

// copy copies a file, syncs it, and compares it with digests. Without any it is only copied.
func (c *restoration) copy(
	ctx context.Context, open func() (io.ReadCloser, error), to string, want []stated,
) error {
	f, err := open()
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: %w", ErrNotFound, err)
		}
		return err
	}
	defer f.Close()
	w, err := c.root.ops.Create(to)
	if err != nil {
		return err
	}
	algorithms := make([]string, len(want))
	for i := range want {
		algorithms[i] = want[i].algorithm
	}
	got := newSums(algorithms...)
	_, err = copyContext(ctx, tee{w, got}, pacedReader{f, func(n int) error {
		if c.pace == nil {
			return nil
		}
		return c.pace(ctx, n)
	}}, c.buf)
	if err == nil {
		err = w.Sync()
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	for _, s := range want {
		if sum := got.hex(s.algorithm); !sameDigest(sum, s.digest) {
			return fmt.Errorf("%w: %s is %s there, not %s", ErrDigest, s.algorithm, sum, strings.ToLower(s.digest))
		}
	}
	return nil
}

// tree copies a directory with all files in it.
func (c *restoration) tree(ctx context.Context, from, to string) error {
	entries, err := readDir(c.from.dir, from)
	if err != nil {
		return err
	}
	if err := c.root.ops.Mkdir(to); err != nil {
		return err
	}
	for _, e := range entries {
		copied := c.tree
		if !e.IsDir() {
			copied = func(ctx context.Context, from, to string) error {
				return c.copy(ctx, func() (io.ReadCloser, error) { return openRegular(c.from.dir, from) }, to, nil)
			}
		}
		if err := copied(ctx, path.Join(from, e.Name()), path.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return c.root.ops.SyncDir(to)
}

// readBack reads all files of a copied object. It gives the object.
func (c *restoration) readBack(ctx context.Context, id, dir string) (*Object, error) {
	o, err := c.root.load(dir)
	if err != nil {
		return nil, err
	}
	if err := o.checkID(id); err != nil {
		return nil, err
	}
	pace := c.pace
	if pace == nil {
		pace = func(ctx context.Context, _ int) error { return ctx.Err() }
	}
	var faults []error
	for _, v := range o.Versions() {
		_, err := o.CheckVersion(ctx, v, pace, func(f FileFault) {
			faults = append(faults, fmt.Errorf("%w: %s: %s", ErrDigest, f.Path, f))
		})
		if err != nil {
			return nil, err
		}
	}
	return o, errors.Join(faults...)
}
