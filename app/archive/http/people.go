package archivehttp

import (
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/server"
)

// people answers with the shape of api.ArchivePeople.
func (s *Handlers) people(w http.ResponseWriter, r *http.Request) error {
	app, f, err := body[api.FindPeople](s, r, true)
	if err != nil {
		return err
	}
	if _, f.Actor, err = server.ActorOf(r, "", f.Actor); err != nil {
		return err
	}
	if err := checkNote(f.Note); err != nil {
		return err
	}
	found, err := app.People(r.Context(), f)
	if err != nil {
		return err
	}
	return server.Reply(w, found)
}

// personData answers with the shape of api.ArchivePersonData.
func (s *Handlers) personData(w http.ResponseWriter, r *http.Request) error {
	app, p, err := body[api.NamePerson](s, r, true)
	if err != nil {
		return err
	}
	if _, p.Actor, err = server.ActorOf(r, "", p.Actor); err != nil {
		return err
	}
	if err := checkNote(p.Note); err != nil {
		return err
	}
	d, err := app.PersonData(r.Context(), p)
	if err != nil {
		return err
	}
	return server.Reply(w, d)
}

// erase answers with the shape of api.ArchiveErasure.
func (s *Handlers) erase(w http.ResponseWriter, r *http.Request) error {
	app, e, err := body[api.ErasePerson](s, r, true)
	if err != nil {
		return err
	}
	if _, e.Actor, err = server.ActorOf(r, "", e.Actor); err != nil {
		return err
	}
	if err := checkNote(e.Note); err != nil {
		return err
	}
	done, err := app.ErasePerson(r.Context(), e)
	if err != nil {
		return err
	}
	return server.Reply(w, done)
}
