package client

import (
	"context"
	"net/url"

	"github.com/stagepost/stagepost/job"
)

// QueueQuery selects what a queue is asked about; empty fields do not restrict.
type QueueQuery struct {
	Kind  job.Kind
	Group string
	Open  bool // summary: only jobs that have not ended
	All   bool // batches: those that ended well, too
	After string
	Limit int
}

func (q QueueQuery) values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{"kind": string(q.Kind), "group": q.Group, "after": q.After} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.Open {
		v.Set("open", "true")
	}
	if q.All {
		v.Set("all", "true")
	}
	return number(v, "limit", int64(q.Limit))
}

// Queue counts what there is to do.
func (c *Client) Queue(ctx context.Context, q QueueQuery) (Queue, error) {
	return get[Queue](ctx, c, "/api/v1/queue", QueueQuery{Kind: q.Kind, Group: q.Group, Open: q.Open}.values())
}

// QueueBatches gives a page of batches, the oldest first.
func (c *Client) QueueBatches(ctx context.Context, q QueueQuery) (QueueBatches, error) {
	return get[QueueBatches](ctx, c, "/api/v1/queue/batches", QueueQuery{Group: q.Group, All: q.All, After: q.After, Limit: q.Limit}.values())
}

// QueueHolds tells what is held.
func (c *Client) QueueHolds(ctx context.Context) (QueueHolds, error) {
	return get[QueueHolds](ctx, c, "/api/v1/queue/holds", nil)
}
