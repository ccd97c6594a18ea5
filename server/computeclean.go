package server

import (
	"net/http"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// cancelCompute calls a job off. The body is what an event takes.
func (s *Server) cancelCompute(w http.ResponseWriter, r *http.Request) error {
	return s.endCompute(w, r, compute.Cancel)
}

// cleanCompute removes the files of a job that has ended before they are kept long enough. One that has not ended is refused. The body is what an event takes.
func (s *Server) cleanCompute(w http.ResponseWriter, r *http.Request) error {
	return s.endCompute(w, r, compute.Clean)
}

// endCompute calls a job off, or removes its files, as the body says.
func (s *Server) endCompute(w http.ResponseWriter, r *http.Request, event lifecycle.Event) error {
	if err := read(r).done(); err != nil {
		return err
	}
	app, j, err := s.computeJob(r)
	if err != nil {
		return err
	}
	a, err := decode[client.Act](r, false)
	if err != nil {
		return err
	}
	return s.dropCompute(w, r, app, &j, &a, event)
}

// deleteCompute calls a job off. One that has ended keeps its files: a DELETE that is sent again because its answer was lost must not remove what the first one left. version, note, actor
// and as stand in the query, for not all can send a body with a DELETE.
func (s *Server) deleteCompute(w http.ResponseWriter, r *http.Request) error {
	p := read(r)
	a := client.Act{Note: p.text("note"), Actor: p.text("actor"), As: p.text("as"), Version: p.number("version", 0, 1<<62)}
	if err := p.done(); err != nil {
		return err
	}
	app, j, err := s.computeJob(r)
	if err != nil {
		return err
	}
	return s.dropCompute(w, r, app, &j, &a, compute.Cancel)
}

// dropCompute does what an act on a job asks for: to call it off, or to remove its files.
func (s *Server) dropCompute(w http.ResponseWriter, r *http.Request, app Compute, j *job.Job, a *client.Act, event lifecycle.Event) error {
	by, actor, err := identity(r, a.As, a.Actor)
	if err != nil {
		return err
	}
	if err := tooLong("note", a.Note, mostNote); err != nil {
		return err
	}
	do := app.Cancel
	if event == compute.Clean {
		do = app.Clean
	}
	now, err := do(r.Context(), j.ID, compute.Wish{By: by, Actor: actor, Note: a.Note, Version: a.Version})
	if err != nil {
		return s.situate(r, err, event, by)
	}
	return s.replyCompute(w, r, app, &now, http.StatusOK)
}
