package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/job"
)

// MarkReverted records that a task of a flow in FAILURE was rolled back manually. Run or cancel the flow then to roll
// back the rest.
func (c *Client) MarkReverted(ctx context.Context, id job.ID, m FlowMark) (Job, error) {
	return send[Job](ctx, c, http.MethodPost, flowPath(id, "/mark-reverted"), nil, m)
}

// SubmitFlow creates a flow, which is a job. A file with mistakes is refused with all of them, by line and column. If
// there is a flow with the key already, it is given.
func (c *Client) SubmitFlow(ctx context.Context, o FlowOrder) (Job, error) {
	if o.Key != "" {
		ctx = context.WithValue(ctx, repeatKey{}, true)
	}
	return send[Job](ctx, c, http.MethodPost, "/api/v1/flows", nil, o)
}

func flowPath(id job.ID, more string) string {
	return "/api/v1/flows/" + url.PathEscape(string(id)) + more
}

// Flow returns the state of a flow; with values also the results of its atoms.
func (c *Client) Flow(ctx context.Context, id job.ID, values bool) (Flow, error) {
	q := url.Values{}
	if values {
		q.Set("values", "true")
	}
	return get[Flow](ctx, c, flowPath(id, ""), q)
}

// SignalFlow sends a signal to a flow and returns the flow's record. The signal is stored: a task that waits for it
// later gets it, too.
func (c *Client) SignalFlow(ctx context.Context, id job.ID, s FlowSignal) (Job, error) {
	return send[Job](ctx, c, http.MethodPost, flowPath(id, "/signal"), nil, s)
}

// DrawFlow draws a flow with the states of its atoms: name is "graph" or "timeline", format "svg", "dot" or "mmd" (a
// timeline is SVG only).
func (c *Client) DrawFlow(ctx context.Context, id job.ID, name, format string) ([]byte, error) {
	r, err := c.request(ctx, http.MethodGet, flowPath(id, "/"+name+"."+format), nil, nil)
	if err != nil {
		return nil, err
	}
	return c.text(r)
}
