// Package archivehttp serves archives over HTTP: requests and plans, overviews of courses, archives with their files,
// legal holds, deletion, and the data of people.
package archivehttp

import (
	"context"
	"io"
	"net/http"
	"slices"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/app/archive/custody"
	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/app/archive/trigger"
	"github.com/stagepost/stagepost/format/premis"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/hooks"
	"github.com/stagepost/stagepost/server/problem"
	"github.com/stagepost/stagepost/web"
)

// Maker makes archives, and reads their sources. *archive.App implements it.
type Maker interface {
	Submit(ctx context.Context, r archive.Request, o archive.Ordered) (job.Job, error)
	Plan(ctx context.Context, r archive.Request) (api.ArchivePlan, error)
	Overview(ctx context.Context, source, course string) (api.ArchiveOverview, error)
	Available(ctx context.Context) (api.ArchiveSources, error)
}

// Reader reads archives that were made. *archive.App implements it.
type Reader interface {
	Archives(ctx context.Context, q custody.Query) (api.Archives, error)
	Details(ctx context.Context, id job.ID) (api.ArchiveDetails, error)
	Artifacts(ctx context.Context, id job.ID, after string, limit int) (api.ArchiveArtifacts, error)
	Retrieve(ctx context.Context, id job.ID, path string, offset int64) (*custody.Artifact, error)
	Preservation(ctx context.Context, id job.ID) (*premis.Document, error)
}

// Remover holds and deletes archives. *archive.App implements it.
type Remover interface {
	Hold(ctx context.Context, id job.ID, h api.HoldArchive) ([]api.ArchiveHold, error)
	Release(ctx context.Context, id job.ID, name, actor, note string) ([]api.ArchiveHold, error)
	RequestDeletion(ctx context.Context, id job.ID, by, note string) (api.ArchiveDeletion, error)
	// RequestEarly is RequestDeletion for a person who may not delete.
	RequestEarly(ctx context.Context, id job.ID, by, note string) (api.ArchiveDeletion, error)
	DecideDeletion(ctx context.Context, request, by string, approve bool, note string) (api.ArchiveDeletion, error)
	Deletions(ctx context.Context, state string, limit int) ([]api.ArchiveDeletion, error)
}

// Eraser finds and erases people. *archive.App implements it.
type Eraser interface {
	People(ctx context.Context, f api.FindPeople) (api.ArchivePeople, error)
	PersonData(ctx context.Context, p api.NamePerson) (api.ArchivePersonData, error)
	ErasePerson(ctx context.Context, e api.ErasePerson) (api.ArchiveErasure, error)
}

// Receiver accepts events of other systems. *trigger.App implements it.
type Receiver interface {
	Receive(ctx context.Context, name string, h http.Header, body io.Reader) (job.Job, error)
}

// Scheduler has the schedules. *trigger.App does their work.
type Scheduler interface {
	// Schedules is [trigger.App.Statuses].
	Schedules(ctx context.Context) ([]trigger.Status, error)
	// StartSchedule is [trigger.App.Start].
	StartSchedule(ctx context.Context, name string, r api.StartSchedule) (job.Job, error)
}

// Hooks are the notifications to webhooks. *archive.App implements it.
type Hooks interface {
	hooks.Log
	Ping(ctx context.Context, p api.PingArchiveHooks) ([]api.Ping, error)
}

// Printing exchanges files with workers elsewhere that print PDF files. *pdf.App implements it.
type Printing interface {
	Held(ctx context.Context, worker string, l job.Lease) (*api.Leased, error)
	pdf.Files
}

// Archive is the application.
type Archive interface {
	// Printing gives the jobs that print PDF files.
	Printing() Printing
	Maker
	Receiver
	Scheduler
	Reader
	Remover
	Eraser
	Hooks
}

// Handlers answer requests.
type Handlers struct {
	*server.Server
	Archive Archive
	pages   *web.Pages
}

// Part gives the routes of archives for a server. A nil server is enough to list the routes; a nil application refuses
// requests.
func Part(s *server.Server, app Archive) server.Part {
	h := &Handlers{s, app, web.New(s, files)}
	return server.Part{Routes: slices.Concat(h.routes(), h.pageRoutes()), About: archive.About, Pages: h.sitePages()}
}

func (s *Handlers) app() (Archive, error) {
	if s.Archive == nil {
		return nil, problem.Absent("archive", "this server has no archives", "setting archive.config")
	}
	return s.Archive, nil
}

// body gives the application and the body of an operation without parameters.
func body[T any](s *Handlers, r *http.Request, required bool) (app Archive, v T, err error) {
	if err := server.Params(r).Err(); err != nil {
		return nil, v, err
	}
	if app, err = s.app(); err != nil {
		return nil, v, err
	}
	v, err = server.Decode[T](r, required)
	return app, v, err
}
