package client

import (
	"context"
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// Claim takes up to N jobs. An empty answer is no error: there was none within Wait.
func (c *Client) Claim(ctx context.Context, r Claim) ([]Leased, error) {
	a, err := send[Claimed](ctx, c, http.MethodPost, "/api/v1/worker/claim", nil, r)
	return a.Jobs, err
}

// Renew prolongs leases and gives those that are over.
func (c *Client) Renew(ctx context.Context, r Renewal) ([]job.Lease, error) {
	a, err := send[Renewed](ctx, c, http.MethodPost, "/api/v1/worker/renew", nil, r)
	return a.Lost, err
}

// Report reports the results of jobs. Each report succeeds or fails alone; the error is about all of them. One report
// alone that fails is an error as well: of kind Stale when the claim is over.
func (c *Client) Report(ctx context.Context, r Reports) ([]Reported, error) {
	a, err := send[Results](ctx, c, http.MethodPost, "/api/v1/worker/report", nil, r)
	return a.Results, err
}

// Update reports in the middle of the work; the claims of the worker stay as they are.
func (c *Client) Update(ctx context.Context, r api.Reports) ([]api.Reported, error) {
	a, err := send[api.Results](ctx, c, http.MethodPost, "/api/v1/worker/update", nil, r)
	return a.Results, err
}

// Create creates a job of a kind that has no operation of its own for that.
func (c *Client) Create(ctx context.Context, o api.Order) (api.Job, error) {
	return send[api.Job](ctx, c, http.MethodPost, "/api/v1/jobs", nil, o)
}
