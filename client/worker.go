package client

import (
	"context"
	"net/http"
	"net/url"

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

// Create creates a job of a kind that has no operation of its own for that. With a key it is repeated after a broken
// connection, and makes one job.
func (c *Client) Create(ctx context.Context, o api.Order) (api.Job, error) {
	if o.Key != "" {
		ctx = context.WithValue(ctx, repeatKey{}, true)
	}
	return send[api.Job](ctx, c, http.MethodPost, "/api/v1/jobs", nil, o)
}

// WorkerJob reads a job that a worker has claimed.
func (c *Client) WorkerJob(ctx context.Context, l api.WorkerLease) (api.WorkerJob, error) {
	ctx = context.WithValue(ctx, repeatKey{}, true)
	return send[api.WorkerJob](ctx, c, http.MethodPost, "/api/v1/worker/job", nil, l)
}

// Workers lists the workers that are known to the server.
func (c *Client) Workers(ctx context.Context) ([]api.WorkerInfo, error) {
	a, err := get[api.Workers](ctx, c, "/api/v1/workers", nil)
	return a.Workers, err
}

// DrainWorker lets a worker finish its jobs and take no new ones. It returns the entry of the worker, if it is known.
func (c *Client) DrainWorker(ctx context.Context, name string, d api.WorkerDrain) ([]api.WorkerInfo, error) {
	return c.actOnWorker(ctx, name, "drain", d)
}

// ResumeWorker lets a drained worker take jobs again.
func (c *Client) ResumeWorker(ctx context.Context, name string, d api.WorkerDrain) ([]api.WorkerInfo, error) {
	return c.actOnWorker(ctx, name, "resume", d)
}

func (c *Client) actOnWorker(ctx context.Context, name, act string, d api.WorkerDrain) ([]api.WorkerInfo, error) {
	path := "/api/v1/workers/" + url.PathEscape(name) + "/" + act
	a, err := send[api.Workers](ctx, c, http.MethodPost, path, nil, d)
	return a.Workers, err
}

// LifecycleFile returns the file of a kind of jobs, for workers that run its commands.
func (c *Client) LifecycleFile(ctx context.Context, k job.Kind) (api.LifecycleFile, error) {
	return get[api.LifecycleFile](ctx, c, "/api/v1/lifecycles/"+url.PathEscape(string(k))+"/file", nil)
}
