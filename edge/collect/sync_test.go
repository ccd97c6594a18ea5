package collect

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Whatever lies in the directory, a sync comes to its end and leaves what is outside alone.
func TestSync(t *testing.T) {
	for _, files := range []int{3, mostSyncs + 1} {
		name := t.TempDir()
		at := func(parts ...string) string { return filepath.Join(append([]string{name}, parts...)...) }
		err := errors.Join(os.MkdirAll(at("a", "b"), 0o700), syscall.Mkfifo(at("fifo"), 0o600),
			os.Symlink("/nowhere", at("dangling")),
			os.Symlink("/dev/zero", at("outside")), os.WriteFile(at("a", "secret"), []byte("x"), 0))
		for i := range files {
			err = errors.Join(err, os.WriteFile(at("a", "b", fmt.Sprint(i)), []byte("content"), 0o600))
		}
		dir, e := os.OpenRoot(name)
		if err = errors.Join(err, e); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(Sync(dir), dir.Close()); err != nil {
			t.Errorf("%d files: %v", files, err)
		}
	}
}
