// Package secretfile reads files that hold a password, a token or a key.
package secretfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// most is how many bytes a file has at most.
const most = 64 << 10

// Bits of modes.
const (
	beyondOwner  = 0o077
	writeByOther = 0o022
	readByOthers = 0o004
	entryOfOther = 0o001
)

// Read returns the text of a file without the newlines at its end. A regular file that others than its owner may
// read is refused, and so is one without text or with more than 64 KiB. No error contains the text.
func Read(name string) (string, error) {
	return read(name, func(info fs.FileInfo) error {
		return fmt.Errorf("%s has the mode %#o: only its owner may read it (chmod 600)", name, info.Mode().Perm())
	})
}

// ReadMounted is as [Read], but accepts files as Docker and systemd mount secrets (0444, 0440): a file that others may
// read and not write, if it belongs to root or to the user of the process. [Exposed] reports which other users read it.
func ReadMounted(name string) (string, error) {
	return read(name, func(info fs.FileInfo) error {
		if info.Mode().Perm()&writeByOther != 0 {
			return fmt.Errorf("%s has the mode %#o: only its owner may write it (chmod 600)", name,
				info.Mode().Perm())
		}
		if uid, ok := owner(info); !ok || uid != 0 && uid != os.Geteuid() {
			return fmt.Errorf("%s has the mode %#o and belongs to user %d: only its owner may read it (chmod 600), or "+
				"it belongs to root or to the user of this process", name, info.Mode().Perm(), uid)
		}
		return nil
	})
}

// read reads a file. The function decides about a regular file that others than its owner may use.
func read(name string, shared func(fs.FileInfo) error) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&beyondOwner != 0 {
		if err := shared(info); err != nil {
			return "", err
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return "", err
	}
	if len(text) > most {
		return "", fmt.Errorf("%s has more than %d KiB: it is no file of a secret", name, most>>10)
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if strings.TrimSpace(secret) == "" {
		return "", fmt.Errorf("%s is empty", name)
	}
	return secret, nil
}

// Exposed returns a warning for each file that every user of the machine can read: its mode allows it, and each
// directory above it can be entered. Files that cannot be examined get none: their readers report them.
func Exposed(names ...string) (warnings []string) {
	for _, name := range names {
		if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&readByOthers == 0 {
			continue
		}
		path, err := filepath.EvalSymlinks(name)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err == nil && entered(filepath.Dir(path)) {
			warnings = append(warnings, fmt.Sprintf("every user of this machine can read the secret file %s: "+
				"chmod o-r %s, or chmod o-x %s", name, name, filepath.Dir(path)))
		}
	}
	return warnings
}

// entered reports whether every user can enter a directory.
func entered(dir string) bool {
	for {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&entryOfOther == 0 {
			return false
		}
		above := filepath.Dir(dir)
		if above == dir {
			return true
		}
		dir = above
	}
}
