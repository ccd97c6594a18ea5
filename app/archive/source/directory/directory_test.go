package directory_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/source/directory"
	"github.com/stagepost/stagepost/app/archive/source/sourcetest"
)

var past = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// tree makes files with a fixed time. Directories are made as needed.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, body := range files {
		full := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(full, past, past); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func open(t testing.TB, root string) *directory.Source {
	t.Helper()
	s, err := directory.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// activity is the one of the course "c".
var activity = source.Activity{Course: "c", ID: "c", Module: directory.Module, Name: "c"}

var small = map[string]string{
	"c/a.txt": "alpha", "c/a:b.txt": "colon", "c/a_b.txt": "underscore", "c/sub/x": "in a directory", "c/empty": "",
	"c/ü/100 %.txt": "percent", "c/u\u0308/same": "composed", "c/no\xffutf8": "bytes", "c/A.TXT": "upper case",
	"c/.hidden": "with a dot", "other/z": "of another course",
}

func TestContract(t *testing.T) {
	sourcetest.Run(t, func(t testing.TB) sourcetest.Fixture {
		root := tree(t, small)
		s := open(t, root)
		left := 0
		s.OnRead(func(string) bool { left--; return left == 0 }, syscall.EIO)
		return sourcetest.Fixture{
			Source: s, Course: "c",
			Change: func(t testing.TB) { write(t, filepath.Join(root, "c/sub/x"), "changed", past) },
			Other: func(t testing.TB) {
				write(t, filepath.Join(root, "other/z"), "changed", past.Add(time.Hour))
				if err := os.Chmod(filepath.Join(root, "c/a.txt"), 0o644); err != nil {
					t.Fatal(err)
				}
			},
			Break: func(n int) func() bool {
				left = n
				return func() bool { reached := left <= 0; left = 0; return reached }
			},
		}
	})
}

func write(t testing.TB, name, body string, at time.Time) {
	t.Helper()
	if err := os.WriteFile(name, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name, at, at); err != nil {
		t.Fatal(err)
	}
}

// TestNames: names that are equal once they are safe stay apart (B17), and each name has the content of its file.
func TestNames(t *testing.T) {
	s, out := open(t, tree(t, small)), &sourcetest.Out{}
	p, err := sourcetest.Archive(t.Context(), s, activity, out)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"files/A.TXT": "upper case", "files/a-2.txt": "alpha", "files/a_b.txt": "colon",
		"files/a_b-2.txt": "underscore", "files/no_utf8": "bytes", "files/hidden": "with a dot",
		"files/ü/100 _.txt": "percent", "files/ü/same": "composed", "files/sub/x": "in a directory",
		"files/empty": "",
	} {
		if got := out.Body(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	for name, raw := range map[string]string{"files/no_utf8": "no\xffutf8", "files/ü/100 _.txt": ""} {
		if got := out.Origin(name); string(got.Raw) != raw {
			t.Errorf("%s: the bytes of its name are %q, want %q", name, got.Raw, raw)
		}
	}
	if len(out.Names()) != 10 || len(p.Items) != 10 || len(p.Warnings) != 0 {
		t.Errorf("got %q, %q", out.Names(), p.Warnings)
	}
	if o := out.Origin("files/sub/x"); !o.Modified.Equal(past) || o.Name != "sub/x" {
		t.Errorf("got %+v", o)
	}
	if o := out.Origin("files/a_b.txt"); o.Name != "a:b.txt" { // what files.csv has
		t.Errorf("the original name is lost: %+v", o)
	}
}

// TestFingerprints has each change of a tree; the control is a tree without one.
func TestFingerprints(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(dir string) error
		changes bool
	}{
		"nothing":      {func(string) error { return nil }, false},
		"read":         {func(d string) error { _, err := os.ReadFile(d + "/a.txt"); return err }, false},
		"mode":         {func(d string) error { return os.Chmod(d+"/a.txt", 0o640) }, false},
		"directory":    {func(d string) error { return os.Mkdir(d+"/new", 0o700) }, false},
		"content":      {func(d string) error { return os.WriteFile(d+"/a.txt", []byte("other"), 0o600) }, true},
		"size":         {func(d string) error { return os.Truncate(d+"/a.txt", 2) }, true},
		"time":         {func(d string) error { return os.Chtimes(d+"/a.txt", past, past.Add(1)) }, true},
		"new file":     {func(d string) error { return os.WriteFile(d+"/new", nil, 0o600) }, true},
		"deleted":      {func(d string) error { return os.Remove(d + "/empty") }, true},
		"renamed":      {func(d string) error { return os.Rename(d+"/a.txt", d+"/b.txt") }, true},
		"moved":        {func(d string) error { return os.Rename(d+"/a.txt", d+"/sub/a.txt") }, true},
		"special file": {func(d string) error { return os.Symlink("a.txt", d+"/link") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t, small)
			s := open(t, root)
			before, err := s.Fingerprint(t.Context(), activity)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.change(filepath.Join(root, "c")); err != nil {
				t.Fatal(err)
			}
			after, err := s.Fingerprint(t.Context(), activity)
			if err != nil || (after != before) != c.changes {
				t.Errorf("changed: %t, %v", after != before, err)
			}
		})
	}
}

// TestSpecialFiles: links, pipes and sockets are left out with a warning, and never opened.
func TestSpecialFiles(t *testing.T) {
	root := tree(t, map[string]string{"c/file": "content", "secret": "outside the course"})
	dir := filepath.Join(root, "c")
	outside := t.TempDir()
	for name, to := range map[string]string{
		"link": "file", "out": "../secret", "absolute": filepath.Join(root, "secret"), "broken": "gone", "dir": outside,
		"loop": "loop",
	} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir) // the path of a socket is short
	socket, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	s, out := open(t, root), &sourcetest.Out{}
	p, err := sourcetest.Archive(t.Context(), s, activity, out)
	if err != nil {
		t.Fatal(err)
	}
	if got := out.Names(); !slices.Equal(got, []string{"files/file"}) || len(p.Warnings) != 8 {
		t.Errorf("got %q, %q", got, p.Warnings)
	}
}

// TestReplaced: a file that became something else after the plan is an error that stays.
func TestReplaced(t *testing.T) {
	for name, replace := range map[string]func(file string) error{
		"pipe":      func(f string) error { return syscall.Mkfifo(f, 0o600) },
		"link":      func(f string) error { return os.Symlink("../other/z", f) },
		"directory": func(f string) error { return os.Mkdir(f, 0o700) },
		"nothing":   func(string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t, map[string]string{"c/file": "content", "other/z": "secret"})
			s := open(t, root)
			p, err := s.Plan(t.Context(), activity, source.Settings{})
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(root, "c/file")
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if err := replace(file); err != nil {
				t.Fatal(err)
			}
			out := &sourcetest.Out{}
			err = s.Fetch(t.Context(), activity, p.Items[0], source.Settings{}, out)
			var e *source.Error
			if !errors.As(err, &e) || e.Temporary() || len(out.Names()) != 0 {
				t.Errorf("got %v, %q", err, out.Names())
			}
		})
	}
}

// TestChanging: a file that changes while it is read is not kept, and the error passes. Without a change it is kept.
func TestChanging(t *testing.T) {
	for name, c := range map[string]struct {
		change func(file string) error
		kept   bool
	}{
		"unchanged": {func(string) error { return nil }, true},
		"replaced":  {func(f string) error { return os.Rename(f+".new", f) }, true}, // the open file is read to its end
		"longer":    {func(f string) error { return appendTo(f, "more") }, false},
		"shorter":   {func(f string) error { return os.Truncate(f, 3) }, false},
		"rewritten": {func(f string) error { return os.WriteFile(f, []byte("CONTENT"), 0o600) }, false},
		"touched":   {func(f string) error { return os.Chtimes(f, past, past.Add(time.Second)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t, map[string]string{"c/file": "content", "c/file.new": "newer"})
			s := open(t, root)
			p, err := s.Plan(t.Context(), activity, source.Settings{})
			if err != nil {
				t.Fatal(err)
			}
			done := false
			s.OnRead(func(string) bool {
				if !done {
					done = true
					if err := c.change(filepath.Join(root, "c/file")); err != nil {
						t.Error(err)
					}
				}
				return false
			}, nil)
			out := &sourcetest.Out{}
			err = s.Fetch(t.Context(), activity, p.Items[0], source.Settings{}, out)
			if c.kept {
				if err != nil || out.Body("files/file") != "content" {
					t.Errorf("got %v, %q", err, out.Body("files/file"))
				}
				return
			}
			var e *source.Error
			if !errors.Is(err, source.ErrContent) || !errors.As(err, &e) || !e.Temporary() || len(out.Names()) != 0 {
				t.Errorf("got %v, %q", err, out.Names())
			}
		})
	}
}

func appendTo(name, text string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// TestUnreadable: a file or directory without the right to read it is an error that stays and names it.
func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		s := open(t, tree(t, small)) // root reads all files: the error comes from the reader
		s.OnRead(func(name string) bool { return name == "c/a.txt" }, &os.PathError{Op: "read", Err: syscall.EACCES})
		_, err := sourcetest.Archive(t.Context(), s, activity, &sourcetest.Out{})
		unreadable(t, err, "c/a.txt")
		return
	}
	for _, name := range []string{"c/a.txt", "c/sub"} {
		root := tree(t, small)
		if err := os.Chmod(filepath.Join(root, name), 0); err != nil {
			t.Fatal(err)
		}
		_, err := sourcetest.Archive(t.Context(), open(t, root), activity, &sourcetest.Out{})
		unreadable(t, err, name)
		_ = os.Chmod(filepath.Join(root, name), 0o700)
	}
}

func unreadable(t *testing.T, err error, name string) {
	t.Helper()
	var e *source.Error
	if !errors.As(err, &e) || e.Temporary() || !strings.Contains(err.Error(), name) {
		t.Errorf("%s: got %v", name, err)
	}
}

// TestCourses: only directories below the root are courses.
func TestCourses(t *testing.T) {
	root := tree(t, map[string]string{"b/x": "", "a/x": "", ".hidden/x": "", "file": "", "a/sub/x": "", "no\xff/x": ""})
	if err := os.Symlink("a", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	s := open(t, root)
	all, err := s.Courses(t.Context(), nil)
	if err != nil || len(all) != 2 || all[0].ID != "a" || all[1].ID != "b" {
		t.Errorf("got %+v, %v", all, err)
	}
	for _, id := range []string{
		"file", ".hidden", "link", "gone", "..", ".", "", "a/sub", "../" + filepath.Base(root), "no\xff", `a\b`, "/etc",
	} {
		if _, err := s.Courses(t.Context(), []string{id}); err == nil {
			t.Errorf("%q is a course", id)
		}
		if _, err := s.Activities(t.Context(), id); err == nil {
			t.Errorf("%q has activities", id)
		}
	}
	if _, err := directory.Open(filepath.Join(root, "gone")); err == nil {
		t.Error("a root that is missing is opened")
	}
}

// TestRootGone: a root that is gone is an error of Check.
func TestRootGone(t *testing.T) {
	root := tree(t, small)
	s := open(t, root)
	if _, err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Check(t.Context()); err == nil {
		t.Error("a closed root is in order")
	}
	if _, err := s.Courses(context.Background(), nil); err == nil {
		t.Error("a closed root has courses")
	}
}
