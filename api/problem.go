package api

import (
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Problem is the body of every answer that is not a success: application/problem+json (RFC 9457) with members of its
// own.
type Problem struct {
	Type   string        `json:"type"`
	Title  string        `json:"title"`
	Status int           `json:"status"`
	Detail string        `json:"detail,omitempty"`
	Kind   job.ErrorKind `json:"kind"`
	Op     string        `json:"op,omitempty"`
	Job    job.ID        `json:"job,omitempty"`

	// Of a move that the lifecycle refuses.
	Event lifecycle.Event   `json:"event,omitempty"`
	State lifecycle.State   `json:"state,omitempty"`
	Rule  string            `json:"rule,omitempty"` // which rule refused
	By    string            `json:"by,omitempty"`   // who asked
	Can   []lifecycle.Event `json:"can,omitempty"`  // what the same actor may do instead
}

// Error returns the detail, without the id of the job, which a [job.Error] has before it.
func (p *Problem) Error() string {
	if p.Detail != "" {
		return p.Detail
	}
	return p.Title
}
