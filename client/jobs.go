package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Values writes a query as the API reads it.
func Values(q job.Query) url.Values {
	v := url.Values{}
	for _, k := range q.Kinds {
		v.Add("kind", string(k))
	}
	for _, s := range q.States {
		v.Add("state", string(s))
	}
	for _, o := range q.Outcomes {
		v.Add("outcome", string(o))
	}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	set("group", q.Group)
	set("owner", q.Owner)
	set("parent", string(q.Parent))
	set("key", q.Key)
	set("worker", q.Worker)
	set("tag", q.Tag)
	set("words", strings.Join(q.Words, " "))
	for _, c := range q.Causes {
		v.Add("cause", c)
	}
	set("after", q.After)
	if q.Ended != nil {
		v.Set("ended", strconv.FormatBool(*q.Ended))
	}
	if q.Oldest {
		v.Set("order", "oldest")
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return v
}

func jobPath(id job.ID, more string) string {
	return "/api/v1/jobs/" + url.PathEscape(string(id)) + more
}

// Jobs returns a page of jobs. Before of the query is not sent.
func (c *Client) Jobs(ctx context.Context, q job.Query) (Page, error) {
	return get[Page](ctx, c, "/api/v1/jobs", Values(q))
}

// Job returns one job.
func (c *Client) Job(ctx context.Context, id job.ID) (Job, error) {
	return get[Job](ctx, c, jobPath(id, ""), nil)
}

// History returns at most n entries after number seq, oldest first; n 0 means as many as the server gives at once.
func (c *Client) History(ctx context.Context, id job.ID, seq int64, n int) ([]Event, error) {
	a, err := get[History](ctx, c, jobPath(id, "/history"),
		number(number(url.Values{}, "after", seq), "limit", int64(n)))
	return a.History, err
}

// Tasks returns the tasks of a job.
func (c *Client) Tasks(ctx context.Context, id job.ID) ([]job.Task, error) {
	a, err := get[Tasks](ctx, c, jobPath(id, "/tasks"), nil)
	return a.Tasks, err
}

// RetryTask has a task of a job tried again on its own, and returns the job.
func (c *Client) RetryTask(ctx context.Context, id job.ID, t TaskRetry) (Job, error) {
	return send[Job](ctx, c, http.MethodPost, jobPath(id, "/tasks/retry"), nil, t)
}

// Log returns at most n lines of a job's log from an offset that an earlier Next gave.
func (c *Client) Log(ctx context.Context, id job.ID, offset int64, n int) (Log, error) {
	return get[Log](ctx, c, jobPath(id, "/log"), number(number(url.Values{}, "offset", offset), "limit", int64(n)))
}

// LogTail returns the last n lines of a job's log, as far as the server reads them at once.
func (c *Client) LogTail(ctx context.Context, id job.ID, n int) (Log, error) {
	return get[Log](ctx, c, jobPath(id, "/log"), number(url.Values{}, "tail", int64(n)))
}

// Diagram draws the lifecycle of a job with its state marked, as SVG.
func (c *Client) Diagram(ctx context.Context, id job.ID) ([]byte, error) {
	r, err := c.request(ctx, http.MethodGet, jobPath(id, "/diagram.svg"), nil, nil)
	if err != nil {
		return nil, err
	}
	return c.text(r)
}

// Throughput counts the jobs that ended in each of the last 24 hours.
func (c *Client) Throughput(ctx context.Context) (Throughput, error) {
	return get[Throughput](ctx, c, "/api/v1/throughput", nil)
}

// Counts tallies all jobs.
func (c *Client) Counts(ctx context.Context) ([]job.Tally, error) {
	a, err := get[Counts](ctx, c, "/api/v1/counts", nil)
	return a.Counts, err
}

// number adds a number that is not zero to a query.
func number(v url.Values, name string, n int64) url.Values {
	if n != 0 {
		v.Set(name, strconv.FormatInt(n, 10))
	}
	return v
}

// Lookup returns the jobs that a person may mean by a name: an id or a part of one, a number, KIND/NUMBER, or a name
// that an application gave it. There are at most 11. No job is an error of kind NotFound.
func (c *Client) Lookup(ctx context.Context, name string) ([]job.Job, error) {
	page, err := get[Page](ctx, c, "/api/v1/lookup", url.Values{"name": {name}})
	return page.Jobs, err
}

// Do causes an event and gives the job after it.
func (c *Client) Do(ctx context.Context, id job.ID, e lifecycle.Event, a Act) (Job, error) {
	return send[Job](ctx, c, http.MethodPost, jobPath(id, "/events/"+url.PathEscape(string(e))), nil, a)
}

// SetPriority moves a job in its queue.
func (c *Client) SetPriority(ctx context.Context, id job.ID, p Priority) (Job, error) {
	return send[Job](ctx, c, http.MethodPut, jobPath(id, "/priority"), nil, p)
}
