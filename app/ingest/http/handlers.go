// Package ingesthttp serves ingest over HTTP: submissions, objects, profiles, notifications, packages, checks of what
// is stored, and the page of a batch.
package ingesthttp

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/web"
)

// Options of the routes. An application that is nil refuses its requests.
type Options struct {
	Ingest   Ingest
	Details  Details // files, metadata, orphaned files, storage locations and fixity checks
	Profiles Profiles
	Hooks    Hooks // notifications
	Access   Access
	Shares   Shares // links to batches
}

// Handlers answer requests.
type Handlers struct {
	*server.Server
	Options
	making reportSlots
	pages  *web.Pages
}

// kinds are what the jobs of ingest are called.
var kinds = map[job.Kind]server.Named{
	record.BatchKind:                   {One: "batch", Many: "batches", Application: "Ingest"},
	record.JobKind:                     {One: "object", Many: "objects", Application: "Ingest", Part: true},
	job.Kind(record.AccessLife.Name()): {One: "access package", Many: "access packages", Application: "Ingest"},
}

// plainWaits are sentences for depositors about what a job waits for, by the codes of its reasons.
var plainWaits = map[job.Kind]map[string]string{record.JobKind: jobWaits, record.BatchKind: jobWaits}

var jobWaits = map[string]string{
	"space":            "it waits for free space, and goes on by itself",
	"storage-location": "our storage cannot be used at the moment: it goes on by itself",
	"source":           "many files are fetched from the same server: it goes on when it is its turn",
	"profile":          "its collection is not set up any more: ask the staff of the archive",
	"object":           "another submission works on the same object: it goes on afterwards",
	"inventory":        "another submission works on the same object: it goes on afterwards",
	"local-id":         "another submission works on the same object: it goes on afterwards",
	"lock-lost":        "it goes on by itself in a moment",
	"directory":        "it goes on by itself in a moment",
}

// filesOf returns the path of the operation that lists the files of a job.
func filesOf(j *job.Job) string {
	if j.Kind != record.JobKind {
		return ""
	}
	return "/api/v1/ingest/jobs/" + url.PathEscape(string(j.ID)) + "/files"
}

// Part gives what ingest adds to a server. A nil server is enough to list the routes.
func Part(s *server.Server, o Options) server.Part {
	h := &Handlers{Server: s, Options: o, making: make(reportSlots, mostReports),
		pages: web.New(s, files)}
	part := server.Part{Routes: slices.Concat(h.routes(), h.hookRoutes()), About: ingest.About, Health: h.profileHealth,
		Pages: server.Pages{Kinds: kinds, Files: filesOf, Plain: plainWaits,
			Details: map[job.Kind]func(*http.Request, *api.Job) (server.Details,
				error){record.BatchKind: h.batchDetails}}}
	if o.Profiles != nil {
		part.Pages.Links = []server.Link{{Section: "Control", Title: "Profiles", Path: "/profiles", Who: server.Shared}}
	}
	if o.Hooks != nil {
		part.Pages.Links = append(part.Pages.Links, server.Link{Section: "Control", Title: "Webhooks", Path: "/hooks",
			Who: server.Operator})
	}
	if o.Details != nil {
		part.Named = o.Details.Named
	}
	return part
}
