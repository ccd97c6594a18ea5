// Package directory archives trees of files: each directory below a root is a course with one activity, which is the
// whole tree.
package directory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/stagepost/stagepost/app/archive/source"
)

// Module is the kind of the activities.
const Module = "directory"

// Source is a root with directories to archive. Symbolic links are not followed, and nothing outside the root is read.
type Source struct {
	name string
	root *os.Root
	open func(name string) (file, error) // replaced in tests
}

type file interface {
	io.ReadCloser
	Stat() (fs.FileInfo, error)
}

// Open opens a root.
func Open(name string) (*Source, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	s := &Source{name: name, root: root}
	s.open = func(name string) (file, error) {
		return s.root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	}
	return s, nil
}

// Close closes the root.
func (s *Source) Close() error { return s.root.Close() }

// Check implements [source.Source].
func (s *Source) Check(context.Context) (source.Facts, error) {
	f := source.Facts{Kind: "directory", Name: path.Base(s.name), URL: "file://" + s.name}
	_, err := fs.ReadDir(s.root.FS(), ".")
	return f, source.FileError("read "+s.name, err)
}

// Courses implements [source.Source].
func (s *Source) Courses(_ context.Context, ids []string) ([]source.Course, error) {
	return source.ListDir(s.root.FS(), s.name, ids, func(e fs.DirEntry) string {
		if !e.IsDir() {
			return ""
		}
		return e.Name()
	}, func(id string) error { return fmt.Errorf("%s has no directory %q", s.name, id) })
}

// Activities implements [source.Source].
func (s *Source) Activities(_ context.Context, course string) ([]source.Activity, error) {
	info, err := s.root.Lstat(course)
	switch {
	case err != nil:
		return nil, source.FileError("course "+course, err)
	case !info.IsDir() || !source.CourseName(course):
		return nil, &source.Error{Op: "course " + course, Err: errors.New("it is not a directory below the root")}
	}
	a := source.Activity{Course: course, ID: course, Module: Module, Name: course, Modified: info.ModTime().UTC()}
	return []source.Activity{a}, nil
}

// Describe implements [source.Source]: nothing is known of people.
func (s *Source) Describe(context.Context, string, source.Settings, source.Out) ([]source.Person, error) {
	return nil, nil
}

// Archivable implements [source.Source].
func (s *Source) Archivable(a source.Activity) (reason string) {
	if a.Module != Module {
		return fmt.Sprintf("a directory has no activities of the kind %q", a.Module)
	}
	return ""
}

// check refuses what is no activity of this source.
func (s *Source) check(a source.Activity) error {
	return source.CheckSole(a, s.Archivable(a), "it is not a directory below the root")
}

// walk calls do for each file in the order of the paths, and skip for everything else that is not a directory.
func (s *Source) walk(
	ctx context.Context, a source.Activity, do func(name string, info fs.FileInfo) error, skip func(name string),
) error {
	if err := s.check(a); err != nil {
		return err
	}
	return fs.WalkDir(s.root.FS(), a.ID, func(name string, e fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return source.FileError("read "+name, err)
		}
		switch {
		case e.IsDir():
			return nil
		case !e.Type().IsRegular():
			skip(name)
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return source.FileError("read "+name, err)
		}
		return do(name, info)
	})
}

// Fingerprint implements [source.Source]: paths, sizes and times of the files, and paths of what is left out.
func (s *Source) Fingerprint(ctx context.Context, a source.Activity) (string, error) {
	sum := sha256.New()
	err := s.walk(ctx, a, func(name string, info fs.FileInfo) error {
		fmt.Fprintf(sum, "%q %d %d\n", name, info.Size(), info.ModTime().UnixNano())
		return nil
	}, func(name string) { fmt.Fprintf(sum, "%q is left out\n", name) })
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// entry is the data of an item. Paths of files may have bytes that are not UTF-8, which JSON keeps in base64 only.
type entry struct {
	Path []byte `json:"path"` // below the activity
	Name string `json:"name"` // under which the file is kept
}

// Plan implements [source.Source]: an item for each file.
func (s *Source) Plan(ctx context.Context, a source.Activity, _ source.Settings) (*source.Plan, error) {
	out, names := &source.Plan{}, source.Names{}
	err := s.walk(ctx, a, func(name string, _ fs.FileInfo) error {
		rel := strings.TrimPrefix(name, a.ID+"/")
		key := keyOf(rel)
		data, err := json.Marshal(entry{Path: []byte(rel), Name: names.For(key, path.Join("files", safe(rel)))})
		if err != nil {
			return err
		}
		out.Items = append(out.Items, source.Item{Key: key, Title: strings.ToValidUTF8(rel, "\ufffd"), Data: data})
		return nil
	}, func(name string) {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%q is neither a file nor a directory, and is left out", name))
	})
	return out, err
}

// keyOf gives the path itself if it is UTF-8 and has no percent sign; otherwise both are written as %XX.
func keyOf(rel string) string {
	var out strings.Builder
	for i, r := range rel {
		if r == '\ufffd' && !strings.HasPrefix(rel[i:], "\ufffd") || r == '%' {
			fmt.Fprintf(&out, "%%%02X", rel[i])
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// Fetch implements [source.Source]. A file that changes while it is read is an error that passes.
func (s *Source) Fetch(
	ctx context.Context, a source.Activity, item source.Item, _ source.Settings, out source.Out,
) error {
	if err := s.check(a); err != nil {
		return err
	}
	var at entry
	if err := item.Decode(&at); err != nil {
		return err
	}
	name := path.Join(a.ID, string(at.Path))
	if info, err := s.root.Lstat(name); err != nil {
		return source.FileError("read "+name, err)
	} else if !info.Mode().IsRegular() {
		return &source.Error{Op: "read " + name, Err: errors.New("it is not a file any more")}
	}
	f, err := s.open(name)
	if err != nil {
		return source.FileError("read "+name, err)
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return source.FileError("read "+name, err)
	}
	if !before.Mode().IsRegular() { // replaced since
		return &source.Error{Op: "read " + name, Err: errors.New("it is not a file any more")}
	}
	o := source.Origin{Name: item.Title, Modified: before.ModTime().UTC().Truncate(time.Second)}
	if !utf8.Valid(at.Path) {
		o.Raw = at.Path
	}
	return out.Put(ctx, at.Name, &o, func(w io.Writer) error { return copyFile(ctx, w, f, before, name) })
}

// copyFile copies a file that must not change meanwhile. The error of w is returned as it is.
func copyFile(ctx context.Context, w io.Writer, f file, before fs.FileInfo, name string) error {
	in := &reader{ctx: ctx, r: f}
	n, err := io.Copy(w, in)
	switch {
	case in.err != nil:
		return source.FileError("read "+name, in.err)
	case err != nil:
		return err
	}
	after, err := f.Stat()
	if err != nil {
		return source.FileError("read "+name, err)
	}
	if n != before.Size() || !after.ModTime().Equal(before.ModTime()) || after.Size() != n {
		err := fmt.Errorf("%w: the file changed while it was read", source.ErrContent)
		return &source.Error{Op: "read " + name, Err: err, Transient: true}
	}
	return nil
}

// reader keeps its error apart from that of a writer, and ends with the context.
type reader struct {
	ctx context.Context
	r   io.Reader
	err error
}

func (r *reader) Read(p []byte) (int, error) {
	if r.err = r.ctx.Err(); r.err != nil {
		return 0, r.err
	}
	n, err := r.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// safe makes the elements of a path safe.
func safe(name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = source.SafeName(parts[i])
	}
	return strings.Join(parts, "/")
}
