package ocfl

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
)

// intake stores the files of one new version in its stage. It stores each distinct content once, and skips content of
// an earlier version.
type intake struct {
	ops      fileOps
	inv      *Inventory // grows: manifest and fixity of the stored files
	version  string
	home     string            // staged directory that becomes the object or holds the version directory
	incoming string            // name of the file that is being received
	lower    map[string]string // lower-case digest -> key of the manifest
	used     map[string]bool   // content paths of this version
	dirs     []string          // created directories, parents first
	made     map[string]bool
	fixity   []string
	set      syncSet // syncs the files
	buf      *buffer
	stored   int
	bytes    int64
}

func newIntake(a *addition, version string, fixity []string) *intake {
	inv := a.next
	in := &intake{
		ops: a.ops, inv: inv, version: version, home: a.home(), incoming: a.stage.path("incoming"), fixity: fixity,
		lower: make(map[string]string, len(inv.Manifest)), used: map[string]bool{}, made: map[string]bool{},
		set: a.set, buf: newBuffer(),
	}
	for digest := range inv.Manifest {
		in.lower[strings.ToLower(digest)] = digest
	}
	return in
}

// take stores a file and returns its digest as the manifest writes it. It does not read a file whose stated digest is
// in the manifest.
func (in *intake) take(ctx context.Context, f File) (string, error) {
	if key, ok := in.lower[strings.ToLower(f.Digest)]; ok && f.Digest != "" {
		return key, nil
	}
	// Only a file of unknown content may be there already, so only that one gets its content path afterwards.
	received, content, err := in.incoming, "", error(nil)
	if f.Digest != "" {
		if content, err = in.contentPath(f.Path, strings.ToLower(f.Digest)); err != nil {
			return "", err
		}
		received = path.Join(in.home, content)
	}
	w, err := in.ops.Create(received)
	if err != nil {
		return "", err
	}
	got, n, err := in.receive(ctx, w, f)
	if err != nil {
		return "", errors.Join(err, w.Close())
	}
	digest := got.hex(SHA512)
	if content == "" {
		if key, ok := in.lower[digest]; ok {
			return key, errors.Join(w.Close(), in.ops.Remove(in.incoming))
		}
		if content, err = in.moveToContent(f.Path, digest); err != nil {
			return "", errors.Join(err, w.Close())
		}
	}
	in.lower[digest] = digest
	in.inv.Manifest[digest] = []string{content}
	for _, algorithm := range in.fixity {
		if in.inv.Fixity[algorithm] == nil {
			in.inv.Fixity[algorithm] = map[string][]string{}
		}
		sum := got.hex(algorithm)
		in.inv.Fixity[algorithm][sum] = append(in.inv.Fixity[algorithm][sum], content)
	}
	in.stored++
	in.bytes += n
	return digest, in.set.File(w, n)
}

// receive copies the source and compares it with the stated size and digest.
func (in *intake) receive(ctx context.Context, w syncFile, f File) (sums, int64, error) {
	src, err := f.Open()
	if err != nil {
		return nil, 0, err
	}
	defer src.Close()
	got := newSums(append([]string{SHA512}, in.fixity...)...)
	n, err := copyContext(ctx, tee{w, got}, src, *in.buf)
	switch {
	case err != nil:
		return nil, n, err
	case f.Size >= 0 && n != f.Size:
		return nil, n, fmt.Errorf("%w: %d bytes, not the stated %d", ErrDigest, n, f.Size)
	case f.Digest != "" && !sameDigest(f.Digest, got.hex(SHA512)):
		return nil, n, fmt.Errorf("%w: sha512 is %s, not the stated %s", ErrDigest, got.hex(SHA512), f.Digest)
	}
	return got, n, nil
}

type tee struct {
	file syncFile
	sums sums
}

func (t tee) Write(p []byte) (int, error) {
	n, err := t.file.Write(p)
	t.sums.Write(p[:n])
	return n, err
}

// moveToContent moves the received file to its content path and returns that path, relative to the object.
func (in *intake) moveToContent(logical, digest string) (string, error) {
	content, err := in.contentPath(logical, digest)
	if err != nil {
		return "", err
	}
	return content, in.ops.Rename(in.incoming, path.Join(in.home, content))
}

// contentPath reserves the content path of a file, relative to the object, and creates its directory.
func (in *intake) contentPath(logical, digest string) (string, error) {
	name := contentName(logical, digest)
	content := path.Join(in.version, in.inv.contentDir(), name)
	if in.used[content] {
		return "", fmt.Errorf("%w: content path %s twice", ErrCorrupt, content)
	}
	in.used[content] = true
	return content, in.mkdir(path.Dir(path.Join(in.home, content)))
}

// mkdir creates a directory of the stage and its parents, once each. settle adds them to the set.
func (in *intake) mkdir(dir string) error {
	if dir == in.home || in.made[dir] {
		return nil
	}
	if err := in.mkdir(path.Dir(dir)); err != nil {
		return err
	}
	if err := in.ops.Mkdir(dir); err != nil {
		return err
	}
	in.made[dir] = true
	in.dirs = append(in.dirs, dir)
	return nil
}

// settle adds the directories to what is synced, after all files have their names.
func (in *intake) settle() error {
	for _, dir := range in.dirs {
		if err := in.set.Dir(dir); err != nil {
			return err
		}
	}
	return nil
}
