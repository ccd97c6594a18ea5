package durable

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// Blobs keeps large values, by job, so that they can be removed with it. Its methods are called by many at once.
type Blobs interface {
	// Put stores a value under its digest, "sha256:" and 64 hexadecimal digits. When it returns nil the value survives
	// the end of the machine. It may be called again.
	Put(ctx context.Context, id job.ID, digest string, content []byte) error
	// Get gives a value, or an error that is fs.ErrNotExist. Whether it has the digest is for the caller to find out.
	Get(ctx context.Context, id job.ID, digest string) ([]byte, error)
	// Remove removes all values of a job.
	Remove(ctx context.Context, id job.ID) error
	// Jobs lists the jobs that have values.
	Jobs(ctx context.Context) ([]job.ID, error)
}

// Blob refers to a large value.
type Blob struct {
	Digest string `json:"blob"` // "sha256:" and 64 hexadecimal digits
	Size   int64  `json:"size"` // bytes, of JSON
}

const digestPrefix = "sha256:"

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return digestPrefix + hex.EncodeToString(sum[:])
}

// Dir is a [Blobs] in a directory: one directory for each job, one file for each value. A file has its name only when
// it is whole and on the disk.
func Dir(path string) Blobs { return dir(path) }

type dir string

var errName = errors.New("it is not a name that can stand in a path")

// jobDir gives the directory of a job.
func (d dir) jobDir(id job.ID) (string, error) {
	if name := string(id); name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\\\x00") {
		return "", fmt.Errorf("job %q: %w", id, errName)
	}
	return filepath.Join(string(d), string(id)), nil
}

func (d dir) file(id job.ID, digest string) (within, name string, err error) {
	if within, err = d.jobDir(id); err != nil {
		return "", "", err
	}
	digits, ok := strings.CutPrefix(digest, digestPrefix)
	if raw, err := hex.DecodeString(digits); !ok || err != nil || len(raw) != sha256.Size {
		return "", "", fmt.Errorf("digest %q: %w", digest, errName)
	}
	return within, filepath.Join(within, "sha256-"+digits), nil
}

// Put is part of [Blobs].
func (d dir) Put(_ context.Context, id job.ID, digest string, content []byte) error {
	within, name, err := d.file(id, digest)
	if err != nil {
		return err
	}
	if info, err := os.Stat(name); err == nil && info.Size() == int64(len(content)) {
		// one that was damaged is replaced: a task that is done again mends it
		if has, err := os.ReadFile(name); err == nil && bytes.Equal(has, content) {
			return d.syncNames(within) // who wrote it may have been killed before that
		}
	}
	if err := os.MkdirAll(within, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(within)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := (durable.File{Root: root, Name: filepath.Base(name),
		Temporary: "new-" + rand.Text()}).Write(durable.Text(content)); err != nil {
		return err
	}
	return errors.Join(durable.Sync(string(d)), durable.Sync(filepath.Dir(string(d))))
}

// syncNames makes the names last that lead to a value: its own, that of its job's directory, which another value may
// have made just now, and that of the directory of all.
func (d dir) syncNames(within string) error {
	return errors.Join(durable.Sync(within), durable.Sync(string(d)), durable.Sync(filepath.Dir(string(d))))
}

// Get is part of [Blobs].
func (d dir) Get(_ context.Context, id job.ID, digest string) ([]byte, error) {
	_, name, err := d.file(id, digest)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(name)
}

// Remove is part of [Blobs].
func (d dir) Remove(_ context.Context, id job.ID) error {
	within, err := d.jobDir(id)
	if err != nil {
		return err
	}
	return os.RemoveAll(within)
}

// Jobs is part of [Blobs].
func (d dir) Jobs(context.Context) ([]job.ID, error) {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var ids []job.ID
	for _, e := range entries {
		if e.IsDir() {
			ids = append(ids, job.ID(e.Name()))
		}
	}
	return ids, err
}

// Tidy removes the large values of jobs that no longer exist, and reports how many jobs. It may be called at any time,
// by one process of those that share Blobs or by all.
func (f *Flows) Tidy(ctx context.Context, store job.Store) (removed int, err error) {
	if f.o.Blobs == nil {
		return 0, nil
	}
	ids, err := f.o.Blobs.Jobs(ctx)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		switch j, err := store.Get(ctx, id); {
		case job.KindOf(err) == job.NotFound, err == nil && j.Gone:
		case err != nil:
			return removed, err
		default:
			continue
		}
		if err := f.o.Blobs.Remove(ctx, id); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}
