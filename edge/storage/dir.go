package storage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/stagepost/stagepost/edge/disk"
	"github.com/stagepost/stagepost/internal/durable"
)

// Dir is a directory as a location. Its files have the mode 0440 and its directories 0750.
type Dir struct {
	name string
	root *os.Root
	tier Tier
	keys keyed
}

// OpenDir opens an existing directory, so that one whose file system is not mounted is not filled by mistake.
func OpenDir(name string, tier Tier) (*Dir, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, &Error{Location: name, Op: "open", Err: err, Transient: !errors.Is(err, fs.ErrPermission)}
	}
	return &Dir{name: name, root: root, tier: tier}, nil
}

func (d *Dir) fail(op, key string, err error) error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	// a directory that is missing as a whole may be mounted again
	final := missing(err) && op != "put" && op != "free" || refused(err) || errors.Is(err, fs.ErrPermission) ||
		errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EFBIG)
	return &Error{Location: d.name, Op: op, Key: key, Err: err, Transient: !final}
}

// part is the name of a key's file until it is complete. A key has no element that begins with a dot.
func part(key string) string {
	sum := sha256.Sum256([]byte(key))
	return path.Join(path.Dir(key), ".part-"+hex.EncodeToString(sum[:8]))
}

// Put implements [Location]: it writes and syncs a part, and links it to its name.
func (d *Dir) Put(ctx context.Context, key string, src io.ReaderAt, c Content, _ *Progress) error {
	return d.fail("put", key, d.put(ctx, key, src, c))
}

func (d *Dir) put(ctx context.Context, key string, src io.ReaderAt, c Content) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	defer d.keys.lock(key)()
	if _, err := d.root.Lstat(key); err == nil {
		if err := d.root.Remove(part(key)); err != nil && !missing(err) { // of a process that crashed at the end of Put
			return err
		}
		return existing(ctx, d, key, c)
	}
	if err := d.mkdir(path.Dir(key)); err != nil {
		return err
	}
	file := durable.File{Root: d.root, Name: key, Temporary: part(key), Mode: 0o440, New: true}
	err := file.Write(func(f *os.File) error {
		sum := sha256.New()
		to := io.Writer(&durable.Early{File: f})
		if !c.ReadBack {
			to = io.MultiWriter(to, sum)
		}
		n, err := copyPaced(ctx, to, io.NewSectionReader(src, 0, c.Size), nil)
		if err != nil {
			return err
		}
		if c.ReadBack && n == c.Size {
			return nil
		}
		return compare(c, n, sum, ErrSource)
	})
	if errors.Is(err, fs.ErrExist) {
		return existing(ctx, d, key, c)
	}
	return err
}

// mkdir makes a directory and those above it that are missing, and syncs their names.
func (d *Dir) mkdir(name string) error {
	if name == "." {
		return nil
	}
	err := d.root.Mkdir(name, 0o750)
	if missing(err) {
		if err := d.mkdir(path.Dir(name)); err != nil {
			return err
		}
		err = d.root.Mkdir(name, 0o750)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	return durable.SyncIn(d.root, path.Dir(name))
}

// Open implements [Location].
func (d *Dir) Open(_ context.Context, key string, offset int64) (io.ReadCloser, error) {
	f, err := d.open(key, offset)
	if err != nil {
		return nil, d.fail("open", key, err)
	}
	return f, nil
}

func (d *Dir) open(key string, offset int64) (*os.File, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	f, err := d.root.Open(key)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Stat implements [Location]. A directory keeps no digests.
func (d *Dir) Stat(_ context.Context, key string) (Stat, error) {
	if err := CheckKey(key); err != nil {
		return Stat{}, d.fail("stat", key, err)
	}
	info, err := d.root.Lstat(key)
	switch {
	case err != nil:
		return Stat{}, d.fail("stat", key, err)
	case !info.Mode().IsRegular():
		return Stat{}, d.fail("stat", key, fmt.Errorf("%w: it is not a file", ErrKey))
	}
	return Stat{Size: info.Size()}, nil
}

// Delete implements [Location]. It removes directories that become empty.
func (d *Dir) Delete(_ context.Context, key string) error {
	if err := CheckKey(key); err != nil {
		return d.fail("delete", key, err)
	}
	defer d.keys.lock(key)()
	if err := d.root.Remove(key); err != nil && !missing(err) {
		return d.fail("delete", key, err)
	}
	above := path.Dir(key)
	for above != "." && d.root.Remove(above) == nil { // one that is not empty stays
		above = path.Dir(above)
	}
	if err := durable.SyncIn(d.root, above); err != nil && !missing(err) {
		return d.fail("delete", key, err)
	}
	return nil
}

// Abandon implements [Location].
func (d *Dir) Abandon(_ context.Context, key string, _ *Progress) error {
	if err := CheckKey(key); err != nil {
		return d.fail("abandon", key, err)
	}
	defer d.keys.lock(key)()
	if err := d.root.Remove(part(key)); err != nil && !missing(err) {
		return d.fail("abandon", key, err)
	}
	return nil
}

// Recall implements [Location]: files of a directory can always be read.
func (d *Dir) Recall(context.Context, string) (bool, error) { return true, nil }

// Free implements [Location].
func (d *Dir) Free(context.Context) (int64, error) {
	free, _, err := disk.Space(d.name)
	return free, d.fail("free", "", err)
}

// Properties implements [Location].
func (d *Dir) Properties() Properties { return Properties{Name: d.name, Tier: d.tier} }

// Close implements [Location].
func (d *Dir) Close() error { return d.root.Close() }
