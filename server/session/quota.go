package session

import (
	"net/http"
	"sync"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/problem"
)

// Quota limits how much each owner of tokens has open at once, so that capacity remains for the others. Without
// authentication there are no owners and only the limits of the server.
type Quota struct {
	what string // "requests"
	most int

	mu   sync.Mutex // guards open
	open map[string]int
}

// NewQuota returns a quota per owner; what names in the plural what is counted.
func NewQuota(what string, most int) *Quota {
	return &Quota{what: what, most: most, open: map[string]int{}}
}

// Enter counts one more of an owner of tokens; "" is not limited. The caller calls leave once, unless there is an
// error, which has the status 429.
func (c *Quota) Enter(owner string) (leave func(), err error) {
	if owner == "" {
		return func() {}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[owner] >= c.most {
		return nil, problem.Refuse(http.StatusTooManyRequests, job.Unavailable,
			"%d %s of %s are open, which is the most for one owner of tokens", c.most, c.what, owner)
	}
	c.open[owner]++
	return func() { c.leave(owner) }, nil
}

func (c *Quota) leave(owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[owner]--; c.open[owner] == 0 {
		delete(c.open, owner)
	}
}
