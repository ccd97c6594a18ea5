// Package directory archives trees of files: each directory below a root is a course with one activity, which is the
// whole tree.
package directory

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
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
)

// Module is the kind of the activities.
const Module = "directory"

// Source is a root with directories to archive. Symbolic links are not followed, and nothing outside the root is read.
type Source struct {
	name string
	root *os.Root
}

// Open opens a root.
func Open(name string) (*Source, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return &Source{name: name, root: root}, nil
}

// Close closes the root.
func (s *Source) Close() error { return s.root.Close() }

// Check implements [source.Source].
func (s *Source) Check(context.Context) (source.Facts, error) {
	f := source.Facts{Kind: "directory", Name: path.Base(s.name), URL: "file://" + s.name}
	_, err := fs.ReadDir(s.root.FS(), ".")
	return f, fail("read "+s.name, err)
}

// fail classifies an error of the file system.
func fail(op string, err error) error {
	var known *source.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	final := errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrInvalid)
	return &source.Error{Op: op, Err: err, Transient: !final}
}

// Courses implements [source.Source]. Names that begin with a dot are left out.
func (s *Source) Courses(_ context.Context, ids []string) ([]source.Course, error) {
	list, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return nil, fail("read "+s.name, err)
	}
	var out []source.Course
	for _, e := range list {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && (ids == nil || slices.Contains(ids, e.Name())) {
			out = append(out, source.Course{ID: e.Name(), Name: e.Name()})
		}
	}
	for _, id := range ids {
		if !slices.ContainsFunc(out, func(c source.Course) bool { return c.ID == id }) {
			return nil, &source.Error{Op: "course " + id, Err: fmt.Errorf("%s has no directory %s", s.name, id)}
		}
	}
	return out, nil
}

// Activities implements [source.Source].
func (s *Source) Activities(_ context.Context, course string) ([]source.Activity, error) {
	info, err := s.root.Lstat(course)
	switch {
	case err != nil:
		return nil, fail("course "+course, err)
	case !info.IsDir() || strings.Contains(course, "/") || strings.HasPrefix(course, "."):
		return nil, &source.Error{Op: "course " + course, Err: errors.New("it is not a directory below the root")}
	}
	return []source.Activity{{Course: course, ID: course, Module: Module, Name: course, Modified: info.ModTime().UTC()}}, nil
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

// walk calls do for each file in the order of the paths, and skip for what is neither a file nor a directory.
func (s *Source) walk(
	ctx context.Context, a source.Activity, do func(name string, info fs.FileInfo) error, skip func(name string),
) error {
	return fs.WalkDir(s.root.FS(), a.ID, func(name string, e fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return fail("read "+name, err)
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
			return fail("read "+name, err)
		}
		return do(name, info)
	})
}

// Fingerprint implements [source.Source]: paths, sizes and times of the files.
func (s *Source) Fingerprint(ctx context.Context, a source.Activity) (string, error) {
	sum := sha256.New()
	err := s.walk(ctx, a, func(name string, info fs.FileInfo) error {
		fmt.Fprintf(sum, "%q %d %d\n", name, info.Size(), info.ModTime().UnixNano())
		return nil
	}, func(string) {})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Plan implements [source.Source]: an item for each file.
func (s *Source) Plan(ctx context.Context, a source.Activity, _ source.Settings) (*source.Plan, error) {
	out := &source.Plan{}
	err := s.walk(ctx, a, func(name string, _ fs.FileInfo) error {
		rel := strings.TrimPrefix(name, a.ID+"/")
		out.Items = append(out.Items, source.Item{Key: rel, Title: rel})
		return nil
	}, func(name string) {
		out.Warnings = append(out.Warnings, name+" is neither a file nor a directory, and is left out")
	})
	return out, err
}

// Fetch implements [source.Source]. A file that changes while it is read is an error that passes.
func (s *Source) Fetch(
	ctx context.Context, a source.Activity, item source.Item, _ source.Settings, out source.Out,
) error {
	name := path.Join(a.ID, item.Key)
	f, err := s.root.Open(name)
	if err != nil {
		return fail("read "+name, err)
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return fail("read "+name, err)
	}
	if !before.Mode().IsRegular() {
		return &source.Error{Op: "read " + name, Err: errors.New("it is not a file any more")}
	}
	o := source.Origin{Modified: before.ModTime().UTC().Truncate(time.Second)}
	return out.Put(ctx, path.Join("files", safe(item.Key)), o, func(w io.Writer) error {
		n, err := io.Copy(w, f)
		if err != nil {
			return err // of w, or of the disk
		}
		after, err := f.Stat()
		if err != nil {
			return fail("read "+name, err)
		}
		if n != before.Size() || !after.ModTime().Equal(before.ModTime()) || after.Size() != n {
			err := fmt.Errorf("%w: the file changed while it was read", source.ErrContent)
			return &source.Error{Op: "read " + name, Err: err, Transient: true}
		}
		return nil
	})
}

// safe makes the elements of a path safe.
func safe(name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = source.SafeName(parts[i])
	}
	return strings.Join(parts, "/")
}
