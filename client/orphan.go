package client

import (
	"context"
	"net/http"
)

// Orphans looks for what belongs to nothing.
func (c *Client) Orphans(ctx context.Context) (Orphans, error) {
	return get[Orphans](ctx, c, "/api/v1/orphans", nil)
}

// FixOrphans removes the deletable orphans with level FAIL.
func (c *Client) FixOrphans(ctx context.Context, f FixOrphans) (FixedOrphans, error) {
	return send[FixedOrphans](ctx, c, http.MethodPost, "/api/v1/orphans", nil, f)
}
