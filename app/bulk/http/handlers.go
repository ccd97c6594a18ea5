// Package bulkhttp serves bulks over HTTP.
package bulkhttp

import (
	"github.com/stagepost/stagepost/app/bulk"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/web"
)

// Handlers handle the requests.
type Handlers struct {
	*server.Server
	Bulk  Bulk
	pages *web.Pages
}

// Part returns the routes of bulks for a server. A nil server suffices to list the routes; a nil application refuses
// requests.
func Part(s *server.Server, app Bulk) server.Part {
	h := &Handlers{s, app, web.New(s, files)}
	pages := server.Pages{Kinds: map[job.Kind]server.Named{
		bulk.Kind: {One: "bulk action", Many: "bulk actions", Application: "Control"},
	}}
	if app != nil {
		pages.OnList = []server.Link{{Title: "Act on all of them", Path: "/bulk", Who: server.Operator}}
	}
	return server.Part{Routes: h.routes(), About: bulk.About, Pages: pages}
}
