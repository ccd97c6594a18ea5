package sqlite

import (
	"context"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/watchers"
)

// watch are the callers of Watch.
type watch struct {
	watchers.List
	hints []job.Hint // of the last commit; the loop uses the memory again
}

// Watch is part of job.Store.
func (s *Store) Watch(ctx context.Context, wake func([]job.Hint)) { s.watch.Watch(ctx, wake) }

// hints returns the hints for the changes of the transaction.
func (s *Store) hints() []job.Hint {
	touched, w := s.ledger.Touched(), &s.watch
	if len(touched) == 0 || w.None() {
		return nil
	}
	w.hints = w.hints[:0] // those who are notified do not keep them
	for i := range touched {
		w.hints = append(w.hints, job.HintOf(&touched[i]))
	}
	return w.hints
}
