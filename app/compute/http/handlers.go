// Package computehttp serves compute over HTTP: its own API, resumable uploads, the tunnel of agents and GA4GH TES.
package computehttp

import (
	"net/http"
	"slices"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/tes"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/web"
)

// Options of the routes. What is nil refuses its requests.
type Options struct {
	Compute        Compute
	ComputeUploads ComputeUploads // resumable ones
	ComputeTunnel  http.Handler   // of agents that dial the server
	TES            *tes.Adapter   // tasks of GA4GH TES that become compute jobs
}

// Handlers answer requests.
type Handlers struct {
	*server.Server
	Options
	pages *web.Pages
}

// Part gives what compute adds to a server. A nil server is enough to list the routes.
func Part(s *server.Server, o Options) server.Part {
	h := &Handlers{s, o, web.New(s, files)}
	part := server.Part{
		Routes: slices.Concat(h.routes(), h.tesRoutes(), h.pageRoutes()), Redact: withoutSecrets, About: compute.About,
		Health: h.computeHealth, Assets: files, Pages: h.sitePages(),
	}
	if o.Compute != nil {
		part.Numbers = []job.Kind{compute.JobKind}
		part.Announce = map[string]func() any{agentsName: func() any { return o.Compute.Announce() }}
	}
	return part
}
