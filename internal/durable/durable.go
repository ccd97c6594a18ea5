// Package durable writes files so that after a crash or a power cut each is there whole or not at all.
package durable

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// File is a file that is written whole or not at all. Concurrent writers of one file need different temporary names.
type File struct {
	Root      *os.Root
	Name      string      // within Root
	Temporary string      // its name until it is whole; defaults to Name with ".new". What has this name is removed
	Mode      fs.FileMode // defaults to 0600
	New       bool        // an existing file is not replaced: the error is [fs.ErrExist]

	// Set syncs the file and its name later, and then the file may have its name before it is on the disk. Its root is
	// Root. Defaults to none: both are synced at once.
	Set *Set
}

// Write calls fill with the file, syncs it, gives it its name and syncs that. After an error the earlier file is still
// there, or the new one, whose name may not outlast a power cut.
func (f File) Write(fill func(*os.File) error) error {
	part := cmp.Or(f.Temporary, f.Name+".new")
	dir := filepath.Dir(f.Name)
	if dir == "." || filepath.Dir(part) != dir {
		return f.write(f.Root, f.Name, part, fill)
	}
	at, err := f.Root.OpenRoot(dir) // os.Root opens each directory on the way for each call
	if err != nil {
		return err
	}
	return errors.Join(f.write(at, filepath.Base(f.Name), filepath.Base(part), fill), at.Close())
}

// write is Write for a name, and a temporary one, below a root.
func (f File) write(at *os.Root, name, part string, fill func(*os.File) error) (err error) {
	file, err := f.create(at, part)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil || f.New {
			_ = at.Remove(part) // the next writer removes it else
		}
	}()
	if err = fill(file); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := f.sync(file); err != nil {
		return err
	}
	give := at.Rename
	if f.New {
		give = at.Link
	}
	if err := give(part, name); err != nil {
		return err
	}
	if f.Set != nil {
		return f.Set.Dir(filepath.Dir(f.Name))
	}
	return SyncIn(at, filepath.Dir(name))
}

// create makes the temporary file. What has its name is removed: a crash left it, or another program placed it.
func (f File) create(at *os.Root, part string) (*os.File, error) {
	for again := false; ; again = true {
		file, err := at.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL|Plain, cmp.Or(f.Mode, 0o600))
		if again || !errors.Is(err, fs.ErrExist) {
			return file, err
		}
		if err := at.RemoveAll(part); err != nil {
			return nil, err
		}
	}
}

// sync syncs and closes the file, now or with the set.
func (f File) sync(file *os.File) error {
	if f.Set == nil {
		return errors.Join(file.Sync(), file.Close())
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	return f.Set.File(file, info.Size())
}

// Replace writes a text to a file of mode 0600, whole or not at all.
func Replace(name string, text []byte) error {
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer root.Close()
	return ReplaceIn(root, filepath.Base(name), text)
}

// ReplaceIn is Replace within a directory.
func ReplaceIn(root *os.Root, name string, text []byte) error {
	return File{Root: root, Name: name}.Write(Text(text))
}

// Text fills a file with a text.
func Text(text []byte) func(*os.File) error {
	return func(f *os.File) error {
		_, err := f.Write(text)
		return err
	}
}

// MkdirAll makes a directory and those above it that are missing, and brings their names to the disk: what is synced
// below a directory whose name is lost is lost with it.
func MkdirAll(dir string, mode fs.FileMode) error {
	err := os.Mkdir(dir, mode)
	if above := filepath.Dir(dir); errors.Is(err, fs.ErrNotExist) && above != dir {
		if err := MkdirAll(above, mode); err != nil {
			return err
		}
		err = os.Mkdir(dir, mode)
	}
	if errors.Is(err, fs.ErrExist) {
		return os.MkdirAll(dir, mode) // an error if it is no directory
	}
	if err != nil {
		return err
	}
	return Sync(filepath.Dir(dir))
}

// Sync brings a file, or the names in a directory, to the disk.
func Sync(name string) error {
	f, err := os.OpenFile(name, os.O_RDONLY|Plain, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// SyncIn is Sync within a directory.
func SyncIn(root *os.Root, name string) error {
	f, err := root.OpenFile(name, os.O_RDONLY|Plain, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
