package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/job"
)

// OutboxQuery selects messages. Empty fields do not restrict.
type OutboxQuery struct {
	Job    job.ID
	Topic  string // mail, webhook, ...
	Status string // pending, delivered, abandoned
	After  string // Outbox.Next of the page before
	Limit  int    // page size; 0 means 50, at most 1000
}

// Outbox lists messages.
func (c *Client) Outbox(ctx context.Context, q OutboxQuery) (Outbox, error) {
	v := url.Values{}
	for name, text := range map[string]string{
		"job": string(q.Job), "topic": q.Topic, "status": q.Status, "after": q.After,
	} {
		if text != "" {
			v.Set(name, text)
		}
	}
	return get[Outbox](ctx, c, "/api/v1/outbox", number(v, "limit", int64(q.Limit)))
}

// ReplayMessages delivers messages again that were delivered or abandoned, all or none.
func (c *Client) ReplayMessages(ctx context.Context, r Replay) error {
	_, err := send[Replay](ctx, c, http.MethodPost, "/api/v1/outbox/replay", nil, r)
	return err
}
