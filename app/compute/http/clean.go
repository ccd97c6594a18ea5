package computehttp

import (
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
)

// cancelCompute cancels a job. The body is what an event takes.
func (s *Handlers) cancelCompute(w http.ResponseWriter, r *http.Request) error {
	return s.endCompute(w, r, compute.Cancel)
}

// cleanCompute removes the files of a job that has ended before they are kept long enough. One that has not ended is
// refused. The body is what an event takes.
func (s *Handlers) cleanCompute(w http.ResponseWriter, r *http.Request) error {
	return s.endCompute(w, r, compute.Clean)
}

// endCompute cancels a job, or removes its files, as the body requests.
func (s *Handlers) endCompute(w http.ResponseWriter, r *http.Request, event lifecycle.Event) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, j, err := s.computeJob(r)
	if err != nil {
		return err
	}
	a, err := server.Decode[api.Act](r, false)
	if err != nil {
		return err
	}
	return s.dropCompute(w, r, app, &j, &a, event)
}

// deleteCompute cancels a job. One that has ended keeps its files: a DELETE that is sent again because its answer was
// lost must not remove what the first one left. version, note, actor and as stand in the query, for not all can send a
// body with a DELETE.
func (s *Handlers) deleteCompute(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	a := api.Act{Note: p.Text("note"), Actor: p.Text("actor"), As: p.Text("as"), Version: p.Number("version", 0, 1<<62)}
	if err := p.Err(); err != nil {
		return err
	}
	app, j, err := s.computeJob(r)
	if err != nil {
		return err
	}
	return s.dropCompute(w, r, app, &j, &a, compute.Cancel)
}

// dropCompute does what an act on a job asks for: it cancels the job, or removes its files.
func (s *Handlers) dropCompute(w http.ResponseWriter, r *http.Request, app Compute, j *job.Job, a *api.Act,
	event lifecycle.Event) error {
	by, actor, err := server.ActorOf(r, a.As, a.Actor)
	if err != nil {
		return err
	}
	if err := server.CheckText("note", a.Note, server.MostNote); err != nil {
		return err
	}
	if a.Version, err = server.VersionOf(r, a.Version); err != nil {
		return err
	}
	do := app.Cancel
	if event == compute.Clean {
		do = app.Clean
	}
	now, err := do(r.Context(), j.ID, compute.Request{By: by, Actor: actor, Note: a.Note, Version: a.Version})
	if err != nil {
		return s.ExplainRefusal(r, err, event, by)
	}
	return s.replyCompute(w, r, app, &now, http.StatusOK)
}
