package ingest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Bounds of one bite of the trash: so many entries, or a share of what there is.
const (
	trashBite  = 100
	trashShare = 5 // one in so many
)

// trashTime is how names in the trash begin. They sort by time.
const trashTime = "20060102T150405.000000Z"

// trashed gives the name of what goes to the trash at a time: when and what.
func trashed(at time.Time, id string) string { return at.UTC().Format(trashTime) + "-" + id }

// parseTrashed reads what trashed wrote; ok is false for names of other origin.
func parseTrashed(name string) (at time.Time, id string, ok bool) {
	if len(name) < len(trashTime)+2 || name[len(trashTime)] != '-' {
		return at, "", false
	}
	at, err := time.Parse(trashTime, name[:len(trashTime)])
	id = name[len(trashTime)+1:]
	return at, id, err == nil && trashed(at, id) == name
}

// discard moves a job's work directory to the trash by one rename. There may be none.
func (a *App) discard(batch, id job.ID) error {
	return a.throw(filepath.Join(a.options.Dir, workName, string(batch), string(id)), string(id))
}

// discardBatch moves the directory of a batch to the trash. There may be none.
func (a *App) discardBatch(id job.ID) error {
	return a.throw(filepath.Join(a.options.Dir, workName, string(id)), string(id))
}

// discardIdle moves a job's work directory to the trash if no attempt works in the directory and still, called under the directory's lock, says that it may go.
func (a *App) discardIdle(batch, id job.ID, still func() (bool, error)) (done bool, err error) {
	dir := filepath.Join(a.options.Dir, workName, string(batch), string(id))
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return false, ignoreMissing(err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := tryLock(lock); err != nil {
		if errors.Is(err, errLocked) {
			return false, nil
		}
		return false, err
	}
	if ok, err := still(); err != nil || !ok {
		return false, err
	}
	return true, a.discard(batch, id)
}

// throw moves a file or directory to the trash. What is not there is no error. Without a time to keep it, it is removed.
func (a *App) throw(path, id string) error {
	name := trashed(a.engine.Clock().Now(), id)
	to := filepath.Join(a.options.Dir, trashName, name)
	for n := 2; ; n++ {
		if _, err := os.Lstat(to); err != nil {
			break
		}
		to = filepath.Join(a.options.Dir, trashName, fmt.Sprintf("%s.%d", name, n))
	}
	if err := os.Rename(path, to); err != nil {
		return ignoreMissing(err)
	}
	if a.options.TrashKeep > 0 {
		return nil
	}
	return os.RemoveAll(to)
}

// sweepTrash removes what has been in the trash for long enough, the oldest first, a bite at a time. Entries whose name tells no time go by the time
// of their last change.
func (a *App) sweepTrash(ctx context.Context) error {
	dir := filepath.Join(a.options.Dir, trashName)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	before, known := a.guard.Before(a.options.TrashKeep)
	if !known {
		return nil
	}
	var old []string
	for _, e := range entries {
		at, _, ok := parseTrashed(e.Name())
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
	var mistakes []error
	for _, name := range old[:min(len(old), max(trashBite, len(entries)/trashShare))] {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		mistakes = append(mistakes, os.RemoveAll(filepath.Join(dir, name)))
	}
	return errors.Join(mistakes...)
}
