package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/stagepost/stagepost/job"
)

// ComputeQuery selects compute jobs. Empty fields do not restrict.
type ComputeQuery struct {
	Services []string
	States   []string // of the lifecycle; any case
	Outcomes []string
	Causes   []string
	Owner    string
	Name     string
	Labels   []string // name=value, or a name that must be there
	Ended    *bool
	Number   int64 // at most one job has it; 0: all
	After    string
	Limit    int
}

func (q *ComputeQuery) values() url.Values {
	v := url.Values{}
	for name, all := range map[string][]string{"service": q.Services, "state": q.States, "outcome": q.Outcomes,
		"cause": q.Causes, "label": q.Labels} {
		for _, one := range all {
			v.Add(name, one)
		}
	}
	for name, one := range map[string]string{"owner": q.Owner, "name": q.Name, "after": q.After} {
		if one != "" {
			v.Set(name, one)
		}
	}
	if q.Ended != nil {
		v.Set("ended", strconv.FormatBool(*q.Ended))
	}
	return number(number(v, "limit", int64(q.Limit)), "number", q.Number)
}

func computePath(id job.ID, more string) string {
	return "/api/v1/compute/jobs/" + url.PathEscape(string(id)) + more
}

// ComputeJobs returns a page of compute jobs, the newest first.
func (c *Client) ComputeJobs(ctx context.Context, q ComputeQuery) (ComputePage, error) {
	return get[ComputePage](ctx, c, "/api/v1/compute/jobs", q.values())
}

// ComputeNumber returns the compute job that has a number, as a list shows it, or kind NotFound.
func (c *Client) ComputeNumber(ctx context.Context, number int64) (ComputeJob, error) {
	page, err := c.ComputeJobs(ctx, ComputeQuery{Number: number})
	switch {
	case err != nil:
		return ComputeJob{}, err
	case len(page.Jobs) == 0:
		return ComputeJob{}, job.Errorf(job.NotFound, "get", "", "there is no compute job with the number %d", number)
	}
	return page.Jobs[0], nil
}

// ComputeJob returns one compute job with its details.
func (c *Client) ComputeJob(ctx context.Context, id job.ID) (ComputeJob, error) {
	return get[ComputeJob](ctx, c, computePath(id, ""), nil)
}

// CancelCompute cancels a job. A job on its way to or from an agent is waited for; an ended job is returned as it is.
func (c *Client) CancelCompute(ctx context.Context, id job.ID, a Act) (ComputeJob, error) {
	return send[ComputeJob](ctx, c, http.MethodPost, computePath(id, "/cancel"), nil, a)
}

// RetryCompute makes a new job of one that has ended, with nothing changed. Of r, Key, Confirm, Note, Actor and As
// are read.
func (c *Client) RetryCompute(ctx context.Context, id job.ID, r ComputeRepeat) (ComputeJob, error) {
	return send[ComputeJob](ctx, c, http.MethodPost, computePath(id, "/retry"), nil, r)
}

// CloneCompute makes a new job of the files of another one, with changes.
func (c *Client) CloneCompute(ctx context.Context, id job.ID, r ComputeRepeat) (ComputeJob, error) {
	return send[ComputeJob](ctx, c, http.MethodPost, computePath(id, "/clone"), nil, r)
}

// ComputeServices lists the services.
func (c *Client) ComputeServices(ctx context.Context) ([]ComputeService, error) {
	a, err := get[ComputeServices](ctx, c, "/api/v1/compute/services", nil)
	return a.Services, err
}

// ComputeAgents lists the agents.
func (c *Client) ComputeAgents(ctx context.Context) ([]ComputeAgent, error) {
	a, err := get[ComputeAgents](ctx, c, "/api/v1/compute/agents", nil)
	return a.Agents, err
}

// ComputeUsage returns what an owner uses; "" is all owners that the token may see.
func (c *Client) ComputeUsage(ctx context.Context, owner string) (ComputeUsage, error) {
	q := url.Values{}
	if owner != "" {
		q.Set("owner", owner)
	}
	return get[ComputeUsage](ctx, c, "/api/v1/compute/usage", q)
}

// DrainComputeAgent stops or resumes new jobs for an agent; its present jobs continue. Of a, Note, Actor
// and As are read.
func (c *Client) DrainComputeAgent(ctx context.Context, name string, on bool, a Act) (ComputeAgent, error) {
	path := "/api/v1/compute/agents/" + url.PathEscape(name) + "/resume"
	if on {
		path = "/api/v1/compute/agents/" + url.PathEscape(name) + "/drain"
	}
	return send[ComputeAgent](ctx, c, http.MethodPost, path, nil, a)
}

// CleanCompute removes the files of a job that has ended, inputs and results, before the server would by itself. The
// record stays. One that has none any more is given as it is. Errors: kind Refused for one that has not ended.
func (c *Client) CleanCompute(ctx context.Context, id job.ID, a Act) (ComputeJob, error) {
	return send[ComputeJob](ctx, c, http.MethodPost, computePath(id, "/clean"), nil, a)
}
