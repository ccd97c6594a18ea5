package storage_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/edge/storage"
	"github.com/stagepost/stagepost/edge/storage/storagetest"
)

func openDir(t *testing.T) (*storage.Dir, string) {
	t.Helper()
	name := t.TempDir()
	d, err := storage.OpenDir(name, storage.Local)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, name
}

func TestDir(t *testing.T) {
	d, name := openDir(t)
	storagetest.Run(t, d, 3<<20)
	err := filepath.WalkDir(name, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s is left", path)
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if want := fs.FileMode(0o440); !e.IsDir() && info.Mode().Perm() != want {
			t.Errorf("%s has the mode %s", path, info.Mode())
		}
		if path != name && e.IsDir() && info.Mode().Perm()&0o027 != 0 {
			t.Errorf("%s has the mode %s", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(name, "gone/a/b")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty directory is left: %v", err)
	}
}

// TestDirMissing: a directory whose file system is not mounted is no location.
func TestDirMissing(t *testing.T) {
	_, err := storage.OpenDir(filepath.Join(t.TempDir(), "none"), storage.Local)
	var e *storage.Error
	if !errors.As(err, &e) || !e.Temporary() || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestDirLinks: a symbolic link in the directory leads nowhere else.
func TestDirLinks(t *testing.T) {
	d, name := openDir(t)
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(name, "out")); err != nil {
		t.Fatal(err)
	}
	b := []byte("x")
	if err := d.Put(t.Context(), "out/a", bytes.NewReader(b), storagetest.Of(b), nil); err == nil {
		t.Error("stored through a link")
	}
	if list, err := os.ReadDir(outside); err != nil || len(list) != 0 {
		t.Errorf("got %v, %v", list, err)
	}
}

// TestDirPart: what an interrupted write left is no obstacle.
func TestDirPart(t *testing.T) {
	d, name := openDir(t)
	b := storagetest.Bytes(1000, 1)
	storagetest.Put(t, d, "a/x", b)
	var left string
	for _, kind := range []string{"half", "whole"} {
		if err := d.Delete(t.Context(), "a/x"); err != nil {
			t.Fatal(err)
		}
		if left == "" {
			left = filepath.Join(name, storage.PartOf("a/x"))
		}
		content := map[string][]byte{"half": b[:500], "whole": b}[kind]
		if err := errors.Join(os.MkdirAll(filepath.Dir(left), 0o750), os.WriteFile(left, content, 0o600)); err != nil {
			t.Fatal(err)
		}
		storagetest.Missing(t, d, "a/x")
		storagetest.Put(t, d, "a/x", b)
		if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the part is left: %v", kind, err)
		}
	}
}

// TestDirPartOfStored: a process that crashes at the end of a write leaves the file under both names. The repetition
// removes the part.
func TestDirPartOfStored(t *testing.T) {
	d, name := openDir(t)
	b := storagetest.Bytes(1000, 1)
	storagetest.Put(t, d, "a/x", b)
	left := filepath.Join(name, storage.PartOf("a/x"))
	if err := os.Link(filepath.Join(name, "a/x"), left); err != nil {
		t.Fatal(err)
	}
	storagetest.Put(t, d, "a/x", b)
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the part is left: %v", err)
	}
}
