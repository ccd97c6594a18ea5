package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/job"
)

// Holds returns all holds.
func (c *Client) Holds(ctx context.Context) ([]job.Hold, error) {
	a, err := get[Holds](ctx, c, "/api/v1/holds", nil)
	return a.Holds, err
}

// Hold keeps the jobs of a scope from being worked on, and gives all holds.
func (c *Client) Hold(ctx context.Context, h Hold) ([]job.Hold, error) {
	a, err := send[Holds](ctx, c, http.MethodPut, "/api/v1/holds", nil, h)
	return a.Holds, err
}

// Release ends the hold of a scope, and gives those that are left. who and why are entered in the audit list.
func (c *Client) Release(ctx context.Context, s job.Scope, who, why string) ([]job.Hold, error) {
	v := url.Values{}
	for name, value := range map[string]string{
		"kind": string(s.Kind), "state": string(s.State), "group": s.Group, "owner": s.Owner, "job": string(s.Job),
		"tag": s.Tag,
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if len(v) == 0 {
		v.Set("everything", "true")
	}
	for name, value := range map[string]string{"who": who, "why": why} {
		if value != "" {
			v.Set(name, value)
		}
	}
	a, err := call[Holds](ctx, c, http.MethodDelete, "/api/v1/holds", v, nil)
	return a.Holds, err
}
