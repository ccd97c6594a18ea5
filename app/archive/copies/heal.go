package copies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/edge/storage"
)

// Heal replaces a damaged or missing copy: it stores a new one from a good copy in another location, reads it back,
// marks the damaged one as replaced, and then deletes its file. It gives the new copy. Without a good copy the error is
// a [*ReadError].
func (s *Store) Heal(ctx context.Context, k catalog.CopyKey) (catalog.Copy, error) {
	old, err := s.o.Catalog.Copy(ctx, k)
	if err != nil {
		return catalog.Copy{}, err
	}
	t := s.target(k.Location)
	if t == nil {
		return catalog.Copy{}, fmt.Errorf("heal %s: storage location %q is not configured", old.Key, k.Location)
	}
	if err := s.ready(ctx, t, old.Size); err != nil {
		return catalog.Copy{}, err
	}
	fresh, err := s.o.Catalog.PlanReplacement(ctx, k, s.o.Now())
	for err == nil && !fresh.Deleted.IsZero() { // another file had its key
		fresh, err = s.o.Catalog.PlanReplacement(ctx, fresh.CopyKey, s.o.Now())
	}
	if err != nil {
		return catalog.Copy{}, err
	}
	if err := s.repair(ctx, t, fresh); err != nil {
		return catalog.Copy{}, err
	}
	event := catalog.Event{
		Key: fmt.Sprintf("replacement/%d/%s/%d", k.Artifact, k.Location, fresh.Generation), Job: old.Of.Job,
		Path: old.Of.Path, Type: "replication", Outcome: "success", Agent: s.o.Agent, At: s.o.Now(),
		Detail: fmt.Sprintf("a copy in %s that was %s was replaced by %s", k.Location, old.Fixity, fresh.Key),
	}
	if err := s.o.Catalog.Replace(ctx, k, fresh.Generation, event); err != nil {
		return catalog.Copy{}, err
	}
	s.o.Log.Info("copy replaced", "job", old.Of.Job, "path", old.Of.Path, "location", k.Location, "key", fresh.Key)
	if err := s.remove(ctx, old, s.o.Agent, "damaged, and replaced"); err != nil { // Tidy tries again
		s.o.Log.Warn("damaged copy cannot be deleted", "location", k.Location, "key", old.Key, "error", err)
	}
	return s.o.Catalog.Copy(ctx, fresh.CopyKey)
}

// Tidy deletes what could not be deleted before, because the location was down or did not permit it: damaged copies
// that were replaced, and copies of failed archives.
func (s *Store) Tidy(ctx context.Context, name string) error {
	left, err := s.o.Catalog.Leftover(ctx, name, 0)
	if err == nil && len(left) > 0 {
		err = s.Ready(ctx, name)
	}
	if err != nil {
		return err
	}
	for _, c := range left {
		reason := "damaged, and replaced"
		if c.Replaced == 0 {
			reason = "the archive failed"
		}
		err = errors.Join(err, s.remove(ctx, c, s.o.Agent, reason))
	}
	return err
}

// CatchUp stores the copies that a location lacks of complete archives, from good copies elsewhere, and gives their
// number. Those planned less than an hour ago may be in progress and are left.
func (s *Store) CatchUp(ctx context.Context, name string) (stored int, err error) {
	t := s.target(name)
	if t == nil {
		return 0, fmt.Errorf("storage location %q is not configured", name)
	}
	tasks, err := s.o.Catalog.Behind(ctx, name, s.o.Now().Add(-time.Hour), 1000)
	if err != nil || len(tasks) == 0 {
		return 0, err
	}
	need := int64(0)
	for _, c := range tasks {
		need += c.Size
	}
	if err := s.ready(ctx, t, need); err != nil {
		return 0, err
	}
	var errs []error
	for _, c := range tasks {
		if err := s.repair(ctx, t, c); err == nil {
			stored++
		} else if errs = append(errs, err); len(errs) >= maxFailures || ctx.Err() != nil {
			break
		}
	}
	return stored, errors.Join(errs...)
}

// repair stores a planned copy from the copies in other locations, and enters the result. A copy that turns out to be
// damaged is checked next.
func (s *Store) repair(ctx context.Context, t *Target, c catalog.Copy) error {
	if !c.Verified.IsZero() {
		return nil
	}
	good, err := s.good(ctx, c.Of.Job, c.Of.Path)
	if err != nil {
		return err
	}
	failure := &ReadError{Job: c.Of.Job, Path: c.Of.Path}
	for _, from := range good {
		if from.CopyKey == c.CopyKey {
			continue
		}
		err := s.transfer(ctx, t, c, from)
		if err == nil {
			return nil
		}
		if errors.Is(err, storage.ErrSource) {
			err = errors.Join(err, s.o.Catalog.Postpone(ctx, from.CopyKey, s.o.Now()))
		}
		failure.Errs = append(failure.Errs, err)
		failure.Transient = failure.Transient || temporary(err)
	}
	return failure
}

// transfer stores a planned copy from one other copy.
func (s *Store) transfer(ctx context.Context, t *Target, c, from catalog.Copy) error {
	source := s.used(from.Location)
	if err := recall(ctx, source, from.Key); err != nil {
		return err
	}
	src := &remote{ctx: ctx, at: source.At, key: from.Key}
	err := errors.Join(s.store(ctx, t, c, src), src.Close())
	e := s.o.Catalog.PutAttempts(ctx, []catalog.Attempt{{CopyKey: c.CopyKey, Err: err, At: s.o.Now(), Next: s.next(t)}})
	return errors.Join(err, e)
}

// remote reads a file of a location at any offset. Reads that follow each other use one stream; several goroutines use
// several.
type remote struct {
	ctx context.Context
	at  storage.Location
	key string

	mu   sync.Mutex // guards idle
	idle []stream
}

// stream is an open file at an offset.
type stream struct {
	io.ReadCloser
	at int64
}

const mostIdle = 4

// ReadAt implements [io.ReaderAt].
func (r *remote) ReadAt(p []byte, off int64) (int, error) {
	s, err := r.take(off)
	if err != nil {
		return 0, err
	}
	n, err := io.ReadFull(s, p)
	s.at += int64(n)
	if err != nil {
		_ = s.Close() // it was only read
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.EOF
		}
		return n, err
	}
	r.give(s)
	return n, nil
}

func (r *remote) take(off int64) (stream, error) {
	r.mu.Lock()
	for i, s := range r.idle {
		if s.at == off {
			r.idle = append(r.idle[:i], r.idle[i+1:]...)
			r.mu.Unlock()
			return s, nil
		}
	}
	r.mu.Unlock()
	from, err := r.at.Open(r.ctx, r.key, off)
	return stream{from, off}, err
}

func (r *remote) give(s stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.idle = append(r.idle, s); len(r.idle) > mostIdle {
		_ = r.idle[0].Close()
		r.idle = r.idle[1:]
	}
}

// Close implements [io.Closer].
func (r *remote) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, s := range r.idle {
		errs = append(errs, s.Close())
	}
	r.idle = nil
	return errors.Join(errs...)
}
