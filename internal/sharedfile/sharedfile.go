// Package sharedfile keeps small text files that decide who may do what: several processes, also on several machines
// with a shared file system, read them and edit them one at a time.
package sharedfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stagepost/stagepost/internal/durable"
)

// most is how many bytes a file may have.
const most = 16 << 20

// Read returns the text of a file that its group cannot write to and others cannot read.
func Read(name string) ([]byte, error) {
	text, _, err := read(name)
	return text, err
}

func read(name string) ([]byte, fs.FileInfo, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	stat, err := f.Stat() // of what is read, not of the name
	if err != nil {
		return nil, nil, err
	}
	if !stat.Mode().IsRegular() {
		return nil, stat, fmt.Errorf("%s is not a regular file", name)
	}
	if stat.Mode().Perm()&0o027 != 0 {
		return nil, stat, fmt.Errorf("%s has the mode %#o: its group must not write to it and others must "+
			"not read it (chmod 600)", name, stat.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("%s is larger than %d bytes", name, most)
	}
	return text, stat, err
}

// Unfinished is the name of a file while it is edited, in the same directory.
func Unfinished(base string) string { return "." + base + ".new" }

// Edit changes a file, whole or not at all, on the disk when it returns: what was revoked in it does not come back with
// a power cut. Concurrent edits of files in one directory wait for each other. change gets the text, empty if the file
// is missing; its error leaves the file as it is. check refuses a text that the readers of the file would refuse,
// before the change and after it.
func Edit(name string, check func([]byte) error, change func([]byte) ([]byte, error)) (err error) {
	unlock, err := lock(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	text, err := Read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		if err := check(text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if text, err = change(text); err != nil {
		return err
	}
	if err := check(text); err != nil {
		return err
	}
	return rewrite(name, text)
}

// AppendLine appends a line to a text, after a last line that has no end.
func AppendLine(text []byte, line string) []byte {
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	return append(text, line+"\n"...)
}

// rewrite replaces a file. It keeps its owner, group and mode: a service can still read it when another user, such as
// root, edits it. A new file has mode 0600; a file that root makes belongs to the owner of its directory.
func rewrite(name string, text []byte) error {
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer root.Close()
	base := filepath.Base(name)
	// one edit at a time: the next one removes what a killed one left
	err = durable.File{Root: root, Name: base, Temporary: Unfinished(base)}.Write(func(f *os.File) error {
		_, err := f.Write(text)
		return errors.Join(err, keepOwner(f, name))
	})
	if errors.Is(err, fs.ErrPermission) { // its path is relative to the directory
		return fmt.Errorf("%s: %w: this user cannot make files in its directory", name, fs.ErrPermission)
	}
	return err
}

// lock prevents other edits in a directory until the function it returns is called. It ends with its process.
func lock(dir string) (unlock func() error, err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := flock(d); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d.Close, nil
}
