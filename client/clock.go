package client

import (
	"context"
	"net/http"
)

// Clock asks what the server knows of the time.
func (c *Client) Clock(ctx context.Context) (Clock, error) {
	return get[Clock](ctx, c, "/api/v1/admin/clock", nil)
}

// ConfirmClock has the server trust the clock of its machine as it is now. Refused when nothing speaks against it.
func (c *Client) ConfirmClock(ctx context.Context, confirm ConfirmClock) (Clock, error) {
	return send[Clock](ctx, c, http.MethodPost, "/api/v1/admin/clock", nil, confirm)
}
