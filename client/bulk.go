package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/job"
)

// BulkPreview counts the jobs that a bulk would change, and changes nothing.
func (c *Client) BulkPreview(ctx context.Context, b Bulk) (BulkPreview, error) {
	return send[BulkPreview](ctx, c, http.MethodPost, "/api/v1/bulk", url.Values{"dry": {"true"}}, b)
}

// StartBulk creates a bulk, which is a job. Without a number to expect it is refused, with the number in the refusal.
func (c *Client) StartBulk(ctx context.Context, b Bulk) (Job, error) {
	return send[Job](ctx, c, http.MethodPost, "/api/v1/bulk", nil, b)
}

// BulkResult returns what a bulk did.
func (c *Client) BulkResult(ctx context.Context, id job.ID) (BulkResult, error) {
	return get[BulkResult](ctx, c, "/api/v1/bulk/"+url.PathEscape(string(id)), nil)
}
