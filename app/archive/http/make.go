package archivehttp

import (
	"cmp"
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
)

// submit creates an archive job.
func (s *Handlers) submit(w http.ResponseWriter, r *http.Request) error {
	app, o, err := body[api.ArchiveOrder](s, r, true)
	if err != nil {
		return err
	}
	by, actor, err := server.ActorOf(r, "", o.Actor)
	if err != nil {
		return err
	}
	if o.Key, err = server.KeyOf(r, o.Key, o); err != nil {
		return err
	}
	owner := server.OwnerFor(r.Context(), o.Owner)
	if owner == "" {
		owner = actor
	}
	for what, name := range map[string]string{"owner": owner, "group": o.Group} {
		if err := server.CheckName(what, name); err != nil {
			return err
		}
	}
	if err := server.CheckText("note", o.Note, server.MostNote); err != nil {
		return err
	}
	j, err := app.Submit(r.Context(), o.ArchiveRequest, archive.Ordered{
		Owner: owner, Actor: cmp.Or(actor, by.String()), Key: o.Key, By: by, Priority: o.Priority, Group: o.Group,
	})
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/api/v1/jobs/"+string(j.ID))
	return server.ReplyJob(w, r, server.Made(w, r), j.Version, s.View(j))
}

// plan answers with the shape of api.ArchivePlan.
func (s *Handlers) plan(w http.ResponseWriter, r *http.Request) error {
	app, request, err := body[api.ArchiveRequest](s, r, true)
	if err != nil {
		return err
	}
	server.ExtendDeadline(w)
	p, err := app.Plan(r.Context(), request)
	if err != nil {
		return err
	}
	return server.Reply(w, p)
}

// sources answers with the shape of api.ArchiveSources.
func (s *Handlers) sources(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, err := s.app()
	if err != nil {
		return err
	}
	all, err := app.Available(r.Context())
	if err != nil {
		return err
	}
	return server.Reply(w, all)
}

// overview answers with the shape of api.ArchiveOverview.
func (s *Handlers) overview(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, err := s.app()
	if err != nil {
		return err
	}
	server.ExtendDeadline(w)
	o, err := app.Overview(r.Context(), r.PathValue("source"), r.PathValue("course"))
	if job.KindOf(err) == job.Invalid { // the path names it
		err = job.Errorf(job.NotFound, "overview", "", "%w", err)
	}
	if err != nil {
		return err
	}
	return server.Reply(w, o)
}
