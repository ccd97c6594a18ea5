package server

import (
	"net/http"
	"sync"

	"github.com/stagepost/stagepost/job"
)

// crowd bounds how much each owner of tokens has open at once, so that one leaves room to others. Without authentication there are
// no owners and no bounds but those of the server.
type crowd struct {
	what string // "requests"
	most int

	mu   sync.Mutex // guards open
	open map[string]int
}

func newCrowd(what string, most int) *crowd {
	return &crowd{what: what, most: most, open: map[string]int{}}
}

// enter counts one more of the owner of a request's token. The caller calls leave once, unless there is an error: status 429.
func (c *crowd) enter(r *http.Request) (leave func(), err error) {
	owner := OwnerOf(r.Context())
	if owner == "" {
		return func() {}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[owner] >= c.most {
		return nil, Refuse(http.StatusTooManyRequests, job.Unavailable, "%d %s of %s are open, which is the most for one owner of tokens", c.most, c.what, owner)
	}
	c.open[owner]++
	return func() { c.leave(owner) }, nil
}

func (c *crowd) leave(owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[owner]--; c.open[owner] == 0 {
		delete(c.open, owner)
	}
}

// EnterStream counts one more event stream. The caller calls leave once, unless there is an error.
func (s *Server) EnterStream(r *http.Request) (leave func(), err error) {
	own, err := s.streams.enter(r)
	if err != nil {
		return nil, err
	}
	if s.watching.Add(1) > int64(s.Watchers) {
		s.watching.Add(-1)
		own()
		return nil, job.Errorf(job.Unavailable, "watch", JobID(r), "%d streams are open, which is the most", s.Watchers)
	}
	return func() { s.watching.Add(-1); own() }, nil
}
