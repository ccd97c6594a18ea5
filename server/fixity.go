package server

import (
	"net/http"

	"github.com/stagepost/stagepost/client"
)

// fixity answers with the shape of client.Fixity.
func (s *Server) fixity(w http.ResponseWriter, r *http.Request) error {
	if err := read(r).done(); err != nil {
		return err
	}
	app, err := s.sight()
	if err != nil {
		return err
	}
	status, err := app.Fixity(r.Context())
	if err != nil {
		return err
	}
	return reply(w, status)
}

// checkFixity answers as fixity does, at once: the check runs in the background.
func (s *Server) checkFixity(w http.ResponseWriter, r *http.Request) error {
	if err := read(r).done(); err != nil {
		return err
	}
	f, err := decode[client.CheckFixity](r, false)
	if err != nil {
		return err
	}
	_, actor, err := identity(r, "", f.Actor)
	if err != nil {
		return err
	}
	app, err := s.sight()
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
	return replyAs(w, http.StatusAccepted, status)
}
