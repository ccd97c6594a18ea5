//go:build linux

package power_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stagepost/stagepost/store/crash/power"
)

func TestMain(m *testing.M) {
	power.Main()
	os.Exit(m.Run())
}

// Only what was synced survives, names apart from contents.
func TestOnlySyncedSurvives(t *testing.T) {
	d := power.Mount(t, power.Options{Every: true})
	write := func(name string) *os.File {
		f, err := os.Create(filepath.Join(d.Dir, name))
		if err == nil {
			_, err = f.WriteString("content")
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	sync := func(name string) {
		f, err := os.Open(filepath.Join(d.Dir, name))
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(d.Dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"nothing", "name", "content", "both", "renamed", "sub/file", "written on"} {
		write(name)
	}
	for _, name := range []string{"content", "both", "renamed", "sub/file", "written on"} {
		sync(name)
	}
	if err := os.Remove(filepath.Join(d.Dir, "nothing")); err != nil {
		t.Fatal(err)
	}
	if got := power.Lost(t, d.Dir, d.Image(t)); len(got) != 7 { // 6 files and a directory: no name is on the disk
		t.Errorf("lost before the directory was synced: %q", got)
	}
	sync(".")
	f, err := os.OpenFile(filepath.Join(d.Dir, "written on"), os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString(", more")
		err = errors.Join(err, f.Close(), os.Rename(filepath.Join(d.Dir, "renamed"), filepath.Join(d.Dir, "new name")))
	}
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/name", "/new name", "/sub/file", "/written on"}
	image := d.Image(t)
	if got := power.Lost(t, d.Dir, image); !slices.Equal(got, want) {
		t.Errorf("lost %q, want %q", got, want)
	}
	for name, content := range map[string]string{"both": "content", "content": "content", "name": "",
		"renamed": "content", "written on": "content"} {
		if text, err := os.ReadFile(filepath.Join(image, name)); err != nil || string(text) != content {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if images := d.Images(t); len(images) != 6 {
		t.Errorf("%d images, want one for each sync", len(images))
	}
}

// A sync that is ignored does nothing: the control of other tests.
func TestIgnore(t *testing.T) {
	d := power.Mount(t, power.Options{Ignore: []string{"*.txt"}})
	for _, name := range []string{"a.txt", "b"} {
		f, err := os.Create(filepath.Join(d.Dir, name))
		if err == nil {
			_, err = f.WriteString("content")
			err = errors.Join(err, f.Sync(), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.Open(d.Dir)
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := power.Lost(t, d.Dir, d.Image(t)); !slices.Equal(got, []string{"/a.txt"}) {
		t.Errorf("lost %q", got)
	}
}

// With Names, a name is on the disk at once and its content is not: what was renamed before its sync is empty.
func TestNames(t *testing.T) {
	d := power.Mount(t, power.Options{Every: true, Names: true})
	old, name := filepath.Join(d.Dir, "old"), filepath.Join(d.Dir, "name")
	f, err := os.Create(old)
	if err == nil {
		_, err = f.WriteString("content")
		err = errors.Join(err, os.Rename(old, name), f.Sync(), os.Remove(name), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	images := d.Images(t)
	if len(images) != 3 {
		t.Fatalf("%d images, want one before the rename, the sync and the removal", len(images))
	}
	for i, want := range []map[string]string{{"old": ""}, {"name": ""}, {"name": "content"}} {
		entries, err := os.ReadDir(images[i])
		if err != nil || len(entries) != 1 {
			t.Fatalf("image %d: %v, %v", i, entries, err)
		}
		for name, content := range want {
			if text, err := os.ReadFile(filepath.Join(images[i], name)); err != nil || string(text) != content {
				t.Errorf("image %d, %s: %q, %v", i, name, text, err)
			}
		}
	}
}
