package host

import (
	"context"
	"errors"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/module"
)

// retention returns how long ended jobs, their records and their logs are kept.
func (r *Server) retention(s *Settings) engine.Retention {
	return engine.Retention{Every: s.RetainEvery, Share: s.RetainShare, Away: s.ClockAway, Records: s.RecordsKeep,
		Logs: s.LogsKeep, Clear: r.clear}
}

// clear has the applications remove what belongs to a job whose record is about to be purged.
func (r *Server) clear(ctx context.Context, j *job.Job) error {
	var errs []error
	for _, a := range r.apps {
		if c, ok := a.(module.Clearer); ok {
			errs = append(errs, c.Clear(ctx, j))
		}
	}
	return errors.Join(errs...)
}
