package ingesthttp

import (
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/orphans"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
)

func (s *Handlers) orphans(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, err := s.details()
	if err != nil {
		return err
	}
	server.ExtendDeadline(w)
	report, err := app.Orphans(r.Context())
	if err != nil {
		return err
	}
	return server.Reply(w, report)
}

func (s *Handlers) fixOrphans(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, err := s.details()
	if err != nil {
		return err
	}
	f, err := server.Decode[api.FixOrphans](r, true)
	if err != nil {
		return err
	}
	_, actor, err := server.ActorOf(r, "", f.Actor)
	switch {
	case err != nil:
		return err
	case f.Expect == nil || *f.Expect < 0:
		return job.Errorf(job.Invalid, "orphans", "", "expect is missing: how many you saw that can be removed")
	case f.Note == "":
		return job.Errorf(job.Invalid, "orphans", "", "note is missing: why, for the audit log")
	}
	server.ExtendDeadline(w)
	done, err := app.FixOrphans(r.Context(), orphans.Fix{Expect: *f.Expect, Actor: actor, Note: f.Note})
	if err != nil {
		return err
	}
	return server.Reply(w, done)
}
