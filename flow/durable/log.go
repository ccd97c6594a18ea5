package durable

import (
	"log/slog"

	"github.com/stagepost/stagepost/flow"
)

// mostTold is up to how many tasks a flow may have for its log to report of each that succeeded. The log of a job has a
// bound of its own, and failures must find space in it.
const mostTold = 1000

// logging makes the listener that writes to the job's log what the flow and its tasks do. Values stay out of it: they
// may be secret, and stand with the flow. What a failure states is written as it is; for commands that is also the end
// of their standard error.
func (s *session) logging(item flow.Item) (flow.Listener, error) {
	level := flow.LogLevel
	if len(s.store.atoms) <= mostTold {
		level = func(e flow.Event) slog.Level {
			if e.Within == "" && (e.New == flow.Success || e.New == flow.Ignore) {
				return slog.LevelInfo
			}
			return flow.LogLevel(e)
		}
	}
	tell, err := flow.Logging(s.run.Log(), item, flow.LogOptions{Level: level})
	if err != nil {
		return nil, err
	}
	return func(e flow.Event) {
		e.Result, e.Details = nil, nil
		tell(e)
	}, nil
}
