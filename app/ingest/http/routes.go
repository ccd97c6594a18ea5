package ingesthttp

import (
	"net/http"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/hooks"
	"github.com/stagepost/stagepost/server/openapi"
	"github.com/stagepost/stagepost/web"
)

// routes lists the routes of storage, submissions, packages and profiles.
func (s *Handlers) routes() []server.Route {
	return slices.Concat(s.storageRoutes(), s.submissionRoutes(), s.merrittRoutes(), s.accessRoutes(),
		s.profileRoutes(), s.shareRoutes(), s.batchRoutes(), s.profilePages(),
		web.HookRoutes(s.Server, "/hooks", "/api/v1/hooks"))
}

// storageRoutes lists the routes of storage locations and of what is checked in them.
func (s *Handlers) storageRoutes() []server.Route {
	return []server.Route{
		{Method: http.MethodGet, Pattern: "/api/v1/storage", Who: server.Operator, Doc: "Storage locations: " +
			"directory, owner, whether they may be used and why not.", Handle: s.storageLocations,
			IO: openapi.IO{Out: api.StorageLocations{}}},
		{Method: http.MethodPost, Pattern: "/api/v1/storage", Who: server.Admin,
			Doc: "Gives a storage location to this installation: dir, note (why), actor.", Handle: s.adoptLocation,
			IO: openapi.IO{In: api.Adoption{}, Out: api.StorageLocation{}}},
		{Method: http.MethodGet, Pattern: "/api/v1/orphans", Who: server.Operator,
			Doc: "Orphaned files, directories, locks, versions and messages.", Handle: s.orphans,
			IO: openapi.IO{Out: api.Orphans{}}},
		{Method: http.MethodPost, Pattern: "/api/v1/orphans", Who: server.Admin, Doc: "Removes the deletable " +
			"orphans with level FAIL: expect (their number), note, actor.", Handle: s.fixOrphans,
			IO: openapi.IO{In: api.FixOrphans{}, Out: api.FixedOrphans{}, Once: true}},
	}
}

// submissionRoutes lists the routes of submissions, batches, jobs and objects.
func (s *Handlers) submissionRoutes() []server.Route {
	return []server.Route{
		{Method: http.MethodPost, Pattern: "/api/v1/ingest/submissions", Who: server.Own, Grouped: true,
			Doc: "Submits a payload: " +
				"multipart/form-data with a part `submission` (JSON) or single fields, then the part `payload`.",
			Handle: s.submit, Upload: true, NoReason: server.NewWork,
			IO: openapi.IO{Parts: map[string]any{"submission": api.Submission{}, "payload": nil}, Out: api.Job{},
				Status: http.StatusCreated, Also: map[int]any{200: api.Job{}}}},
		{Method: http.MethodGet, Pattern: "/api/v1/ingest/batches/{id}/report", Who: server.Person, Doc: "The report " +
			"about a batch: format=json, text, html, csv-completed or csv-failed, else what Accept asks for.",
			Handle: s.report,
			IO: openapi.IO{Out: api.BatchReport{}, Media: []string{"text/plain", "text/html", "text/csv"},
				Query: openapi.Query("format")}},
		{Method: http.MethodGet, Pattern: "/batches/{id}", Who: server.Person, Doc: "A page for the depositor of a " +
			"batch: how it stands, what failed and why; refresh=off keeps it still.", Handle: s.batchPage,
			IO: openapi.IO{Media: openapi.HTML, Query: openapi.Query("refresh")}},
		{Method: http.MethodGet, Pattern: "/api/v1/ingest/batches/{id}/submission", Who: server.Person,
			Doc: "What was handed in with a batch.", Handle: s.submission,
			IO: openapi.IO{Out: api.Handed{}}},
		{Method: http.MethodGet, Pattern: "/api/v1/ingest/jobs/{id}/manifest", Who: server.Person,
			Doc: "The manifest of a job or batch as it was received.", Handle: s.manifest,
			IO: openapi.IO{Media: openapi.Text}},
		{Method: http.MethodGet, Pattern: "/api/v1/ingest/jobs/{id}/files", Who: server.Person, Doc: "A page of the " +
			"files of a job with digests and where they come from: wanted, fetched or stored; after, limit.",
			Handle: s.jobFiles,
			IO:     openapi.IO{Out: api.JobFiles{}, Query: openapi.Query("after", "limit")}},
		{Method: http.MethodGet, Pattern: "/api/v1/ingest/jobs/{id}/metadata", Who: server.Person,
			Doc: "ERC and Dublin Core of a job's object.", Handle: s.metadata,
			IO: openapi.IO{Out: api.Metadata{}}},
		{Method: http.MethodGet, Pattern: "/api/v1/ingest/objects", Who: server.Own, Doc: "Stored objects, for users " +
			"those that they may update: ark, local_id, owner, digest, after, limit.", Handle: s.objects,
			IO: openapi.IO{Out: api.Objects{},
				Query: openapi.Query("ark", "local_id", "owner", "digest", "after", "limit")}},
	}
}

// merrittMedia are the media types of Merritt's answers.
var merrittMedia = []string{"text/xml", "application/json", "text/x-anvl"}

// merrittRoutes lists the addresses of Merritt's ingest, for depositors whose programs were made for it.
func (s *Handlers) merrittRoutes() []server.Route {
	var all []server.Route
	for _, one := range []struct {
		name   string
		update bool
		doc    string
	}{
		{"submitobject", true, "Submits files as Merritt takes them, and adds a version to the object if it is stored"},
		{"updateobject", true, "Adds a version to an object as Merritt does: files that are not submitted stay"},
		{"addobject", false, "Submits files as Merritt takes them; a version has the submitted files and no others"},
		{"submit", true, "The same as submitobject"}, {"update", true, "The same as updateobject"},
		{"add", false, "The same as addobject"},
		{"object/ingest", false, "The same as addobject, at the address of Merritt's web pages"},
		{"object/update", true, "The same as updateobject, at the address of Merritt's web pages"},
	} {
		patterns := []string{"/" + one.name, "/" + one.name + "/{scheme}/{shoulder}/{objectid}"}
		if strings.Contains(one.name, "/") {
			patterns = patterns[:1]
		}
		for _, pattern := range patterns {
			all = append(all, server.Route{
				Method: http.MethodPost, Pattern: pattern, Who: server.Own, Grouped: true, Doc: one.doc +
					": multipart/form-data with the fields of Merritt and one file or several.",
				Handle: s.merritt(one.update), Fault: refuseMerritt, Upload: true, Basic: true,
				NoReason: "it is new work in a form of Merritt, which may have a note",
				IO: openapi.IO{Parts: map[string]any{"file": nil, "profile": nil, "type": nil, "responseForm": nil},
					Media: merrittMedia, Faults: merrittMedia, Keyed: true},
			})
		}
	}
	return all
}

// accessRoutes lists the routes of packages of stored objects.
func (s *Handlers) accessRoutes() []server.Route {
	return []server.Route{
		{Method: http.MethodPost, Pattern: "/api/v1/access", Who: server.Own, Right: server.Content,
			Doc: "Asks for an object, a version or a list of files as a package: object, or local_id and owner; " +
				"version, files, format (zip, tar, bag-zip, bag-tar), name, requester, key. Answers 202 with a token.",
			Handle:   s.requestAccess,
			NoReason: "it makes a copy of what is stored, and changes nothing of it",
			IO:       openapi.IO{In: api.AccessRequest{}, Out: api.Access{}, Status: http.StatusAccepted}},
		{Method: http.MethodGet, Pattern: "/api/v1/access/{token}", Who: server.Anyone, Doc: "What became of the " +
			"request of a token: status (200 ready, 201 queued, 202 not ready, 500 failed), words, progress, expiry.",
			Handle: s.accessStatus,
			IO:     openapi.IO{Out: api.Access{}}},
		{Method: http.MethodGet, Pattern: "/api/v1/access/{token}/content", Who: server.Anyone, Doc: "The package of " +
			"a token, whole or in ranges; 409 while it is not ready, 410 when it has expired.", Handle: s.accessContent,
			IO: openapi.IO{Media: openapi.Any, Also: map[int]any{206: nil}}},
	}
}

// profileRoutes lists the routes of profiles.
func (s *Handlers) profileRoutes() []server.Route {
	return []server.Route{
		{Method: http.MethodGet, Pattern: "/api/v1/ingest/profiles", Who: server.Shared,
			Doc: "The profiles in short, and how their directory stands.", Handle: s.profiles,
			IO: openapi.IO{Out: api.Profiles{}}},
		{Method: http.MethodGet, Pattern: "/api/v1/ingest/profiles/schema", Who: server.Anyone,
			Doc: "The JSON Schema of profile files.", Handle: s.profileSchema,
			IO: openapi.IO{Media: []string{"application/schema+json"}}},
		{Method: http.MethodGet, Pattern: "/api/v1/ingest/profiles/{id}", Who: server.Operator, Doc: "Every value of " +
			"a profile, defaults included, and where it came from; queries of URLs are ***.", Handle: s.profile,
			IO: openapi.IO{Out: api.ProfileValues{}}},
		{Method: http.MethodPost, Pattern: "/api/v1/ingest/profiles/reload", Who: server.Operator, Doc: "Reads the " +
			"profile directory again: actor, note. A broken one changes nothing.", Handle: s.reloadProfiles,
			IO: openapi.IO{In: api.ReloadProfiles{}, Out: api.ProfileChange{}}},
	}
}

// hookRoutes lists the routes of notifications.
func (s *Handlers) hookRoutes() []server.Route {
	log := func() (hooks.Log, error) { return s.hookLog() }
	return append(hooks.Routes("/api/v1/hooks", log), server.Route{
		Method: http.MethodPost, Pattern: "/api/v1/hooks/ping", Who: server.Operator, Doc: "Sends a notification of " +
			"type ping to the webhooks of a profile: profile, hook, note, actor.", Handle: s.pingHooks,
		IO: openapi.IO{In: api.PingHooks{}, Out: api.PingedHooks{}, Once: true},
	})
}
