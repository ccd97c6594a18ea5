package power

import (
	"context"
	"sync"

	"github.com/stagepost/stagepost/job"
)

// Store is a store that reports each job and each change before it is visible: its content must be on the disk by then.
// The functions are called one at a time; nil ones are left out.
type Store struct {
	job.Store
	Created func(j *job.Job)
	Changed func(before *job.Job, c *job.Change)

	mu sync.Mutex // held while one of them runs
}

// Create is part of [job.Store].
func (s *Store) Create(ctx context.Context, jobs ...job.Created) ([]job.Job, error) {
	if s.Created != nil {
		s.mu.Lock()
		for i := range jobs {
			s.Created(&jobs[i].Job)
		}
		s.mu.Unlock()
	}
	return s.Store.Create(ctx, jobs...)
}

// Commit is part of [job.Store].
func (s *Store) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	if s.Changed != nil {
		s.mu.Lock()
		for i := range changes {
			if j, err := s.Get(ctx, changes[i].Job); err == nil {
				s.Changed(&j, &changes[i])
			}
		}
		s.mu.Unlock()
	}
	return s.Store.Commit(ctx, changes...)
}
