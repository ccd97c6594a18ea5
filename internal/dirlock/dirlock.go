// Package dirlock lets one attempt at a time work in a directory: the one that has its lock and the newest epoch.
package dirlock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// Err reports that another attempt works in a directory.
var Err = errors.New("locked by another attempt")

// Lock locks the directory for the attempt of an epoch and leaves the epoch in the file name, so that an earlier
// attempt which was suspended cannot lock it later. Closing the file unlocks. Err means that another attempt works
// there, kind Stale that a later one has.
func Lock(root *os.Root, name string, id job.ID, epoch int64) (*os.File, error) {
	lock, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|durable.Plain, 0o640)
	if err != nil {
		return nil, err
	}
	if err := take(lock, id, epoch); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

func take(lock *os.File, id job.ID, epoch int64) error {
	if err := TryLock(lock); err != nil {
		return err
	}
	text := make([]byte, 64)
	n, err := lock.Read(text)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	last, _ := strconv.ParseInt(strings.TrimSpace(string(text[:n])), 10, 64) // damaged: as if there had been none
	if last > epoch {
		return job.Errorf(job.Stale, "work", id, "claim %d is over, claim %d has the work directory", epoch, last)
	}
	_, err = lock.WriteAt([]byte(fmt.Sprintf("%-20d\n", epoch)), 0)
	return err
}
