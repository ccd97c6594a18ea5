package ocfl

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
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
	sync     *syncer
	buf      []byte
	stored   int
	bytes    int64
}

func newIntake(r *Root, s *stage, home string, inv *Inventory, version string, fixity []string) *intake {
	in := &intake{
		ops: r.ops, inv: inv, version: version, home: home, incoming: s.path("incoming"), fixity: fixity,
		lower: make(map[string]string, len(inv.Manifest)), used: map[string]bool{}, made: map[string]bool{},
		sync: newSyncer(r.syncers), buf: make([]byte, copyBuffer),
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
	w, err := in.ops.Create(in.incoming)
	if err != nil {
		return "", err
	}
	got, n, err := in.receive(ctx, w, f)
	if err != nil {
		return "", errors.Join(err, w.Close())
	}
	digest := got.hex(SHA512)
	if key, ok := in.lower[digest]; ok {
		return key, errors.Join(w.Close(), in.ops.Remove(in.incoming))
	}
	content, err := in.moveToContent(f.Path, digest)
	if err != nil {
		return "", errors.Join(err, w.Close())
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
	return digest, in.sync.file(w)
}

// receive copies the source and compares it with the stated size and digest.
func (in *intake) receive(ctx context.Context, w syncFile, f File) (sums, int64, error) {
	src, err := f.Open()
	if err != nil {
		return nil, 0, err
	}
	defer src.Close()
	got := newSums(append([]string{SHA512}, in.fixity...)...)
	n, err := copyContext(ctx, tee{w, got}, src, in.buf)
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
	name := contentName(logical, digest)
	content := path.Join(in.version, in.inv.contentDir(), name)
	if in.used[content] {
		return "", fmt.Errorf("%w: content path %s twice", ErrCorrupt, content)
	}
	in.used[content] = true
	to := path.Join(in.home, content)
	if err := in.mkdir(path.Dir(to)); err != nil {
		return "", err
	}
	return content, in.ops.Rename(in.incoming, to)
}

// mkdir creates a directory of the stage and its parents, once each. settle syncs them together.
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

// settle waits for the syncs of all files and syncs the directories. Afterwards the content is on disk.
func (in *intake) settle() error {
	if err := in.sync.wait(); err != nil {
		return err
	}
	dirs := newSyncer(in.sync.workers)
	for i := len(in.dirs) - 1; i >= 0; i-- {
		dir := in.dirs[i]
		if err := dirs.do(func() error { return in.ops.SyncDir(dir) }); err != nil {
			return errors.Join(err, dirs.wait())
		}
	}
	return dirs.wait()
}

// syncer syncs many files at a time. A journaling file system combines concurrent syncs into one commit, so that ten
// thousand small files take seconds and not minutes. Without workers it syncs each file at once.
type syncer struct {
	workers int
	work    chan func() error
	done    sync.WaitGroup
	mu      sync.Mutex
	err     error // the first error; guarded by mu
}

func newSyncer(workers int) *syncer {
	s := &syncer{workers: workers}
	if workers > 0 {
		s.work = make(chan func() error)
	}
	for range workers {
		s.done.Go(func() {
			for do := range s.work {
				s.keep(do())
			}
		})
	}
	return s
}

func (s *syncer) keep(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

func (s *syncer) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// do returns the error of any earlier work, so that a full disk ends the intake early.
func (s *syncer) do(work func() error) error {
	if s.workers == 0 {
		s.keep(work())
	} else {
		s.work <- work
	}
	return s.failed()
}

// file syncs and closes w.
func (s *syncer) file(w syncFile) error {
	return s.do(func() error { return errors.Join(w.Sync(), w.Close()) })
}

// wait must be called once, after the last do.
func (s *syncer) wait() error {
	if s.workers > 0 {
		close(s.work)
		s.done.Wait()
	}
	return s.failed()
}
