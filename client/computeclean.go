package client

import (
	"context"
	"net/http"

	"github.com/stagepost/stagepost/job"
)

// CleanCompute removes the files of a job that has ended, inputs and results, before the server would by itself. The record stays. One that has none any more is given as it
// is. Errors: kind Refused for one that has not ended.
func (c *Client) CleanCompute(ctx context.Context, id job.ID, a Act) (ComputeJob, error) {
	return send[ComputeJob](ctx, c, http.MethodPost, computePath(id, "/clean"), nil, a)
}
