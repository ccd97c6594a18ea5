package server

import (
	"net/http"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// cleanCompute removes the files of a job that has ended before they are kept long enough. One that has not ended is refused.
func (s *Server) cleanCompute(w http.ResponseWriter, r *http.Request) error {
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
	return s.dropCompute(w, r, app, &j, &a, true)
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
	return s.dropCompute(w, r, app, &j, &a, false)
}

// dropCompute removes the files of a job, or calls it off.
func (s *Server) dropCompute(w http.ResponseWriter, r *http.Request, app Compute, j *job.Job, a *client.Act, clean bool) error {
	by, actor, err := identity(r, a.As, a.Actor)
	if err != nil {
		return err
	}
	if err := tooLong("note", a.Note, mostNote); err != nil {
		return err
	}
	do, event := app.Cancel, compute.Cancel
	if clean {
		do, event = app.Clean, compute.Clean
	}
	now, err := do(r.Context(), j.ID, compute.Wish{By: by, Actor: actor, Note: a.Note, Version: a.Version})
	if err != nil {
		return s.situate(r, err, event, by)
	}
	return s.replyCompute(w, r, app, &now, http.StatusOK)
}
