package server

import (
	"context"
	"net/http"
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

// offer leaves in an explanation the remedies that the sender of a request may use.
func (s *Server) offer(ctx context.Context, x *api.Explanation) {
	by, events := actsAs(ctx), map[string]bool{}
	for i := range x.Moves {
		m := &x.Moves[i]
		if events[string(m.Event)] = m.By&by != 0; m.By&by == 0 {
			m.Remedy = nil
		}
	}
	of := "/api/v1/jobs/" + string(x.Job) + "/events/"
	for i := range x.Blockers {
		var may []job.Remedy
		for _, r := range x.Blockers[i].Remedies {
			event, causes := strings.CutPrefix(r.Path, of)
			if s.mayUse(ctx, &r) && (!causes || events[event]) {
				may = append(may, r)
			}
		}
		x.Blockers[i].Remedies = may
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
