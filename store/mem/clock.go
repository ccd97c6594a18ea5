package mem

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/job"
)

var _ job.ClockStore = (*Store)(nil)

// KeptClock is part of job.ClockStore.
func (s *Store) KeptClock(ctx context.Context) (job.KeptClock, error) {
	return do(s, ctx, func() (job.KeptClock, error) { return s.clock, nil })
}

// KeepClock is part of job.ClockStore.
func (s *Store) KeepClock(ctx context.Context, k job.KeptClock) error {
	_, err := do(s, ctx, func() (bool, error) {
		for _, t := range []*time.Time{&k.Trusted, &k.Latest, &k.Confirmed} {
			*t = t.Truncate(time.Microsecond)
		}
		s.clock = k
		return true, nil
	})
	return err
}
