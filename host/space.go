package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stagepost/stagepost/edge/disk"
	"github.com/stagepost/stagepost/engine/status"
	"github.com/stagepost/stagepost/host/stores"
	"github.com/stagepost/stagepost/job"
)

// space watches the file system of the data directory. It is the server's [server.Storage].
type space struct {
	dir     string
	reserve int64 // bytes that uploads leave free
	store   *stores.Store

	mu     sync.Mutex // guards the rest, and lets one probe at a time write
	proved time.Time  // when storage last accepted a write
	broken time.Time  // since when the directory accepts no writes; zero: it does
	fault  error      // why
}

// provedFor is how long one successful probe counts: a health check each second costs one sync each second at most.
const provedFor = time.Second

// Writable is part of server.Storage.
func (s *space) Writable(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == nil && time.Since(s.proved) < provedFor && s.storeFull().IsZero() {
		return nil
	}
	err := disk.Write(s.dir)
	if err == nil && s.store.Writable != nil {
		err = s.store.Writable(ctx)
	}
	switch {
	case err == nil:
		s.proved, s.broken, s.fault = time.Now(), time.Time{}, nil
		return nil
	case ctx.Err() != nil: // too slow to answer: nothing is known
		return err
	case s.fault == nil:
		s.broken = time.Now()
	}
	if err = s.Full(err); !job.IsFull(err) {
		err = fmt.Errorf("%s accepts no writes: %w; repair or replace the disk", s.dir, err)
	}
	s.fault = err
	return err
}

// Full is part of server.Storage.
func (s *space) Full(err error) error {
	var known *job.Full
	if !job.IsFull(err) || errors.As(err, &known) {
		return err
	}
	return &job.Error{Op: "store", Kind: job.Unavailable, Err: s.full()}
}

func (s *space) full() *job.Full {
	f := &job.Full{Dir: s.dir, Free: -1}
	if free, _, err := disk.Space(s.dir); err == nil {
		f.Free = free
	}
	return f
}

// Admit is part of server.Storage. A file system that does not answer refuses nothing.
func (s *space) Admit(bytes int64) error {
	free, _, err := disk.Space(s.dir)
	if err != nil || free >= s.reserve+bytes {
		return nil
	}
	return &job.Error{Op: "submit", Kind: job.Unavailable,
		Err: &job.Full{Dir: s.dir, Free: free, Reserve: s.reserve, Need: bytes}}
}

// storeFull returns since when the disk of the store is full, if the store has one.
func (s *space) storeFull() time.Time {
	if s.store.Full == nil {
		return time.Time{}
	}
	return s.store.Full()
}

// impaired is what `why` states for every job while storage accepts no writes.
func (s *space) impaired() *status.Impairment {
	s.mu.Lock()
	broken, fault := s.broken, s.fault
	s.mu.Unlock()
	if since := s.storeFull(); !since.IsZero() {
		return &status.Impairment{Since: since, Err: s.full()}
	}
	if fault != nil {
		var full *job.Full
		if errors.As(fault, &full) {
			fault = s.full()
		}
		return &status.Impairment{Since: broken, Err: fault}
	}
	return nil
}

// ballastBytes is the size of the file that keeps a start possible: SQLite's shared memory and log, the files of owner
// and address.
const ballastBytes = 4 << 20

// ballast is the name of that file in the data directory.
const ballast = "ballast"

// dropBallast removes the ballast if there is hardly any space, so that a server can start on a full disk. It reports
// whether it did.
func dropBallast(dir string) (dropped bool, err error) {
	free, _, err := disk.Space(dir)
	if err != nil || free >= ballastBytes {
		return false, nil
	}
	err = os.Remove(filepath.Join(dir, ballast))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// keepBallast writes the ballast: whole if there is plenty of space, else as much as fits if the start has used it. It
// writes the blocks, a size alone would have none.
func keepBallast(dir string, used bool) error {
	name := filepath.Join(dir, ballast)
	if info, err := os.Stat(name); err == nil && info.Size() == ballastBytes {
		return nil
	}
	if free, _, err := disk.Space(dir); err != nil || free < 4*ballastBytes && !used {
		return nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	block := make([]byte, 64<<10)
	for n := 0; n < ballastBytes && err == nil; n += len(block) {
		_, err = f.Write(block)
	}
	if job.IsFull(err) {
		err = nil
	}
	return errors.Join(err, f.Sync(), f.Close())
}
