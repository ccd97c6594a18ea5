package unpack

import (
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/stagepost/stagepost/edge/collect"
	"github.com/stagepost/stagepost/edge/safename"
	"github.com/stagepost/stagepost/internal/durable"
)

// Limits bound the unpacked archive. The zero Limits are safe.
type Limits struct {
	// Files bounds files and directories together, including implied directories. Defaults to 100,000.
	Files int
	// Bytes bounds the sum of all files. Defaults to 1 TiB.
	Bytes int64
	// Ratio bounds unpacked to packed bytes, of the whole and of each zip entry; the first MiB is free, since small
	// files of zeros are harmless. Defaults to 100.
	Ratio int64
	// Depth bounds the components of a name. Defaults to 100.
	Depth int
	// Names are the rules for names. Defaults to safename.Portable.
	Names safename.Rules
}

func (l Limits) withDefaults() Limits {
	if l.Files <= 0 {
		l.Files = 100_000
	}
	if l.Bytes <= 0 {
		l.Bytes = 1 << 40
	}
	if l.Ratio <= 0 {
		l.Ratio = 100
	}
	if l.Depth <= 0 {
		l.Depth = 100
	}
	return l
}

// Report counts what was unpacked.
type Report struct {
	Files  int
	Dirs   int // including implied directories
	Bytes  int64
	Latin1 int // zip names that were not UTF-8 and were read as ISO-8859-1
	CP437  int // the same for archives that a program of DOS or Windows made, read as code page 437
	Links  int // of a tar, each of which became a copy of the file it leads to
}

// Kind is a format, by the archive's name.
type Kind string

// Kinds.
const (
	Zip      Kind = "zip"
	Tar      Kind = "tar"
	TarGzip  Kind = "tar.gz"
	TarBzip2 Kind = "tar.bz2"
	Gzip     Kind = "gz"
	Bzip2    Kind = "bz2"
)

var suffixes = []struct {
	suffix string
	kind   Kind
}{
	{".tar.gz", TarGzip}, {".tgz", TarGzip}, {".tarz", TarGzip}, {".tar.bz2", TarBzip2}, {".tbz2", TarBzip2},
	{".zip", Zip}, {".tar", Tar}, {".gz", Gzip}, {".bz2", Bzip2},
}

// KindOf returns the kind of an archive and its name without the suffix; false if the name is not that of an archive.
// Case does not matter.
func KindOf(name string) (kind Kind, stem string, ok bool) {
	lower := strings.ToLower(name)
	for _, s := range suffixes {
		if strings.HasSuffix(lower, s.suffix) {
			return s.kind, name[:len(name)-len(s.suffix)], true
		}
	}
	return "", name, false
}

// Archive is a packed file.
type Archive struct {
	Content io.ReaderAt
	Size    int64  // of the content, in bytes
	Name    string // determines the kind and, for .gz and .bz2, the name of the one file
}

// Unpack writes the content of the archive to the new directory dir below root. The tree is written to dir+".unpacking"
// and renamed when it is complete and synced. After an error neither exists; the next call removes what a killed
// process left. The error is an *Error.
func Unpack(ctx context.Context, a Archive, root *os.Root, dir string, limits Limits) (Report, error) {
	return a.unpackTo(ctx, root, dir, limits, collect.Sync)
}

// unpackTo is Unpack with the function that syncs the tree: tests that unpack thousands of archives omit the disk.
func (a *Archive) unpackTo(ctx context.Context, root *os.Root, dir string, limits Limits,
	sync func(*os.Root) error) (Report, error) {
	report, err := a.unpack(ctx, root, path.Clean(dir), limits.withDefaults(), sync)
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			e = &Error{Rule: Storage, Err: err}
		}
		e.Archive = path.Base(a.Name)
		return Report{}, e
	}
	return report, nil
}

func (a *Archive) unpack(ctx context.Context, root *os.Root, dir string, limits Limits,
	sync func(*os.Root) error) (report Report, err error) {
	kind, stem, ok := KindOf(path.Base(a.Name))
	if !ok {
		return report, refuse(Format, "", nil)
	}
	if _, err := root.Lstat(dir); err == nil {
		return report, refuse(Exists, "", fs.ErrExist)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return report, err
	}
	growing := dir + ".unpacking"
	if err := root.RemoveAll(growing); err != nil {
		return report, err
	}
	defer func() {
		if err != nil {
			if left := root.RemoveAll(growing); left != nil {
				err = refuse(Storage, "", errors.Join(left, err)) // more severe than the archive's fault
			}
		}
	}()
	if err := root.Mkdir(growing, 0o750); err != nil {
		return report, err
	}
	tree, err := root.OpenRoot(growing)
	if err != nil {
		return report, err
	}
	defer tree.Close()
	w := &writer{ctx: ctx, root: tree, limits: limits, packed: a.Size, names: safename.Set{Rules: limits.Names}}
	if err := w.unpack(kind, stem, a.Content, a.Size); err != nil {
		return report, err
	}
	if err := sync(tree); err != nil {
		return report, err
	}
	if err := root.Rename(growing, dir); err != nil {
		return report, err
	}
	w.report.Dirs = w.names.Len() - w.report.Files
	return w.report, durable.SyncIn(root, path.Dir(dir))
}

func (w *writer) unpack(kind Kind, stem string, archive io.ReaderAt, size int64) error {
	if kind == Zip {
		return w.zip(archive, size)
	}
	stream, err := w.decompress(kind, io.NewSectionReader(archive, 0, size))
	if err != nil {
		return refuse(Corrupt, "", err)
	}
	switch kind {
	case Gzip, Bzip2:
		return w.file(stem, stream, -1, size)
	}
	return w.tar(stream)
}

func (w *writer) decompress(kind Kind, packed io.Reader) (io.Reader, error) {
	switch kind {
	case TarGzip, Gzip:
		return gzip.NewReader(packed)
	case TarBzip2, Bzip2:
		return bzip2.NewReader(packed), nil
	}
	return packed, nil
}
