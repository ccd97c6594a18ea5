package ocfl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// emptiedFile is the file of a stage that names the directory of an object which is removed: parents of it that are
// empty afterwards are removed before the stage is.
const emptiedFile = "emptied"

// RemoveObject removes an object with all its versions and its empty parents. When it returns without an error, the
// bytes are gone from the storage root. An object that does not exist is no error. A crash leaves the object as it was,
// or a stage, which the same call or [Root.Sweep] removes; the call may be repeated. stage names the attempt (see
// [Options]). Errors: ErrInvalid, ErrBusy, ErrCorrupt if another object is there, those of the file system.
func (r *Root) RemoveObject(ctx context.Context, id, stage string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("remove %q: %w", id, err)
		}
	}()
	if err := validID(id); err != nil {
		return err
	}
	s, err := r.openStage(stage, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	dir := r.Path(id)
	lock, err := r.lockObject(ctx, dir)
	if err != nil || lock == nil {
		return err
	}
	defer lock.Close()
	if o, err := r.load(dir); err == nil {
		if err := o.checkID(id); err != nil {
			return err
		}
	}
	return r.removeLocked(s, dir)
}

// removeLocked removes an object, whose lock the caller holds.
func (r *Root) removeLocked(s *stage, dir string) error {
	if err := writeSynced(r.ops, s.path(emptiedFile), []byte(dir)); err != nil {
		return err
	}
	if err := r.ops.SyncDir(s.dir); err != nil {
		return err
	}
	removed := s.path("removed")
	if err := r.ops.Rename(dir, removed); err != nil {
		return err
	}
	for _, d := range []string{s.dir, path.Dir(dir)} {
		if err := r.ops.SyncDir(d); err != nil {
			return err
		}
	}
	if err := r.ops.RemoveAll(removed); err != nil {
		return err
	}
	return s.prune(r)
}

// prune removes the empty parents of an object that was removed (E073).
func (s *stage) prune(r *Root) error {
	data, err := readLimited(r.dir, s.path(emptiedFile), maxSmallFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	dir := string(data)
	if dir == "" || !fs.ValidPath(dir) || strings.HasPrefix(dir, extensionsDir+"/") {
		return nil // the crash came while it was written: nothing was removed
	}
	for dir = path.Dir(dir); dir != "."; dir = path.Dir(dir) {
		if err := r.ops.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if entries, err := readDir(r.dir, dir); err != nil || len(entries) == 0 {
			return errors.Join(fmt.Errorf("remove the empty directory %s", dir), err)
		}
		break // it has other objects
	}
	return r.ops.SyncDir(dir)
}

// Removal is the result of RemoveVersions.
type Removal struct {
	Removed []string          // the former names of the removed versions, oldest first
	Renamed map[string]string // former name -> new name, of versions that remain and have another name now
	Object  bool              // no version remained, so that the object was removed
}

// RemoveVersions removes the versions of an object that gone selects, and their content unless another version has it
// as well. OCFL has no such operation: the object is made anew from the versions that remain, in their order, with
// their states, messages (and so their keys), users and times. They are numbered from v1. The new object is read back
// and validated before it is exchanged for the old one in one step; then the old one is removed. Without a remaining
// version the object is removed, as by [Root.RemoveObject]. No object, or none of these versions, is no error.
//
// When it returns without an error the bytes are gone from the storage root. After an error or a crash the object is
// the old one or the new one, and valid; the call may be repeated with the same stage, which also removes what a crash
// left there. pace is called for what is read; nil: as fast as possible.
//
// Errors: ErrInvalid (also for an object that AddVersion would not extend), ErrConflict if another writer changed the
// object meanwhile, ErrBusy, ErrDigest if content that remains is damaged (restore it first), ErrCorrupt,
// [errors.ErrUnsupported] on a file system that cannot exchange two directories, those of pace and of the file system.
func (r *Root) RemoveVersions(
	ctx context.Context, id, stage string, gone func(name string, v *VersionBlock) bool, pace Pace,
) (done Removal, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("remove versions of %q: %w", id, err)
		}
	}()
	if err := validID(id); err != nil {
		return done, err
	}
	s, err := r.openStage(stage, true)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	a := &addition{root: r, stage: s, id: id, dir: r.Path(id), set: r.ops.Set()}
	defer func() { _ = a.set.Close() }()
	if a.base, err = a.current(ctx); err != nil || a.base == nil {
		return done, err
	}
	var left []string
	for _, name := range a.base.Versions() {
		if gone(name, a.base.inv.Versions[name]) {
			done.Removed = append(done.Removed, name)
		} else {
			left = append(left, name)
		}
	}
	if len(done.Removed) == 0 {
		return Removal{}, nil
	}
	done.Object = len(left) == 0
	if !done.Object {
		if done.Renamed, err = a.rebuild(ctx, left, pace); err != nil {
			return Removal{}, err
		}
	}
	if err := a.exchange(ctx, done.Object); err != nil {
		return Removal{}, err
	}
	return done, nil
}

// rebuild makes the object anew in the stage from the versions that remain, and validates it.
func (a *addition) rebuild(ctx context.Context, left []string, pace Pace) (map[string]string, error) {
	old := a.base.inv
	if a.root.spec != specVersion || old.Type != inventoryType(specVersion) || old.DigestAlgorithm != SHA512 {
		return nil, fmt.Errorf("%w: the object is of type %s with %s; only OCFL %s with sha512 is changed", ErrInvalid,
			old.Type, old.DigestAlgorithm, specVersion)
	}
	b := &rebuilding{
		addition: a, fixity: fixityByPath(old),
		files: &restoration{root: a.root, pace: pace, buf: make([]byte, copyBuffer)},
	}
	a.next = newInventory(a.id)
	a.next.ContentDirectory = old.ContentDirectory
	if err := a.root.ops.Mkdir(a.home()); err != nil {
		return nil, err
	}
	renamed := map[string]string{}
	for i, from := range left {
		a.next.Head = fmt.Sprintf("v%d", i+1)
		if from[1] == '0' {
			a.next.Head = fmt.Sprintf("v%0*d", len(from)-1, i+1)
		}
		if from != a.next.Head {
			renamed[from] = a.next.Head
		}
		if err := b.version(ctx, old.Versions[from], i == len(left)-1); err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
	}
	return renamed, b.validate(ctx)
}

// rebuilding makes an object anew.
type rebuilding struct {
	*addition
	fixity map[string][]stated // of the old object, by content path
	files  *restoration
	made   []string // directories of the version, parents first
}

// version adds a version to the staged object, with the content that no earlier one has.
func (b *rebuilding) version(ctx context.Context, block *VersionBlock, last bool) error {
	dir := path.Join(b.home(), b.next.Head)
	if err := b.root.ops.Mkdir(dir); err != nil {
		return err
	}
	b.made = b.made[:0]
	for _, digest := range slices.Sorted(maps.Keys(block.State)) {
		if len(b.next.Manifest[digest]) > 0 {
			continue
		}
		if err := b.content(ctx, digest, block.State[digest]); err != nil {
			return err
		}
	}
	for i := len(b.made) - 1; i >= 0; i-- {
		if err := b.root.ops.SyncDir(b.made[i]); err != nil {
			return err
		}
	}
	b.next.Versions[b.next.Head] = block
	data, err := b.next.encode()
	if err != nil {
		return err
	}
	dirs := []string{dir}
	if last {
		dirs = append(dirs, b.home())
		declaration := path.Join(b.home(), objectDeclaration+specVersion)
		if err := writeSynced(b.root.ops, declaration, []byte("ocfl_object_"+specVersion+"\n")); err != nil {
			return err
		}
	}
	for _, dir := range dirs {
		sidecar := sidecarText(digestOf(SHA512, data))
		if err := errors.Join(
			writeSynced(b.root.ops, path.Join(dir, inventoryFile), data),
			writeSynced(b.root.ops, path.Join(dir, sidecarName(SHA512)), sidecar),
			b.root.ops.SyncDir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// content copies a content file into the version, and compares it with its digests. Its name is made of a logical path
// that remains: the old one may be that of a removed version.
func (b *rebuilding) content(ctx context.Context, digest string, logical []string) error {
	paths := b.base.inv.Manifest[digest]
	if len(paths) == 0 || len(logical) == 0 {
		return fmt.Errorf("%w: E050 no content for %s", ErrCorrupt, digest)
	}
	from, first := paths[0], logical[0]
	for _, p := range logical {
		first = min(first, p)
	}
	name := path.Join(b.next.Head, b.next.contentDir(), contentName(first, strings.ToLower(digest)))
	to := path.Join(b.home(), name)
	if err := b.mkdir(path.Dir(to)); err != nil {
		return err
	}
	open := func() (io.ReadCloser, error) { return openRegular(b.root.dir, path.Join(b.dir, from)) }
	want := append([]stated{{b.base.inv.DigestAlgorithm, digest}}, b.fixity[from]...)
	if err := b.files.copy(ctx, open, to, want); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	b.next.Manifest[digest] = []string{name}
	for _, f := range b.fixity[from] {
		if b.next.Fixity[f.algorithm] == nil {
			b.next.Fixity[f.algorithm] = map[string][]string{}
		}
		b.next.Fixity[f.algorithm][f.digest] = append(b.next.Fixity[f.algorithm][f.digest], name)
	}
	return nil
}

// mkdir creates a directory of the staged version and its parents.
func (b *rebuilding) mkdir(dir string) error {
	err := b.root.ops.Mkdir(dir)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(dir, b.home()+"/"):
		if err := b.mkdir(path.Dir(dir)); err != nil {
			return err
		}
		return b.mkdir(dir)
	case err == nil:
		b.made = append(b.made, dir)
	}
	return err
}

// validate reads the staged object in full.
func (b *rebuilding) validate(ctx context.Context) error {
	fresh, err := b.files.readBack(ctx, b.id, b.home())
	if err != nil {
		return err
	}
	b.next = fresh.inv
	report := &Report{}
	if _, err := checkObject(ctx, b.root.dir, b.home(), b.root.spec, report, b.files.buf); err != nil {
		return err
	}
	if err := report.Err(); err != nil {
		return fmt.Errorf("%w: the new object: %w", ErrCorrupt, err)
	}
	return nil
}

// exchange exchanges the staged object for the old one, or removes the old one, if it was not changed meanwhile.
func (a *addition) exchange(ctx context.Context, remove bool) error {
	lock, err := a.root.lockObject(ctx, a.dir)
	if err != nil {
		return err
	}
	if lock == nil {
		return fmt.Errorf("%w: another writer removed it", ErrConflict)
	}
	defer lock.Close()
	now, err := a.reload()
	if err != nil {
		return err
	}
	if now.home.digest != a.base.home.digest {
		return fmt.Errorf("%w: another writer created %s concurrently", ErrConflict, now.inv.Head)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if remove {
		return a.root.removeLocked(a.stage, a.dir)
	}
	if err := a.root.ops.SyncDir(a.stage.dir); err != nil {
		return err
	}
	if err := a.root.ops.Exchange(a.home(), a.dir); err != nil {
		return err
	}
	if err := a.root.ops.SyncDir(path.Dir(a.dir)); err != nil {
		return err
	}
	return a.root.ops.SyncDir(a.stage.dir)
}
