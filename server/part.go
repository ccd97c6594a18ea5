package server

import (
	"context"
	"io/fs"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
)

// Part is what an application adds to a server. Every field but Routes may be nil.
type Part struct {
	Routes  []Route
	Redact  func(job.Job) job.Job                             // removes from a record what must not leave the server
	Explain func(context.Context, *explain.Explanation) error // adds to the answer of why what the engine does not know
	Health  func(*api.Health)                                 // adds warnings and facts to the answer of /healthz
	Assets  fs.FS                                             // pages/*.css and pages/*.js are served below /assets/
	Close   func()                                            // is called once, when the server is closed
}

// All lists the routes of the server and its parts.
func (s *Server) All() []Route { return s.all }

// redact gives a record as it may leave the server.
func (s *Server) redact(j job.Job) job.Job {
	for _, p := range s.parts {
		if p.Redact != nil {
			j = p.Redact(j)
		}
	}
	return j
}

// explainParts adds to an explanation what the applications know.
func (s *Server) explainParts(ctx context.Context, x *explain.Explanation) error {
	for _, p := range s.parts {
		if p.Explain == nil {
			continue
		}
		if err := p.Explain(ctx, x); err != nil {
			return err
		}
	}
	return nil
}

// Add adds the parts of applications. Call it before the first request.
func (s *Server) Add(parts ...Part) {
	for _, p := range parts {
		s.parts = append(s.parts, p)
		for _, r := range p.Routes {
			s.all = append(s.all, r)
			s.mux.Handle(r.Method+" "+r.Pattern, s.handler(r))
		}
	}
}
