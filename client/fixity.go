package client

import (
	"context"
	"net/http"
)

// Fixity gives what is known about the stored files.
func (c *Client) Fixity(ctx context.Context) (Fixity, error) {
	return get[Fixity](ctx, c, "/api/v1/fixity", nil)
}

// CheckFixity asks for a check of all stored files, which the server does in the background. A check that is under way goes on.
func (c *Client) CheckFixity(ctx context.Context, f CheckFixity) (Fixity, error) {
	return send[Fixity](ctx, c, http.MethodPost, "/api/v1/fixity", nil, f)
}
