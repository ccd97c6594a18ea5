package stores

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// FilesName is the file with the id of a directory whose files the records of a shared store refer to.
const FilesName = cli.SharedFile

// registry keeps the id of the directory of files beside the records.
type registry interface {
	Installation() string
	Files(ctx context.Context) (id string, err error)
	RegisterFiles(ctx context.Context, id string) (registered string, err error)
}

// sameFiles compares the directory of files with the one that the store belongs to. The first server of a store
// gives its directory the id of the installation and registers it: a directory with another id has the files of another
// store, which this one would remove as orphans. A directory without an id belongs to no store: it may be the mount
// point of a file system that is not mounted.
func sameFiles(ctx context.Context, o *Options, of registry) error {
	registered, err := of.Files(ctx)
	if err != nil {
		return err
	}
	name := filepath.Join(o.Files, FilesName)
	id, err := readID(name)
	switch {
	case err != nil:
		return err
	case registered == "" && o.Existing:
		return job.Errorf(job.NotFound, cli.NoStore, "", "no server has used the database of the setting store yet")
	case registered == "" && id == "":
		if id, err = makeID(name, of.Installation()); err != nil {
			return err
		}
	}
	if registered == "" && id != of.Installation() {
		return job.Errorf(job.Refused, "open", "", "%s has the files of another store (its %s is %s), and no server "+
			"has used the database of the setting store yet: correct the setting store or shared, or remove %s if no "+
			"store has these files any more", o.Files, FilesName, id, name)
	}
	if registered == "" {
		if registered, err = of.RegisterFiles(ctx, id); err != nil {
			return err
		}
	}
	const remedy = "mount the directory that the other servers of the store use, and name it with the setting shared"
	switch id {
	case registered:
		return nil
	case "":
		return job.Errorf(job.Refused, "open", "", "%s has no file %s, and the jobs of the store have their "+
			"files in another directory: %s", o.Files, FilesName, remedy)
	}
	return job.Errorf(job.Refused, "open", "", "%s has the files of another store (its %s is %s, that of the "+
		"store is %s): %s", o.Files, FilesName, id, registered, remedy)
}

// readID reads the id of a directory; "" if it has none.
func readID(name string) (string, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

// makeID gives a directory an id. Of several servers that do so at once, all get the same.
func makeID(name, id string) (string, error) {
	part := name + "." + strings.ToLower(rand.Text())
	if err := durable.Replace(part, []byte(id+"\n")); err != nil {
		return "", err
	}
	err := os.Link(part, name) // a link does not replace
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err = errors.Join(err, os.Remove(part), durable.Sync(filepath.Dir(name))); err != nil {
		return "", err
	}
	return readID(name)
}

// SameFiles refuses a directory whose files belong to another store than one that a migration reads.
func (s *Store) SameFiles(ctx context.Context, dir string) error {
	if s.Files == nil {
		return nil // they are where the store is
	}
	registered, err := s.Files(ctx)
	if err != nil || registered == "" {
		return err
	}
	id, err := readID(filepath.Join(dir, FilesName))
	if err == nil && id != registered {
		err = job.Errorf(job.Refused, "migrate", "", "%s has no files of the store: its %s is not %s; name the "+
			"directory of the setting shared with --data", dir, FilesName, registered)
	}
	return err
}

// TakeFiles makes a directory the one with the files of a store that a migration has written. It may be repeated.
func (s *Store) TakeFiles(ctx context.Context, dir string) error {
	name := filepath.Join(dir, FilesName)
	if s.Files == nil { // the store is in the directory, and no other one has its files
		err := os.Remove(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return errors.Join(err, durable.Sync(dir))
	}
	id, err := readID(name)
	if err == nil && id == "" {
		id, err = makeID(name, strings.ToLower(rand.Text()))
	}
	if err != nil {
		return err
	}
	return s.SetFiles(ctx, id)
}
