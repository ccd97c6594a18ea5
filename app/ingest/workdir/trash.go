package workdir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/internal/dirlock"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// Bounds of one bite of the trash: so many entries, or a share of what there is.
const (
	trashBite  = 100
	trashShare = 5 // one in so many
)

// trashTime is how names in the trash begin. They sort by time.
const trashTime = "20060102T150405.000000Z"

// Trashed gives the name of what goes to the trash at a time: when and what.
func Trashed(at time.Time, id string) string { return at.UTC().Format(trashTime) + "-" + id }

// ParseTrashed reads what trashed wrote; ok is false for names of other origin.
func ParseTrashed(name string) (at time.Time, id string, ok bool) {
	if len(name) < len(trashTime)+2 || name[len(trashTime)] != '-' {
		return at, "", false
	}
	at, err := time.Parse(trashTime, name[:len(trashTime)])
	id = name[len(trashTime)+1:]
	return at, id, err == nil && Trashed(at, id) == name
}

// Discard moves a job's work directory to the trash by one rename. There may be none.
func (w *Tree) Discard(batch, id job.ID) error {
	return w.ToTrash(filepath.Join(w.Data, WorkName, string(batch), string(id)), string(id))
}

// DiscardBatch moves the directory of a batch to the trash. There may be none.
func (w *Tree) DiscardBatch(id job.ID) error {
	return w.ToTrash(filepath.Join(w.Data, WorkName, string(id)), string(id))
}

// DiscardIdle moves a job's work directory to the trash if no attempt works in the directory and still, called under
// the directory's lock, returns true.
func (w *Tree) DiscardIdle(batch, id job.ID, still func() (bool, error)) (done bool, err error) {
	dir := filepath.Join(w.Data, WorkName, string(batch), string(id))
	lock, err := os.OpenFile(filepath.Join(dir, LockName), os.O_RDWR|os.O_CREATE|durable.Plain, 0o640)
	if err != nil {
		return false, IgnoreMissing(err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := dirlock.TryLock(lock); err != nil {
		if errors.Is(err, dirlock.Err) {
			return false, nil
		}
		return false, err
	}
	if ok, err := still(); err != nil || !ok {
		return false, err
	}
	return true, w.Discard(batch, id)
}

// ToTrash moves a file or directory to the trash. What is not there is no error. Without a time to keep it, it is
// removed.
func (w *Tree) ToTrash(path, id string) error {
	name := Trashed(w.Now(), id)
	to := filepath.Join(w.Data, TrashName, name)
	for n := 2; ; n++ {
		if _, err := os.Lstat(to); err != nil {
			break
		}
		to = filepath.Join(w.Data, TrashName, fmt.Sprintf("%s.%d", name, n))
	}
	if err := os.Rename(path, to); err != nil {
		return IgnoreMissing(err)
	}
	if w.TrashKeep > 0 {
		return nil
	}
	return os.RemoveAll(to)
}

// SweepTrash removes what has been in the trash for long enough, the oldest first, a batch at a time. Entries without a
// time in their name count by the time of their last change.
func (w *Tree) SweepTrash(ctx context.Context) error {
	dir := filepath.Join(w.Data, TrashName)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	before, known := w.Before(w.TrashKeep)
	if !known {
		return nil
	}
	var old []string
	for _, e := range entries {
		at, _, ok := ParseTrashed(e.Name())
		if !ok {
			info, err := e.Info()
			if err != nil {
				continue
			}
			at = info.ModTime()
		}
		if !at.After(before) {
			old = append(old, e.Name())
		}
	}
	slices.SortFunc(old, strings.Compare)
	var errs []error
	for _, name := range old[:min(len(old), max(trashBite, len(entries)/trashShare))] {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

// Idle returns how long the files of a directory have not changed: an upload that is under way writes one of them.
func Idle(dir string) (time.Duration, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, err
	}
	last := info.ModTime()
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && !e.IsDir() && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return time.Since(last), err
}
