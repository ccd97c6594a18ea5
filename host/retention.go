package host

import (
	"context"
	"errors"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// clearer is an application that keeps things of a job outside the store.
type clearer interface {
	Clear(ctx context.Context, j *job.Job) error
}

// retention says how long what has ended is kept.
func (r *Server) retention(s *Settings) engine.Retention {
	return engine.Retention{Every: s.RetainEvery, Share: s.RetainShare, Away: s.ClockAway, Records: s.RecordsKeep, Logs: s.LogsKeep, Clear: r.clear}
}

// clear has the applications remove what belongs to a job whose record is about to be purged.
func (r *Server) clear(ctx context.Context, j *job.Job) error {
	var mistakes []error
	for _, a := range r.apps {
		if c, ok := a.(clearer); ok {
			mistakes = append(mistakes, c.Clear(ctx, j))
		}
	}
	return errors.Join(mistakes...)
}

// WordOr gives a setting as applications take it whose zero is their default: off and unlimited, which are 0 here, are negative there.
func WordOr[N time.Duration | int64](n N) N {
	if n == 0 {
		return -1
	}
	return n
}
