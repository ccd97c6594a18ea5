package server

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server/identity"
)

// actsAs returns as whom the sender of a request may cause events of jobs; 0: it may read only.
func actsAs(ctx context.Context) lifecycle.Actor {
	who, known := Who(ctx)
	switch {
	case known && who.Role == identity.Depositor:
		return lifecycle.Owner
	case known && who.Role == identity.Auditor:
		return 0
	}
	return lifecycle.Operator | lifecycle.Owner
}

// people are the actors as whom people cause events.
const people = lifecycle.Operator | lifecycle.Owner

// mayCause returns which events of a job of a kind and an owner the sender of a request may cause: not the deletion of
// the work of another owner, and none if it may read only. by are the actors that the event is open to.
func (s *Server) mayCause(ctx context.Context, kind job.Kind, owner string,
) func(lifecycle.Event, lifecycle.Actor) bool {
	as, owns := actsAs(ctx), s.Owns(ctx, owner)
	return func(e lifecycle.Event, by lifecycle.Actor) bool { return by&as != 0 && (owns || !s.Deletes(kind, e)) }
}

// offer leaves in an explanation what the sender of a request may do: moves without the commands for others, and the
// remedies that it may use. A deletion that it may not cause stays without people if something else can cause it.
func (s *Server) offer(ctx context.Context, x *api.Explanation, owner string) {
	may, owns, events := s.mayCause(ctx, x.Kind, owner), s.Owns(ctx, owner), map[string]bool{}
	moves := make([]api.Move, 0, len(x.Moves))
	for _, m := range x.Moves {
		if !owns && s.Deletes(x.Kind, m.Event) {
			m.By, m.Refused = m.By&^people, ""
		}
		if events[string(m.Event)] = may(m.Event, m.By); !events[string(m.Event)] {
			m.Remedy = nil
		}
		if m.By != 0 {
			moves = append(moves, m)
		}
	}
	x.Moves, x.Blockers = moves, slices.Clone(x.Blockers)
	of := "/api/v1/jobs/" + string(x.Job) + "/events/"
	for i := range x.Blockers {
		var usable []job.Remedy
		for _, r := range x.Blockers[i].Remedies {
			event, causes := strings.CutPrefix(r.Path, of)
			if s.mayUse(ctx, &r) && (!causes || events[event]) {
				usable = append(usable, r)
			}
		}
		x.Blockers[i].Remedies = usable
	}
}

// mayUse reports whether the sender of a request may use the route of a remedy. A remedy without one only shows
// something.
func (s *Server) mayUse(ctx context.Context, r *job.Remedy) bool {
	q, err := http.NewRequestWithContext(ctx, r.Method, r.Path, http.NoBody)
	if err != nil || r.Path == "" {
		return true
	}
	_, pattern := s.mux.Handler(q)
	method, path, _ := strings.Cut(pattern, " ")
	route := s.routeOf(method, path)
	return route == nil || s.may(ctx, route)
}
