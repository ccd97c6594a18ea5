package archivehttp

import (
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/server"
)

// mostDeletions is the number of requests to delete that are listed.
const mostDeletions = 10_000

// hold answers with the shape of api.ArchiveHolds.
func (s *Handlers) hold(w http.ResponseWriter, r *http.Request) error {
	app, h, err := body[api.HoldArchive](s, r, false)
	if err != nil {
		return err
	}
	if h.Actor, err = actorOf(r, h.Actor, h.Note); err != nil {
		return err
	}
	if err := server.CheckName("name", h.Name); err != nil {
		return err
	}
	all, err := app.Hold(r.Context(), server.JobID(r), h)
	if err != nil {
		return err
	}
	return server.Reply(w, api.ArchiveHolds{Holds: all})
}

func checkNote(note string) error { return server.CheckText("note", note, server.MostNote) }

// actorOf returns who sends a request, and checks its note.
func actorOf(r *http.Request, actor, note string) (string, error) {
	_, actor, err := server.ActorOf(r, "", actor)
	if err == nil {
		err = checkNote(note)
	}
	return actor, err
}

// release answers with the shape of api.ArchiveHolds.
func (s *Handlers) release(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	note, actor := p.Text("note"), p.Text("actor")
	if err := p.Err(); err != nil {
		return err
	}
	app, err := s.app()
	if err != nil {
		return err
	}
	if actor, err = actorOf(r, actor, note); err != nil {
		return err
	}
	all, err := app.Release(r.Context(), server.JobID(r), r.PathValue("name"), actor, note)
	if err != nil {
		return err
	}
	return server.Reply(w, api.ArchiveHolds{Holds: all})
}

// requestDeletion answers with the shape of api.ArchiveDeletion.
func (s *Handlers) requestDeletion(w http.ResponseWriter, r *http.Request) error {
	app, d, err := body[api.DeleteArchive](s, r, false)
	if err != nil {
		return err
	}
	if d.Actor, err = actorOf(r, d.Actor, d.Note); err != nil {
		return err
	}
	request := app.RequestDeletion
	if !s.Owns(r.Context(), "") { // no admin
		request = app.RequestEarly
	}
	v, err := request(r.Context(), server.JobID(r), d.Actor, d.Note)
	if err != nil {
		return err
	}
	return server.ReplyAs(w, http.StatusAccepted, v)
}

// deletions answers with the shape of api.ArchiveDeletions.
func (s *Handlers) deletions(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	state := p.Choice("state", states.Values...)
	if err := p.Err(); err != nil {
		return err
	}
	app, err := s.app()
	if err != nil {
		return err
	}
	all, err := app.Deletions(r.Context(), state, mostDeletions)
	if err != nil {
		return err
	}
	return server.Reply(w, api.ArchiveDeletions{Deletions: all})
}

// decide answers with the shape of api.ArchiveDeletion.
func (s *Handlers) decide(w http.ResponseWriter, r *http.Request) error {
	app, d, err := body[api.DecideDeletion](s, r, true)
	if err != nil {
		return err
	}
	if d.Actor, err = actorOf(r, d.Actor, d.Note); err != nil {
		return err
	}
	if d.Approve {
		if err := s.Entitle(r.Context(), server.Deletion, ""); err != nil {
			return err
		}
	}
	v, err := app.DecideDeletion(r.Context(), r.PathValue("request"), d.Actor, d.Approve, d.Note)
	if err != nil {
		return err
	}
	return server.ReplyAs(w, http.StatusAccepted, v)
}
