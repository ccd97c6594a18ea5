package server

import (
	"context"
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// Locks are the locks of an application.
type Locks interface {
	// Locks gives all locks.
	Locks(ctx context.Context) ([]api.Lock, error)

	// BreakLock takes a lock from its holder for a reason, and gives it as it was.
	BreakLock(ctx context.Context, kind, name, actor, note string) (api.Lock, error)
}

// lockKeeper gives who knows the locks.
func (s *Server) lockKeeper() (Locks, error) {
	if s.Options.Locks == nil {
		return nil, Absent("locks", "this server has no locks", "no module has any")
	}
	return s.Options.Locks, nil
}

func (s *Server) locks(w http.ResponseWriter, r *http.Request) error {
	if err := Params(r).Err(); err != nil {
		return err
	}
	l, err := s.lockKeeper()
	if err != nil {
		return err
	}
	all, err := l.Locks(r.Context())
	if err != nil {
		return err
	}
	if all == nil {
		all = []api.Lock{}
	}
	return Reply(w, api.Locks{Locks: all})
}

func (s *Server) breakLock(w http.ResponseWriter, r *http.Request) error {
	p := Params(r)
	kind, name, note := p.Text("kind"), p.Text("name"), p.Text("note")
	_, actor, err := ActorOf(r, "", p.Text("actor"))
	if err := p.Err(); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	if kind == "" || name == "" || note == "" {
		return job.Errorf(job.Invalid, "break", "", "kind, name and note say which lock is broken, and why")
	}
	l, err := s.lockKeeper()
	if err != nil {
		return err
	}
	was, err := l.BreakLock(r.Context(), kind, name, actor, note)
	if err != nil {
		return err
	}
	return Reply(w, was)
}
