package client

import (
	"context"
	"net/url"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Why tells what a job waits for; a zero time asks about now.
func (c *Client) Why(ctx context.Context, id job.ID, at time.Time) (Explanation, error) {
	v := url.Values{}
	if !at.IsZero() {
		v.Set("at", at.UTC().Format(time.RFC3339Nano))
	}
	return get[Explanation](ctx, c, jobPath(id, "/why"), v)
}
