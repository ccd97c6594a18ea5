package ingesthttp

import (
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/server"
)

// fixity answers with the shape of api.Fixity.
func (s *Handlers) fixity(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, err := s.details()
	if err != nil {
		return err
	}
	status, err := app.Fixity(r.Context())
	if err != nil {
		return err
	}
	return server.Reply(w, status)
}

// checkFixity answers as fixity does, at once: the check runs in the background.
func (s *Handlers) checkFixity(w http.ResponseWriter, r *http.Request) error {
	f, err := server.Body[api.CheckFixity](r, false)
	if err != nil {
		return err
	}
	_, actor, err := server.ActorOf(r, "", f.Actor)
	if err != nil {
		return err
	}
	app, err := s.details()
	if err != nil {
		return err
	}
	if err := app.CheckFixity(r.Context(), f.Location, actor, f.Note); err != nil {
		return err
	}
	status, err := app.Fixity(r.Context())
	if err != nil {
		return err
	}
	return server.ReplyAs(w, http.StatusAccepted, status)
}
