package slurm

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"path"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/internal/durable"
)

// Forget is part of [compute.Executor]. A payload that Slurm may still run is ended. Of the ticket, a name stays for
// Options.Keep: a late repetition of it is not run.
func (s *Slurm) Forget(ctx context.Context, h compute.Handle) error {
	dir, err := dirOf(h.Ticket)
	if err != nil {
		return nil // nothing of that name was ever here
	}
	release, err := s.hold(ctx, dir)
	if err != nil {
		return err
	}
	defer release()
	p, err := s.enter(h.Ticket)
	if errors.Is(err, fs.ErrNotExist) { // what is under its name is not its own, and stays
		return s.unmark(dir)
	}
	if err != nil {
		return err
	}
	defer p.close()
	if !s.isDone(dir) {
		if err := s.end(ctx, p); err != nil {
			return err
		}
	}
	if err := writeFile(s.root, path.Join(goneDir, dir), nil); err != nil {
		return err
	}
	return s.discard(dir)
}

// unmark remembers that a payload was handed over whose directory is gone, as of one that is forgotten.
func (s *Slurm) unmark(dir string) error {
	if s.marked(dir) == nil {
		return nil
	}
	if err := writeFile(s.root, path.Join(goneDir, dir), nil); err != nil {
		return err
	}
	return s.root.Remove(path.Join(sentDir, dir))
}

// gone reports whether a ticket was forgotten.
func (s *Slurm) gone(dir string) bool {
	_, err := s.root.Lstat(path.Join(goneDir, dir))
	return err == nil
}

// discard removes a directory: first out of the way, at once; then file by file.
func (s *Slurm) discard(dir string) error {
	var raw [8]byte
	_, _ = rand.Read(raw[:])
	trash := path.Join(trashDir, dir+"-"+hex.EncodeToString(raw[:]))
	if err := s.root.Remove(path.Join(sentDir, dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.root.Rename(dir, trash); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.mu.Lock()
	delete(s.done, dir)
	delete(s.ended, dir)
	s.mu.Unlock()
	if err := s.root.RemoveAll(trash); err != nil {
		s.log.Warn("a payload's files cannot all be removed; the next start tries again", "path", trash, "error", err)
	}
	return durable.SyncIn(s.root, ".")
}

func (s *Slurm) isDone(dir string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done[dir]
}

func (s *Slurm) setDone(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[dir] = true
}

// settled reports whether an exit.json can come no more for a payload that was seen to have ended.
func (s *Slurm) settled(dir string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, ok := s.ended[dir]
	return ok && s.now().Sub(first) >= s.o.Settle
}

// sinceEnd reports for how long Slurm has been reporting that a payload has ended.
func (s *Slurm) sinceEnd(dir string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, ok := s.ended[dir]
	if !ok {
		first = s.now()
		s.ended[dir] = first
	}
	return s.now().Sub(first)
}
