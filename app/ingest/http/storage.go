package ingesthttp

import (
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
)

// storageLocations answers with the shape of api.StorageLocations.
func (s *Handlers) storageLocations(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, err := s.details()
	if err != nil {
		return err
	}
	all, err := app.Locations(r.Context())
	if err != nil {
		return err
	}
	return server.Reply(w, api.StorageLocations{Locations: all})
}

// adoptLocation answers with the shape of api.StorageLocation.
func (s *Handlers) adoptLocation(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, err := s.details()
	if err != nil {
		return err
	}
	a, err := server.Decode[api.Adoption](r, true)
	if err != nil {
		return err
	}
	_, actor, err := server.ActorOf(r, "", a.Actor)
	switch {
	case err != nil:
		return err
	case a.Dir == "" || a.Note == "":
		return job.Errorf(job.Invalid, "adopt", "",
			"dir and note are needed: which storage location, and why (for the audit log)")
	}
	a.Actor = actor
	l, err := app.Adopt(r.Context(), a)
	if err != nil {
		return err
	}
	return server.Reply(w, l)
}
