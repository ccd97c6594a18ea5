package packaging

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"
	"path"
	"time"

	"github.com/stagepost/stagepost/internal/durable"
)

// disk are the operations that change the directory of a package. All writes use them, so that a test can stop before
// and after each one. Names are relative, with slashes.
type disk interface {
	Mkdir(name string) error
	Create(name string) (file, error) // refuses an existing name
	Rename(from, to string) error
	RemoveAll(name string) error
	SyncDir(name string) error
}

// file is a file that is being written.
type file interface {
	io.Writer
	Sync() error
	Close() error
}

// rootDisk is a disk in a directory.
type rootDisk struct{ root *os.Root }

func (d rootDisk) Mkdir(name string) error { return d.root.Mkdir(name, 0o700) }

func (d rootDisk) Create(name string) (file, error) {
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &durable.Early{File: f}, nil
}

func (d rootDisk) Rename(from, to string) error { return d.root.Rename(from, to) }

func (d rootDisk) RemoveAll(name string) error { return d.root.RemoveAll(name) }

func (d rootDisk) SyncDir(name string) error {
	f, err := d.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// transient is a disk for files that no crash leaves in use: it does not sync them.
type transient struct{ disk }

func (t transient) Create(name string) (file, error) {
	f, err := t.disk.Create(name)
	if err != nil {
		return nil, err
	}
	return unsynced{f}, nil
}

type unsynced struct{ file }

func (unsynced) Sync() error { return nil }

// written is a generated file that is being written: its size and digests so far.
type written struct {
	file
	name string
	size int64
	sums [2]hash.Hash // SHA-256, SHA-512
}

func create(d disk, name string) (*written, error) {
	f, err := d.Create(name)
	if err != nil {
		return nil, err
	}
	return &written{file: f, name: name, sums: [2]hash.Hash{sha256.New(), sha512.New()}}, nil
}

func (w *written) Write(b []byte) (int, error) {
	n, err := w.file.Write(b)
	w.size += int64(n)
	for _, s := range w.sums {
		s.Write(b[:n])
	}
	return n, err
}

// entry is the finished file as one of the package.
func (w *written) entry(name string) entry {
	return entry{name: name, size: w.size, sha256: hex.EncodeToString(w.sums[0].Sum(nil)),
		sha512: hex.EncodeToString(w.sums[1].Sum(nil)), made: w.name}
}

// generate writes a file below a directory, through a buffer.
func generate(d disk, dir, name string, fill func(io.Writer) error) (entry, error) {
	w, err := create(d, path.Join(dir, path.Base(name)))
	if err != nil {
		return entry{}, err
	}
	buffered := buffer(w)
	err = fill(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		err = w.Sync()
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return entry{}, err
	}
	return w.entry(name), nil
}

// replace writes a small file so that after a crash it is there whole or not at all.
func replace(d disk, name string, text []byte) error {
	part := name + ".new"
	if err := d.RemoveAll(part); err != nil {
		return err
	}
	f, err := d.Create(part)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := d.Rename(part, name); err != nil {
		return err
	}
	return d.SyncDir(".")
}

// epoch is the time of every file in a container: the earliest that ZIP files can have.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
