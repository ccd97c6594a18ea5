package bagit

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// item is an entry of a tree: a file, or an entry of a type that a bag must not have.
type item struct {
	name string // with slashes
	size int64
	odd  string // the type of an entry that is not a file; "" for a file
	open func() (io.ReadCloser, error)
}

// tree is a directory or an archive that has a bag. Each call of each gives the same items.
type tree interface {
	each(ctx context.Context, do func(item) error) error
	io.Closer
}

// ErrFormat is the error for a file that is neither a ZIP nor a TAR file.
var ErrFormat = errors.New("neither a directory nor a ZIP, TAR or tar.gz file")

// openTree opens a directory, a ZIP, a TAR or a tar.gz file. It detects the type from the content, not from the name.
// packed reports that it is a file.
func openTree(name string) (t tree, packed bool, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, false, err
	}
	if info.IsDir() {
		root, err := os.OpenRoot(name)
		if err != nil {
			return nil, false, err
		}
		return directory{root}, false, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, false, err
	}
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, false, errors.Join(err, f.Close())
	}
	head = head[:n]
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")):
		z, err := zip.NewReader(f, info.Size())
		if err != nil {
			return nil, false, errors.Join(fmt.Errorf("%w: %w", ErrFormat, err), f.Close())
		}
		return zipFile{z, f}, true, nil
	case n == 512 && (string(head[257:262]) == "ustar" || oldTAR(head)):
		return tarFile{f, false}, true, nil
	case bytes.HasPrefix(head, []byte("\x1f\x8b\x08")):
		return tarFile{f, true}, true, nil
	}
	return nil, false, errors.Join(ErrFormat, f.Close())
}

// oldTAR reports whether a block is a header without a magic number: archive/tar checks its sum.
func oldTAR(head []byte) bool {
	h, err := tar.NewReader(bytes.NewReader(append(bytes.Clone(head), make([]byte, 1024)...))).Next()
	return err == nil && h.Name != "" || errors.Is(err, io.EOF)
}

type directory struct{ root *os.Root }

func (d directory) Close() error { return d.root.Close() }

func (d directory) each(ctx context.Context, do func(item) error) error {
	return fs.WalkDir(d.root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || e.IsDir() {
			return err
		}
		one := item{name: name, open: func() (io.ReadCloser, error) { return d.root.Open(name) }}
		if !e.Type().IsRegular() {
			one.odd = e.Type().String()
			return do(one)
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		one.size = info.Size()
		return do(one)
	})
}

type zipFile struct {
	*zip.Reader
	io.Closer
}

func (z zipFile) each(ctx context.Context, do func(item) error) error {
	for _, f := range z.File {
		if err := ctx.Err(); err != nil {
			return err
		}
		if strings.HasSuffix(f.Name, "/") && f.UncompressedSize64 == 0 {
			continue
		}
		one := item{name: f.Name, size: int64(f.UncompressedSize64), open: f.Open}
		if !f.Mode().IsRegular() {
			one.odd = f.Mode().Type().String()
		}
		if err := do(one); err != nil {
			return err
		}
	}
	return nil
}

type tarFile struct {
	*os.File
	compressed bool // by gzip
}

func (t tarFile) each(ctx context.Context, do func(item) error) error {
	if _, err := t.Seek(0, io.SeekStart); err != nil {
		return err
	}
	var stream io.Reader = t.File
	if t.compressed {
		z, err := gzip.NewReader(t.File)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		defer z.Close()
		stream = z
	}
	in := tar.NewReader(stream)
	for first := true; ; first = false {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if first && errors.Is(err, tar.ErrHeader) {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeDir || h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		one := item{name: strings.TrimPrefix(h.Name, "./"), size: h.Size,
			open: func() (io.ReadCloser, error) { return io.NopCloser(in), nil }}
		if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeGNUSparse {
			one.odd = fmt.Sprintf("type %q", h.Typeflag)
		}
		if err := do(one); err != nil {
			return err
		}
	}
}
