package engine

import "github.com/stagepost/stagepost/job"

// announce puts the messages that the application needs to send of a transition into the commit that makes it, the one
// who caused it: a step, a timer, the sweep, a hold or a person. j is the record before, c the complete change.
func (w *Work) announce(j *job.Job, c *job.Change) {
	if w.Announce != nil && c.Event != "" {
		c.Outbox = append(c.Outbox, w.Announce(j, c)...)
	}
}
