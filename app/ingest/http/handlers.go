// Package ingesthttp serves ingest over HTTP: submissions, objects, profiles, notifications, packages, checks of what
// is stored, and the page of a batch.
package ingesthttp

import (
	"slices"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/server"
)

// Options of the routes. An application that is nil refuses its requests.
type Options struct {
	Ingest   Ingest
	Details  Details // files, metadata, orphaned files, storage locations and fixity checks
	Profiles Profiles
	Hooks    Hooks // notifications
	Access   Access
}

// Handlers answer requests.
type Handlers struct {
	*server.Server
	Options
	making reportSlots
}

// Part gives what ingest adds to a server. A nil server is enough to list the routes.
func Part(s *server.Server, o Options) server.Part {
	h := &Handlers{Server: s, Options: o, making: make(reportSlots, mostReports)}
	part := server.Part{Routes: slices.Concat(h.routes(), h.hookRoutes()), About: ingest.About, Health: h.profileHealth}
	if o.Details != nil {
		part.Named = o.Details.Named
	}
	return part
}
