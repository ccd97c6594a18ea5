package secretfile_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/internal/secretfile"
)

func TestRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := secretfile.Read(name); !os.IsNotExist(err) {
		t.Errorf("got %v", err)
	}
	write(" hush\r\n", 0o600)
	if text, err := secretfile.Read(name); text != " hush" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o602} {
		write("hush", mode)
		if _, err := secretfile.Read(name); err == nil || !strings.Contains(err.Error(), "chmod 600") ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%#o: got %v", mode, err)
		}
	}
	write(" \n", 0o400)
	if _, err := secretfile.Read(name); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("got %v", err)
	}
}

// TestReadLong: a file that is too long is refused, not cut. The control has as many bytes as are allowed.
func TestReadLong(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key")
	for size, fine := range map[int]bool{64 << 10: true, 64<<10 + 1: false} {
		if err := os.WriteFile(name, bytes.Repeat([]byte("s"), size), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, read := range []func(string) (string, error){secretfile.Read, secretfile.ReadMounted} {
			text, err := read(name)
			if fine && (err != nil || len(text) != size) || !fine && (err == nil || text != "" ||
				strings.Contains(err.Error(), "ss")) {
				t.Errorf("%d bytes: got %d, %v", size, len(text), err)
			}
		}
	}
}

// TestReadMounted: files as Docker and systemd mount them are accepted; those that others may write, or that belong to
// another user, are not.
func TestReadMounted(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(name, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, fine := range map[os.FileMode]bool{
		0o400: true, 0o600: true, 0o440: true, 0o444: true, 0o640: true, 0o644: true,
		0o620: false, 0o602: false, 0o664: false, 0o666: false,
	} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		switch text, err := secretfile.ReadMounted(name); {
		case fine && (text != "hush" || err != nil):
			t.Errorf("%#o: got %q, %v", mode, text, err)
		case !fine && (err == nil || !strings.Contains(err.Error(), "chmod 600") ||
			strings.Contains(err.Error(), "hush")):
			t.Errorf("%#o: got %q, %v", mode, text, err)
		}
		_, err := secretfile.Read(name)
		if strict := mode&0o077 == 0; (err == nil) != strict {
			t.Errorf("%#o: the strict rule gives %v", mode, err)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("only root gives files to other users")
	}
	for mode, fine := range map[os.FileMode]bool{0o444: false, 0o400: true} {
		if err := errors.Join(os.Chmod(name, mode), os.Chown(name, 4711, 4711)); err != nil {
			t.Fatal(err)
		}
		if _, err := secretfile.ReadMounted(name); (err == nil) != fine ||
			!fine && !strings.Contains(err.Error(), "belongs to user 4711") {
			t.Errorf("%#o of another user: %v", mode, err)
		}
	}
}

// TestExposed: a file that every user may read is exposed where every user can enter the directories.
func TestExposed(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "secrets")
	name := filepath.Join(dir, "key")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(name, []byte("hush"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(name, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(root, 0o755), os.Chmod(filepath.Dir(root), 0o755)); err != nil {
		t.Fatal(err)
	}
	above := true // all directories above can be entered by every user
	for up := root; up != filepath.Dir(up); up = filepath.Dir(up) {
		info, err := os.Stat(up)
		if err != nil {
			t.Fatal(err)
		}
		above = above && info.Mode().Perm()&1 != 0
	}
	for _, c := range []struct {
		file, dir os.FileMode
		exposed   bool
	}{
		{0o444, 0o755, true}, {0o644, 0o711, true}, {0o444, 0o700, false}, {0o440, 0o755, false}, {0o400, 0o755, false},
		{0o444, 0o750, false},
	} {
		if err := errors.Join(os.Chmod(name, c.file), os.Chmod(dir, c.dir)); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{name, filepath.Join(root, "link")} {
			got := secretfile.Exposed(filepath.Join(root, "missing"), name)
			if want := c.exposed && above; (len(got) == 1) != want || want && !strings.Contains(got[0], name) {
				t.Errorf("%#o in %#o: %q", c.file, c.dir, got)
			}
		}
	}
	if !above {
		t.Skip("not every user can enter the directory of the tests: no file in it is exposed")
	}
}
