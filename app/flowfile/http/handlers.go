// Package flowhttp serves flows over HTTP: orders, views, drawings, signals and the page of a flow.
package flowhttp

import (
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/web"
)

// Handlers answer requests.
type Handlers struct {
	*server.Server
	Flows Flows
	views *views
	pages *web.Pages
}

// Part gives what flows add to a server. A nil server is enough to list the routes, a nil application refuses requests.
func Part(s *server.Server, app Flows) server.Part {
	h := &Handlers{Server: s, Flows: app, views: newViews(), pages: web.New(s, files)}
	return server.Part{Routes: h.routes(), About: about, Explain: h.whyFlow, Assets: files, Close: h.views.close,
		Pages: server.Pages{Kinds: map[job.Kind]server.Named{
			durable.Kind: {One: "flow", Many: "flows", Application: "Flow"},
		}, OwnerCauses: []string{durable.BlockSignal, durable.BlockSuspended},
			Details: map[job.Kind]func(*http.Request, *api.Job) (server.Details, error){durable.Kind: h.details}}}
}
