// Package bulkhttp serves bulks over HTTP.
package bulkhttp

import "github.com/stagepost/stagepost/server"

// Handlers answer requests.
type Handlers struct {
	*server.Server
	Bulk Bulk
}

// Part gives what bulks add to a server. A nil server is enough to list the routes, a nil application refuses requests.
func Part(s *server.Server, app Bulk) server.Part {
	h := &Handlers{s, app}
	return server.Part{Routes: h.routes()}
}
