// Package workdir has the work directories of batches and jobs, the payloads in them, and the trash to which they go.
// A directory belongs to the attempt that has its lock and the newest epoch.
package workdir

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"github.com/stagepost/stagepost/internal/dirlock"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// Names below the data directory.
const (
	WorkName    = "work"
	TrashName   = "trash"
	MailName    = "mail"
	PayloadName = "payload"
	ReportsName = "reports"
)

// Names below a job's work directory.
const (
	ProducerName = "producer" // what the depositor gave
	SystemName   = "system"   // what goes into the object besides; it is in the list of files, not in files of its own
	PackageName  = "package"  // a container, or an object's manifest, as it was handed in
	ListName     = "lists"    // of files, between phases
	PartsName    = "parts"    // unfinished downloads
	LockName     = "lock"     // of the attempt that works here, with its epoch
)

// Tree has the work directories of batches and jobs, and the trash to which they go.
type Tree struct {
	Data      string           // the data directory
	TrashKeep time.Duration    // of what is in the trash; 0: it is removed at once
	Now       func() time.Time // names what goes to the trash
	// the time before which what is older than an age was written, unless time is in doubt
	Before func(time.Duration) (at time.Time, known bool)
}

// Dir is the work directory of a job while one attempt uses it. What the attempt writes is on the disk after Flush.
type Dir struct {
	*os.Root
	lock *os.File
	set  *durable.Set // nil in a view
}

// Open opens a job's work directory for the attempt of an epoch, making it if there is none. dirlock.Err means that
// another attempt is still at it; kind Stale that a later one has been.
func (w *Tree) Open(batch, id job.ID, epoch int64) (*Dir, error) {
	dir := filepath.Join(w.Data, WorkName, string(batch), string(id))
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return nil, err
		}
		root, err = os.OpenRoot(dir)
	}
	if err != nil {
		return nil, err
	}
	d := &Dir{Root: root, set: durable.NewSet(root)}
	if d.lock, err = dirlock.Lock(root, LockName, id, epoch); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if there, err := d.At(dir); err != nil || !there { // it went to the trash between opening and locking
		return nil, errors.Join(dirlock.Err, err, d.Close())
	}
	return d, nil
}

// At reports whether the directory still has the path at which it was opened.
func (d *Dir) At(dir string) (bool, error) {
	here, err := d.Stat(".")
	if err != nil {
		return false, err
	}
	there, err := os.Stat(dir)
	return err == nil && os.SameFile(here, there), IgnoreMissing(err)
}

// View opens a job's work directory for reading, also while an attempt works in it; nil if there is none.
func (w *Tree) View(batch, id job.ID) (*Dir, error) {
	root, err := os.OpenRoot(filepath.Join(w.Data, WorkName, string(batch), string(id)))
	if err != nil {
		return nil, IgnoreMissing(err)
	}
	return &Dir{Root: root}, nil
}

// Close gives the directory back.
func (d *Dir) Close() error {
	var err error
	if d.lock != nil {
		err = d.lock.Close()
	}
	if d.set != nil {
		err = errors.Join(err, d.set.Close())
	}
	return errors.Join(err, d.Root.Close())
}

// Has reports whether a name exists.
func (d *Dir) Has(name string) bool {
	_, err := d.Lstat(name)
	return err == nil
}

// Open opens a file or directory for reading.
func (d *Dir) Open(name string) (*os.File, error) { return open(d.Root, name) }

func open(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, os.O_RDONLY|durable.Plain, 0)
}

// Make makes a directory, and those above it, and reports whether it is new. Its name is on the disk after Flush.
func (d *Dir) Make(name string) (made bool, err error) {
	err = d.Mkdir(name, 0o750)
	above := path.Dir(name)
	if errors.Is(err, fs.ErrNotExist) && above != "." {
		if _, err := d.Make(above); err != nil {
			return false, err
		}
		err = d.Mkdir(name, 0o750)
	}
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, d.set.Dir(above)
}

// Put writes a file so that it appears complete or not at all, and makes its directory. It is on the disk after Flush.
func (d *Dir) Put(name string, write func(w io.Writer) error) error {
	file := durable.File{Root: d.Root, Name: name, Mode: 0o640, Set: d.set}
	err := put(file, write)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if made, err2 := d.Make(path.Dir(name)); !made || err2 != nil { // write did not find something else
		return cmp.Or(err2, err)
	}
	return put(file, write)
}

// PutFile writes through a temporary name, syncs and renames.
func PutFile(root *os.Root, name string, write func(w io.Writer) error) error {
	return put(durable.File{Root: root, Name: name, Mode: 0o640}, write)
}

// writers have the buffers of files that are written, and readers those of lists that are read.
var (
	writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 64<<10) }}
	readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 64<<10) }}
)

func put(file durable.File, write func(w io.Writer) error) error {
	return file.Write(func(f *os.File) error {
		w := writers.Get().(*bufio.Writer)
		defer writers.Put(w)
		w.Reset(f)
		defer w.Reset(nil)
		if err := write(w); err != nil {
			return err
		}
		return w.Flush()
	})
}

// Set collects what an attempt writes into the directory by other means than Put.
func (d *Dir) Set() *durable.Set { return d.set }

// Defer leaves what is written from now on to a later attempt, which compares it with a digest and adopts it, or makes
// it again: until then a crash may lose it, in whole or in part.
func (d *Dir) Defer() error {
	err := d.set.Sync()
	err = errors.Join(err, d.set.Close())
	d.set = durable.Unsynced(d.Root)
	return err
}

// Adopt adds a file that an earlier attempt wrote after Defer, and its name, to what Flush brings to the disk. The name
// of its directory is there already.
func (d *Dir) Adopt(name string) error {
	f, err := d.Open(name)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(d.set.File(f, info.Size()), d.set.Dir(path.Dir(name)))
}

// Flush returns when everything that was written is on the disk. A step calls it before the commit that refers to it.
// Until then a crash may leave a file empty under its final name, so no later attempt may trust a name.
func (d *Dir) Flush() error { return d.set.Sync() }

// Sync is Flush for a whole work directory: the names of all files and directories in it, and its own name.
func (w *Tree) Sync(batch job.ID, d *Dir) error {
	if d.set.Shared() {
		return errors.Join(d.set.Dir("."), d.Flush())
	}
	err := fs.WalkDir(d.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		if name == PartsName {
			return fs.SkipDir
		}
		return d.set.Dir(name)
	})
	work := filepath.Join(w.Data, WorkName)
	return errors.Join(err, d.Flush(), durable.Sync(filepath.Join(work, string(batch))), durable.Sync(work))
}

func IgnoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}

// Lines reads a list: one JSON value on each line.
func Lines[T any](root *os.Root, name string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		f, err := open(root, name)
		if err != nil {
			yield(none, err)
			return
		}
		defer f.Close()
		in := readers.Get().(*bufio.Reader)
		defer readers.Put(in)
		in.Reset(f)
		defer in.Reset(nil)
		d := json.NewDecoder(in)
		for {
			var one T
			err := d.Decode(&one)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(none, fmt.Errorf("list %s: %w", name, err))
				return
			}
			if !yield(one, nil) {
				return
			}
		}
	}
}
