package archivehttp

import (
	"net/http"
	"slices"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/openapi"
)

const prefix = "/api/v1/archive"

// routes lists the routes of archives.
func (s *Handlers) routes() []server.Route {
	return slices.Concat(s.makeRoutes(), s.scheduleRoutes(), s.hookRoutes(), s.readRoutes(), s.deletionRoutes(),
		s.peopleRoutes(), s.printingRoutes())
}

// makeRoutes are for what is to be archived.
func (s *Handlers) makeRoutes() []server.Route {
	return []server.Route{
		{Method: http.MethodPost, Pattern: prefix + "/jobs", Who: server.Operator,
			Doc: "Archives a course, or some of its activities: source, course, activities, preset, settings, owner, " +
				"group, priority, note, actor, key.", Handle: s.submit, NoReason: server.NewWork,
			IO: openapi.IO{In: api.ArchiveOrder{}, Out: api.Job{},
				Status: http.StatusCreated, Also: map[int]any{200: api.Job{}}}},
		{Method: http.MethodPost, Pattern: prefix + "/plan", Who: server.Operator,
			Doc:    "What a request would archive, with which settings, and where; nothing is started.",
			Handle: s.plan, NoReason: "it reads the source, and changes nothing",
			IO: openapi.IO{In: api.ArchiveRequest{}, Out: api.ArchivePlan{}}},
		{Method: http.MethodPost, Pattern: prefix + "/events/{receiver}", Who: server.Anyone,
			Doc: "Starts an archive job for an event of another system, which signs it: type, course, activities, " +
				"after.", Handle: s.receive, NoReason: "the event is the reason",
			IO: openapi.IO{In: api.ArchiveEvent{}, Out: api.ArchiveAccepted{}, Status: http.StatusAccepted}},
		{Method: http.MethodGet, Pattern: prefix + "/sources", Who: server.Operator,
			Doc: "The sources that can be archived, and the storage locations.", Handle: s.sources,
			IO: openapi.IO{Out: api.ArchiveSources{}}},
		{Method: http.MethodGet, Pattern: prefix + "/sources/{source}/courses/{course}", Who: server.Operator,
			Doc: "What of a course is archived, changed since, or missing.", Handle: s.overview,
			IO: openapi.IO{Out: api.ArchiveOverview{}}},
	}
}

// scheduleRoutes are for schedules.
func (s *Handlers) scheduleRoutes() []server.Route {
	return []server.Route{
		{Method: http.MethodGet, Pattern: prefix + "/schedules", Who: server.Operator,
			Doc: "The schedules with their next time and their newest run.", Handle: s.schedules,
			IO: openapi.IO{Out: api.ArchiveSchedules{}}},
		{Method: http.MethodPost, Pattern: prefix + "/schedules/{schedule}/runs", Who: server.Operator,
			Doc:    "Starts a run of a schedule now, a paused one too: dry_run (no archive jobs), note, actor, key.",
			Handle: s.startSchedule, NoReason: server.NewWork,
			IO: openapi.IO{In: api.StartSchedule{}, Out: api.Job{},
				Status: http.StatusCreated, Also: map[int]any{200: api.Job{}}}},
	}
}

// outcomes are those of archives.
var outcomes = openapi.Parameter{
	Name: "outcome", Values: []string{"making", "complete", "failed", "deleted"}, Doc: "Outcome of the archives.",
}

// states are those of requests to delete.
var states = openapi.Parameter{
	Name: "state", Values: []string{"requested", "approved", "refused", "executing", "done"},
	Doc: "State of the requests.",
}

// formats are those of preservation metadata.
var formats = openapi.Parameter{
	Name: "format", Values: []string{"xml", "json"}, Default: "xml", Doc: "Form of the answer.",
}

// readRoutes are for archives that were made.
func (s *Handlers) readRoutes() []server.Route {
	filters := append([]openapi.Parameter{
		{Name: "source", Doc: "Source of the archives."},
		{Name: "course", Doc: "Course of the archives, by its id in the source."},
		{Name: "activity", Doc: "Archives with this activity, by its id in the source."}, outcomes,
	}, openapi.Query("owner", "after", "limit")...)
	return []server.Route{
		{Method: http.MethodGet, Pattern: prefix + "/archives", Who: server.Own, Doc: "A page of archives, the " +
			"newest first, for users their own: source, course, activity, outcome, owner, after, limit.",
			Handle: s.archives, IO: openapi.IO{Out: api.Archives{}, Query: filters}},
		{Method: http.MethodGet, Pattern: prefix + "/archives/{id}", Who: server.Person, Doc: "An archive: its " +
			"activities, copies, time stamps, legal holds, requests to delete.", Handle: s.details,
			IO: openapi.IO{Out: api.ArchiveDetails{}}},
		{Method: http.MethodGet, Pattern: prefix + "/archives/{id}/artifacts", Who: server.Person,
			Doc: "A page of the files of an archive with their digests, and of their copies with the digest and the " +
				"fixity check of each: after, limit.", Handle: s.artifacts,
			IO: openapi.IO{Out: api.ArchiveArtifacts{}, Query: openapi.Query("after", "limit")}},
		{Method: http.MethodGet, Pattern: prefix + "/archives/{id}/content/{path...}", Who: server.Person,
			Right: server.Content,
			Doc: "A file of an archive, whole or in ranges, from the best copy; 202 while a slow storage location " +
				"recalls it.", Handle: s.content,
			IO: openapi.IO{Media: openapi.Any, Also: map[int]any{202: api.ArchiveRecall{}, 206: nil}}},
		{Method: http.MethodGet, Pattern: prefix + "/archives/{id}/premis", Who: server.Person,
			Doc: "Preservation metadata of an archive as it is now (PREMIS 3.0).", Handle: s.premis,
			IO: openapi.IO{Media: []string{"application/xml", "application/json"},
				Query: []openapi.Parameter{formats}}},
	}
}

// deletionRoutes are for legal holds and deletion.
func (s *Handlers) deletionRoutes() []server.Route {
	return []server.Route{
		{Method: http.MethodPost, Pattern: prefix + "/archives/{id}/holds", Who: server.Operator,
			Doc:    "Puts a legal hold on an archive, which keeps it from being deleted: name, note (why), actor.",
			Handle: s.hold, IO: openapi.IO{In: api.HoldArchive{}, Out: api.ArchiveHolds{}, Once: true}},
		{Method: http.MethodDelete, Pattern: prefix + "/archives/{id}/holds/{name}", Who: server.Operator,
			Doc: "Releases a legal hold: note (why), actor.", Handle: s.release,
			IO: openapi.IO{Out: api.ArchiveHolds{}, Query: openapi.Query("note", "actor")}},
		{Method: http.MethodPost, Pattern: prefix + "/archives/{id}/deletion", Who: server.Operator,
			Doc: "Requests that an archive is deleted: note (why), actor. Before its retention time has ended " +
				"an admin, who is another person, has to approve it; after it only admins request it.",
			Handle: s.requestDeletion,
			IO: openapi.IO{In: api.DeleteArchive{}, Out: api.ArchiveDeletion{}, Status: http.StatusAccepted,
				Once: true}},
		{Method: http.MethodGet, Pattern: prefix + "/deletions", Who: server.Operator,
			Doc: "Requests to delete archives, the oldest first: state.", Handle: s.deletions,
			IO: openapi.IO{Out: api.ArchiveDeletions{}, Query: []openapi.Parameter{states}}},
		{Method: http.MethodPost, Pattern: prefix + "/deletions/{request}", Who: server.Operator,
			Doc: "Approves (admins) or refuses a request to delete: approve, note, actor. The person who requested " +
				"it cannot approve it.", Handle: s.decide,
			IO: openapi.IO{In: api.DecideDeletion{}, Out: api.ArchiveDeletion{}, Status: http.StatusAccepted}},
	}
}

// peopleRoutes are for the data of people. What is searched for is in the body: URLs are logged.
func (s *Handlers) peopleRoutes() []server.Route {
	return []server.Route{
		{Method: http.MethodPost, Pattern: prefix + "/people", Who: server.Operator, Doc: "Finds people whose data " +
			"archives contain: text (name, username, number, mail address or id), note (why), actor.",
			Handle: s.people, IO: openapi.IO{In: api.FindPeople{}, Out: api.ArchivePeople{}}},
		{Method: http.MethodPost, Pattern: prefix + "/people/data", Who: server.Operator,
			Doc: "What archives have of a person: source, id, note (why), actor.", Handle: s.personData,
			IO: openapi.IO{In: api.NamePerson{}, Out: api.ArchivePersonData{}}},
		{Method: http.MethodPost, Pattern: prefix + "/people/erase", Who: server.Admin,
			Doc: "Removes a person from the catalog and lists the archives with data of the person: source, id, " +
				"expect (number of contents), note (why), actor.", Handle: s.erase,
			IO: openapi.IO{In: api.ErasePerson{}, Out: api.ArchiveErasure{}}},
	}
}
