package ingest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// Names below the data directory.
const (
	workName    = "work"
	trashName   = "trash"
	mailName    = "mail"
	payloadName = "payload"
	reportsName = "reports"
)

// Names below a job's work directory.
const (
	producerName = "producer" // what the depositor gave
	systemName   = "system"   // what goes into the object besides
	packageName  = "package"  // a container, or an object's manifest, as it was handed in
	listName     = "lists"    // of files, between phases
	partsName    = "parts"    // unfinished downloads
	lockName     = "lock"     // of the attempt that works here, with its epoch
)

var errLocked = errors.New("locked by another attempt")

// workDir is the work directory of one job in the hands of one attempt.
type workDir struct {
	*os.Root
	lock *os.File
}

// openJob opens a job's work directory for the attempt of an epoch, making it if there is none. errLocked means that another attempt is
// still at it; kind Stale that a later one has been.
func (a *App) openJob(batch, id job.ID, epoch int64) (*workDir, error) {
	dir := filepath.Join(a.options.Dir, workName, string(batch), string(id))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	d := &workDir{Root: root}
	if err := d.take(id, epoch); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if there, err := d.at(dir); err != nil || !there { // it went to the trash between opening and locking
		return nil, errors.Join(errLocked, err, d.Close())
	}
	for _, sub := range []string{systemName, packageName, listName, partsName} {
		if err := root.MkdirAll(sub, 0o750); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// take locks the directory and leaves the epoch in the lock file, so that an attempt which was asleep cannot take it later.
func (d *workDir) take(id job.ID, epoch int64) error {
	lock, err := d.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	d.lock = lock
	if err := tryLock(lock); err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(lock, 64))
	if err != nil {
		return err
	}
	last, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // damaged: as if there had been none
	if last > epoch {
		return job.Errorf(job.Stale, "work", id, "claim %d is over, claim %d has the work directory", epoch, last)
	}
	if _, err := lock.WriteAt([]byte(fmt.Sprintf("%-20d\n", epoch)), 0); err != nil {
		return err
	}
	return nil
}

// at tells whether the directory still lies where it was opened.
func (d *workDir) at(dir string) (bool, error) {
	here, err := d.Stat(".")
	if err != nil {
		return false, err
	}
	there, err := os.Stat(dir)
	return err == nil && os.SameFile(here, there), ignoreMissing(err)
}

// look opens a job's work directory for reading, whoever works in it; nil if there is none.
func (a *App) look(batch, id job.ID) (*workDir, error) {
	root, err := os.OpenRoot(filepath.Join(a.options.Dir, workName, string(batch), string(id)))
	if err != nil {
		return nil, ignoreMissing(err)
	}
	return &workDir{Root: root}, nil
}

// Close gives the directory back.
func (d *workDir) Close() error {
	var err error
	if d.lock != nil {
		err = d.lock.Close()
	}
	return errors.Join(err, d.Root.Close())
}

// has tells whether a name exists.
func (d *workDir) has(name string) bool {
	_, err := d.Lstat(name)
	return err == nil
}

// put writes a file so that it appears complete and on disk, or not at all.
func (d *workDir) put(name string, write func(w io.Writer) error) error {
	return putFile(d.Root, name, write)
}

// putFile writes through a temporary name, syncs and renames.
func putFile(root *os.Root, name string, write func(w io.Writer) error) error {
	return durable.File{Root: root, Name: name, Mode: 0o640}.Write(func(f *os.File) error {
		w := bufio.NewWriterSize(f, 64<<10)
		if err := write(w); err != nil {
			return err
		}
		return w.Flush()
	})
}

// syncNames brings the names of all files and directories of a job's work directory to the disk, and its own name. The
// contents of the files are there already.
func (a *App) syncNames(batch job.ID, d *workDir) error {
	err := fs.WalkDir(d.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		if name == partsName {
			return fs.SkipDir
		}
		return durable.SyncIn(d.Root, name)
	})
	work := filepath.Join(a.options.Dir, workName)
	return errors.Join(err, durable.Sync(filepath.Join(work, string(batch))), durable.Sync(work))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}

// lines reads a list: one JSON value on each line.
func lines[T any](root *os.Root, name string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		f, err := root.Open(name)
		if err != nil {
			yield(none, err)
			return
		}
		defer f.Close()
		d := json.NewDecoder(bufio.NewReaderSize(f, 64<<10))
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
