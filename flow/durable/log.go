package durable

import (
	"log/slog"

	"github.com/stagepost/stagepost/flow"
)

// mostLogged is the largest number of tasks of a flow whose log has a line for each task that succeeded. The log of a
// job is bounded, and failures must fit in it.
const mostLogged = 1000

// logging makes the listener that writes to the job's log what the flow and its tasks do. Values are left out: they may
// be secret, and are stored with the flow. The text of a failure is written as it is; for commands that includes the
// end of their standard error.
func (s *session) logging(item flow.Item) (flow.Listener, error) {
	level := flow.LogLevel
	if len(s.store.atoms) <= mostLogged {
		level = func(e flow.Event) slog.Level {
			if e.Within == "" && (e.New == flow.Success || e.New == flow.Ignore) {
				return slog.LevelInfo
			}
			return flow.LogLevel(e)
		}
	}
	log, err := flow.Logging(s.run.Log(), item, flow.LogOptions{Level: level})
	if err != nil {
		return nil, err
	}
	return func(e flow.Event) {
		e.Result, e.Details = nil, nil
		log(e)
	}, nil
}
