// Package quiet keeps a full disk from filling the log.
package quiet

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stagepost/stagepost/job"
)

// For is how long a message about a full disk is not logged again.
const For = time.Minute

// noSpace is how the operating system states a full disk, in messages that are kept as text.
var noSpace = syscall.ENOSPC.Error()

// handler writes a message about a full disk once a minute. While a disk is full, every claim, sweep, request and job
// logs the same.
type handler struct {
	slog.Handler
	seen *seen
}

// seen is shared by the handlers that With and WithGroup make of one.
type seen struct {
	now func() time.Time

	mu      sync.Mutex // guards the rest
	last    time.Time  // when such a message was written
	skipped int        // such messages since
}

// New makes a log handler that passes on to another one a message about a full disk once in [For], and all others.
func New(h slog.Handler) slog.Handler { return &handler{h, &seen{now: time.Now}} }

// Handle is part of slog.Handler.
func (q *handler) Handle(ctx context.Context, r slog.Record) error {
	full := false
	r.Attrs(func(a slog.Attr) bool {
		err, is := a.Value.Any().(error)
		full = is && job.IsFull(err) || a.Value.Kind() == slog.KindString && strings.Contains(a.Value.String(), noSpace)
		return !full
	})
	if full {
		skipped, write := q.seen.again()
		if !write {
			return nil
		}
		if skipped > 0 {
			r = r.Clone()
			r.AddAttrs(slog.Int("suppressed", skipped))
		}
	}
	return q.Handler.Handle(ctx, r)
}

// again reports whether a message about a full disk is to be written, and how many were not since the last one.
func (s *seen) again() (skipped int, write bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if !s.last.IsZero() && now.Sub(s.last) < For {
		s.skipped++
		return 0, false
	}
	skipped, s.skipped, s.last = s.skipped, 0, now
	return skipped, true
}

// WithAttrs is part of slog.Handler.
func (q *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{q.Handler.WithAttrs(attrs), q.seen}
}

// WithGroup is part of slog.Handler.
func (q *handler) WithGroup(name string) slog.Handler {
	return &handler{q.Handler.WithGroup(name), q.seen}
}
