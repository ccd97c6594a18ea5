package durable

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range list {
		all = append(all, one.Name())
	}
	return all
}

// TestReplace replaces a file. What a crash or another program left under the temporary name is not written through.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	name, outside := filepath.Join(dir, "f"), filepath.Join(t.TempDir(), "outside")
	for _, leave := range []func() error{
		func() error { return nil },
		func() error { return os.WriteFile(name+".new", []byte("half and more"), 0o644) },
		func() error { return os.Mkdir(name+".new", 0o700) },
		func() error { return errors.Join(os.WriteFile(outside, nil, 0o600), os.Symlink(outside, name+".new")) },
		func() error {
			return errors.Join(os.Remove(outside), os.WriteFile(outside, nil, 0o600), os.Link(outside, name+".new"))
		},
	} {
		if err := leave(); err != nil {
			t.Fatal(err)
		}
		if err := Replace(name, []byte("text")); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		info, err2 := os.Stat(name)
		if err != nil || err2 != nil || string(got) != "text" || info.Mode() != 0o600 || len(names(t, dir)) != 1 {
			t.Errorf("got %q, %v, %v, %v", got, names(t, dir), err, err2)
		}
	}
	if got, err := os.ReadFile(outside); err != nil || len(got) != 0 {
		t.Errorf("a file elsewhere has %q, %v", got, err)
	}
}

// TestFailures leave the old file alone, and nothing beside it.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := ReplaceIn(root, "f", []byte("old")); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("no")
	f := File{Root: root, Name: "f"}
	for want, write := range map[error]func() error{
		failed:         func() error { return f.Write(func(*os.File) error { return failed }) },
		fs.ErrExist:    func() error { return File{Root: root, Name: "f", New: true}.Write(Text([]byte("new"))) },
		fs.ErrNotExist: func() error { return ReplaceIn(root, "none/f", nil) },
		os.ErrClosed:   func() error { return f.Write(func(f *os.File) error { return f.Close() }) },
	} {
		if err := write(); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		got, err := os.ReadFile(filepath.Join(dir, "f"))
		if err != nil || string(got) != "old" || len(names(t, dir)) != 1 {
			t.Errorf("after %v: %q, %v, %v", want, got, names(t, dir), err)
		}
	}
	g := File{Root: root, Name: "g", Temporary: "part", Mode: 0o640, New: true}
	if err := g.Write(Text([]byte("new"))); err != nil || len(names(t, dir)) != 2 {
		t.Errorf("the control: %v, %v", names(t, dir), err)
	}
}

// TestEarly writes a file of several steps, with writes of sizes that do not divide them.
func TestEarly(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("0123456"), 2*earlyStep/7+1)
	e := Early{File: f}
	for part := range slices.Chunk(text, 100_003) {
		if n, err := e.Write(part); n != len(part) || err != nil {
			t.Fatalf("got %d, %v", n, err)
		}
	}
	if e.begun < earlyStep || e.begun > int64(len(text)) {
		t.Errorf("the system was asked for %d of %d bytes", e.begun, len(text))
	}
	if err := errors.Join(e.Sync(), e.Close()); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, text) {
		t.Errorf("the file has %d other bytes, %v", len(got), err)
	}
	if n, err := e.Write(text); n != 0 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed file: %d, %v", n, err)
	}
}
