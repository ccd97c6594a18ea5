package server

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server/problem"
)

func (s *Server) holds(w http.ResponseWriter, r *http.Request) error {
	if err := Params(r).Err(); err != nil {
		return err
	}
	holds, err := s.Store.Holds(r.Context())
	return replyHolds(w, holds, err)
}

func replyHolds(w http.ResponseWriter, holds []job.Hold, err error) error {
	if err != nil {
		return err
	}
	return Reply(w, api.Holds{Holds: listed(holds)})
}

func (s *Server) hold(w http.ResponseWriter, r *http.Request) error {
	h, err := Body[api.Hold](r, true)
	if err != nil {
		return err
	}
	_, who, err := ActorOf(r, "", h.Who)
	if err != nil {
		return err
	}
	if err := meant(h.Scope, h.Everything); err != nil {
		return err
	}
	if err := s.exists(r.Context(), h.Scope); err != nil {
		return err
	}
	if !h.Until.IsZero() && !h.Until.After(s.Engine.Clock().Wall()) {
		return job.Errorf(job.Invalid, "hold", "", "the hold would have ended already, at %s",
			h.Until.UTC().Format(time.RFC3339))
	}
	holds, err := s.Engine.Operator().Hold(r.Context(), h.Scope, cmp.Or(who, "operator"), h.Why, h.Until)
	return replyHolds(w, holds, err)
}

func (s *Server) release(w http.ResponseWriter, r *http.Request) error {
	p := Params(r)
	scope := job.Scope{
		Kind: job.Kind(p.Text("kind")), State: lifecycle.State(p.Text("state")), Group: p.Text("group"),
		Owner: p.Text("owner"),
		Job:   job.ID(p.Text("job")), Tag: p.Text("tag"),
	}
	all := p.Flag("everything")
	_, who, err := ActorOf(r, "", p.Text("who"))
	if err != nil {
		return err
	}
	why := p.Text("why")
	if err := p.Err(); err != nil {
		return err
	}
	if err := meant(scope, all != nil && *all); err != nil {
		return err
	}
	holds, err := s.releaseHold(r.Context(), scope, who, why)
	return replyHolds(w, holds, err)
}

// releaseHold releases a hold, and wakes the workers that wait for a job.
func (s *Server) releaseHold(ctx context.Context, scope job.Scope, who, why string) ([]job.Hold, error) {
	holds, err := s.Engine.Operator().Release(ctx, scope, cmp.Or(who, "operator"), why)
	if err == nil {
		s.hub.Notify([]job.Hint{{Released: true}}) // a store that one process owns sends no hint of it
	}
	return holds, err
}

// meant refuses a scope that is empty because a field was left out.
func meant(scope job.Scope, everything bool) error {
	empty := scope == job.Scope{}
	switch {
	case empty && !everything:
		return job.Errorf(job.Invalid, "hold", "",
			"it needs a scope: kind, state, group, owner, tag, job, or everything")
	case !empty && everything:
		return job.Errorf(job.Invalid, "hold", "", "either everything or %s", scope)
	}
	return nil
}

// Locks are the locks of an application.
type Locks interface {
	// Locks returns all locks.
	Locks(ctx context.Context) ([]api.Lock, error)

	// BreakLock breaks a lock for a reason and returns it as it was.
	BreakLock(ctx context.Context, kind, name, actor, note string) (api.Lock, error)
}

// lockTable returns the locks of the server.
func (s *Server) lockTable() (Locks, error) {
	if s.Options.Locks == nil {
		return nil, problem.Absent("locks", "this server has no locks", "no module has any")
	}
	return s.Options.Locks, nil
}

func (s *Server) locks(w http.ResponseWriter, r *http.Request) error {
	if err := Params(r).Err(); err != nil {
		return err
	}
	l, err := s.lockTable()
	if err != nil {
		return err
	}
	all, err := l.Locks(r.Context())
	if err != nil {
		return err
	}
	return Reply(w, api.Locks{Locks: listed(all)})
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
		return job.Errorf(job.Invalid, "break", "", "kind, name and note are required: which lock is broken, and why")
	}
	l, err := s.lockTable()
	if err != nil {
		return err
	}
	was, err := l.BreakLock(r.Context(), kind, name, actor, note)
	if err != nil {
		return err
	}
	return Reply(w, was)
}
