package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/stagepost/stagepost/job"
)

// QueueQuery selects what a queue is asked about; empty fields do not restrict.
type QueueQuery struct {
	Kinds []job.Kind
	Group string
	Ended *bool // summary: only jobs that have ended, or that have not
	All   bool  // batches: those that ended well, too
	After string
	Limit int
}

func (q QueueQuery) values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{"group": q.Group, "after": q.After} {
		if value != "" {
			v.Set(name, value)
		}
	}
	for _, k := range q.Kinds {
		v.Add("kind", string(k))
	}
	if q.Ended != nil {
		v.Set("ended", strconv.FormatBool(*q.Ended))
	}
	if q.All {
		v.Set("all", "true")
	}
	return number(v, "limit", int64(q.Limit))
}

// Queue counts jobs by collection and state.
func (c *Client) Queue(ctx context.Context, q QueueQuery) (Queue, error) {
	return get[Queue](ctx, c, "/api/v1/queue", QueueQuery{Kinds: q.Kinds, Group: q.Group, Ended: q.Ended}.values())
}

// QueueBatches returns a page of batches, the oldest first.
func (c *Client) QueueBatches(ctx context.Context, q QueueQuery) (QueueBatches, error) {
	return get[QueueBatches](ctx, c, "/api/v1/queue/batches",
		QueueQuery{Group: q.Group, All: q.All, After: q.After, Limit: q.Limit}.values())
}

// QueueHolds lists holds and held jobs.
func (c *Client) QueueHolds(ctx context.Context) (QueueHolds, error) {
	return get[QueueHolds](ctx, c, "/api/v1/queue/holds", nil)
}
