package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/api"
)

// Lifecycles lists the lifecycles of the server.
func (c *Client) Lifecycles(ctx context.Context) ([]Lifecycle, error) {
	a, err := get[Lifecycles](ctx, c, "/api/v1/lifecycles", nil)
	return a.Lifecycles, err
}

// Drawing returns a lifecycle as "json", "svg", "mmd" or "dot".
func (c *Client) Drawing(ctx context.Context, name, format string) ([]byte, error) {
	path := "/api/v1/lifecycles/" + url.PathEscape(name)
	if format != "json" {
		path += "." + format
	}
	r, err := c.request(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return nil, err
	}
	return c.text(r)
}

// RemoveLifecycle removes a kind of jobs that was added.
func (c *Client) RemoveLifecycle(ctx context.Context, name, actor, note string) (api.Lifecycle, error) {
	v := url.Values{"note": {note}, "actor": {actor}}
	return call[api.Lifecycle](ctx, c, http.MethodDelete, "/api/v1/lifecycles/"+url.PathEscape(name), v, nil)
}

// AddLifecycle adds a kind of jobs, or replaces one that was added before.
func (c *Client) AddLifecycle(ctx context.Context, l api.NewLifecycle) (api.Lifecycle, error) {
	return send[api.Lifecycle](ctx, c, http.MethodPost, "/api/v1/lifecycles", nil, l)
}
