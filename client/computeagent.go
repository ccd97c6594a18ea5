package client

import (
	"context"
	"net/http"
	"net/url"
)

// DrainComputeAgent has an agent get no new jobs from the server, or get them again; what it has goes on. Of a, Note, Actor and As are read.
func (c *Client) DrainComputeAgent(ctx context.Context, name string, on bool, a Act) (ComputeAgent, error) {
	path := "/api/v1/compute/agents/" + url.PathEscape(name) + "/resume"
	if on {
		path = "/api/v1/compute/agents/" + url.PathEscape(name) + "/drain"
	}
	return send[ComputeAgent](ctx, c, http.MethodPost, path, nil, a)
}
