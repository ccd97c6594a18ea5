package engine

import "github.com/stagepost/stagepost/job"

// announce adds the application's messages about a transition to its commit, whether a step, a timer, the sweep, a hold
// or a person causes it. j is the record before, c the complete change.
func (w *Work) announce(j *job.Job, c *job.Change) {
	if w.Announce != nil && c.Event != "" {
		c.Outbox = append(c.Outbox, w.Announce(j, c)...)
	}
}
