package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Do causes an event and gives the job after it.
func (c *Client) Do(ctx context.Context, id job.ID, e lifecycle.Event, a Act) (Job, error) {
	return send[Job](ctx, c, http.MethodPost, jobPath(id, "/events/"+url.PathEscape(string(e))), nil, a)
}

// SetPriority moves a job in its queue.
func (c *Client) SetPriority(ctx context.Context, id job.ID, p Priority) (Job, error) {
	return send[Job](ctx, c, http.MethodPut, jobPath(id, "/priority"), nil, p)
}
