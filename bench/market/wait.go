package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// clock has the time at which the first step of the one job began that is under way.
type clock struct{ at atomic.Pointer[time.Time] }

// begin is what the first step of a job calls; a later one is ignored until take.
func (c *clock) begin() {
	now := time.Now()
	c.at.CompareAndSwap(nil, &now)
}

// take returns the time and forgets it.
func (c *clock) take() (at time.Time, ok bool) {
	p := c.at.Swap(nil)
	if p == nil {
		return time.Time{}, false
	}
	return *p, true
}

// waiting are the calls of do whose jobs are ended by workers of the same process, by number of the job.
type waiting struct{ calls sync.Map }

// call lets submit hand in job i and waits for ended.
func (w *waiting) call(ctx context.Context, i int64, submit func() error) error {
	done := make(chan struct{})
	w.calls.Store(i, done)
	defer w.calls.Delete(i)
	if err := submit(); err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ended ends the call of job i. A second end of a job is ignored.
func (w *waiting) ended(i int64) {
	if done, ok := w.calls.LoadAndDelete(i); ok {
		close(done.(chan struct{}))
	}
}
