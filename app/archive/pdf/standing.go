package pdf

import (
	"context"
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Standing is what gauges show of the jobs.
type Standing struct {
	Oldest time.Time      // when the oldest job was ordered that no worker has; zero: there is none
	Failed map[string]int // jobs that failed, by cause: those of Causes, and other
}

// otherCause counts the causes that are not of this package, such as an expired time.
const otherCause = "other"

// Standing reads the jobs, as far as the first pages have them.
func (a *App) Standing(ctx context.Context) (s Standing, err error) {
	s.Failed = map[string]int{otherCause: 0}
	for _, cause := range Causes() {
		s.Failed[cause] = 0
	}
	if a.engine == nil {
		return s, nil
	}
	list := func(state lifecycle.State) ([]job.Job, error) {
		page, err := a.engine.Store().List(ctx, job.Query{
			Kinds: []job.Kind{Kind}, States: []lifecycle.State{state}, Oldest: true, Limit: 1000,
		})
		return page.Jobs, err
	}
	open, err := list(Rendering)
	if err != nil {
		return s, err
	}
	if i := slices.IndexFunc(open, func(j job.Job) bool { return !j.Claimed() }); i >= 0 {
		s.Oldest = open[i].Created
	}
	failed, err := list(Failed)
	for i := range failed {
		cause := failed[i].Cause
		if _, known := s.Failed[cause]; !known {
			cause = otherCause
		}
		s.Failed[cause]++
	}
	return s, err
}
