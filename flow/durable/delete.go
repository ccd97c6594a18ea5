package durable

import (
	"context"
	"fmt"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/job"
)

// topicValues is the topic of the message by which the large values of a deleted flow are removed.
const topicValues = "flow.values"

// announce gives the message that a deletion sends.
func (f *Flows) announce(j *job.Job, c *job.Change) []job.Message {
	if c.To.State != flow.Deleted || f.o.Blobs == nil {
		return nil
	}
	return []job.Message{{Key: fmt.Sprintf("%s/values/%d", j.ID, j.Seq+1), Job: j.ID, Topic: topicValues, Created: c.At,
		Due: c.At, Body: []byte("{}")}}
}

// Deliver is for [engine.Options].Deliver of an engine whose flows have Blobs: it removes the large values of flows
// that were deleted.
func (f *Flows) Deliver() map[string]engine.Deliver {
	if f.o.Blobs == nil {
		return nil
	}
	return map[string]engine.Deliver{topicValues: func(ctx context.Context, m job.Message) error {
		return f.o.Blobs.Remove(ctx, m.Job)
	}}
}
