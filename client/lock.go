package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Lock is a claim of one job on an object, on its entry in the inventory, or on a local id.
type Lock struct {
	Kind     string    `json:"kind"` // object, inventory, local-id
	Name     string    `json:"name"`
	Holder   job.ID    `json:"holder"`
	Epoch    int64     `json:"epoch"`               // of the holder's claim under which it was taken
	State    string    `json:"state"`               // held, or left: by a job that ended
	JobState string    `json:"job_state,omitempty"` // of the holder; empty when it does not exist
	Since    time.Time `json:"since"`
	Token    int64     `json:"token"` // fencing token: rises with every acquisition
	Note     string    `json:"note,omitempty"`
	Waiting  []job.ID  `json:"waiting"` // who waits for it, the next one first
}

// Locks is the answer about locks: all that there are, by kind and name.
type Locks struct {
	Locks []Lock `json:"locks"`
}

// Locks gives all locks.
func (c *Client) Locks(ctx context.Context) ([]Lock, error) {
	a, err := get[Locks](ctx, c, "/api/v1/locks", nil)
	return a.Locks, err
}

// BreakLock takes a lock from its holder, whose later writes under it are refused, and gives it as it was. The note is the reason and must not be empty.
func (c *Client) BreakLock(ctx context.Context, kind, name, actor, note string) (Lock, error) {
	v := url.Values{"kind": {kind}, "name": {name}, "note": {note}}
	if actor != "" {
		v.Set("actor", actor)
	}
	return call[Lock](ctx, c, http.MethodDelete, "/api/v1/locks", v, nil)
}
