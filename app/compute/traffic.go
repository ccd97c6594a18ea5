package compute

import (
	"time"

	"github.com/stagepost/stagepost/job"
)

// The ways of bytes that Options.Moved is notified of.
const (
	ToAgent   = "to-agent"   // parcels
	FromAgent = "from-agent" // results, whole or in part
)

// counts returns the function that reports bytes of a service in one direction, as they are transferred.
func (a *App) counts(way, service string) func(n int) {
	if a.options.Moved == nil {
		return func(int) {}
	}
	return func(n int) {
		if n > 0 {
			a.options.Moved(way, service, int64(n))
		}
	}
}

// observeEnds reports jobs that came to an end to Options.Ended, after the commits that ended them. What a store does
// not report is not counted.
func (a *App) observeEnds(hints []job.Hint) {
	for i := range hints {
		j := hints[i].Record
		if hints[i].Kind != JobKind || j == nil || !j.Ended || j.State == Cleaned || !j.Entered.Equal(j.Changed) {
			continue // the last: it had ended before, and something else of it changed
		}
		if spec, err := SpecOf(j); err != nil || spec.Imported != nil {
			continue // it ended elsewhere
		}
		a.options.Ended(j.Group, string(j.State), j.Cause, ran(j))
	}
}

// ran is how long the script of a job ran, as far as it is known.
func ran(j *job.Job) time.Duration {
	d, err := DataOf(j)
	if err != nil {
		return 0
	}
	if n := d.Notice; n != nil && n.Ending != nil && n.Ending.WallMS > 0 {
		return time.Duration(n.Ending.WallMS) * time.Millisecond
	}
	started, finished := d.Times()
	if started.IsZero() || finished.IsZero() {
		return 0
	}
	return max(finished.Sub(started), 0)
}
