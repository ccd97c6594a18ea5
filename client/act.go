package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Act is the body of an event that a person causes.
type Act struct {
	As      string `json:"as,omitempty"`      // "operator" (default) or "owner"
	Actor   string `json:"actor,omitempty"`   // who
	Note    string `json:"note,omitempty"`    // why
	Version int64  `json:"version,omitempty"` // of the record the person saw; 0: whatever it is now
	Confirm bool   `json:"confirm,omitempty"` // the person knows what the event loses
	Now     bool   `json:"now,omitempty"`     // cancel and stop of a flow: running tasks are interrupted
}

// Do causes an event and gives the job after it.
func (c *Client) Do(ctx context.Context, id job.ID, e lifecycle.Event, a Act) (Job, error) {
	return send[Job](ctx, c, http.MethodPost, jobPath(id, "/events/"+url.PathEscape(string(e))), nil, a)
}

// Priority is the body of a change of priority.
type Priority struct {
	Priority *int   `json:"priority"` // 0..99, lower goes first
	Version  int64  `json:"version,omitempty"`
	Actor    string `json:"actor,omitempty"` // who
	Note     string `json:"note,omitempty"`  // why
}

// SetPriority moves a job in its queue.
func (c *Client) SetPriority(ctx context.Context, id job.ID, p Priority) (Job, error) {
	return send[Job](ctx, c, http.MethodPut, jobPath(id, "/priority"), nil, p)
}
