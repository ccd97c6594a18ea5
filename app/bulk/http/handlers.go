// Package bulkhttp serves bulks over HTTP.
package bulkhttp

import (
	"github.com/stagepost/stagepost/app/bulk"
	"github.com/stagepost/stagepost/server"
)

// Handlers handle the requests.
type Handlers struct {
	*server.Server
	Bulk Bulk
}

// Part returns the routes of bulks for a server. A nil server suffices to list the routes; a nil application refuses
// requests.
func Part(s *server.Server, app Bulk) server.Part {
	h := &Handlers{s, app}
	return server.Part{Routes: h.routes(), About: bulk.About}
}
