package server

import (
	"context"
	"net/http"

	"github.com/stagepost/stagepost/app/bulk"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// Bulk does one thing to many jobs. *bulk.App is one.
type Bulk interface {
	Preview(ctx context.Context, r bulk.Request) (bulk.Preview, error)
	Start(ctx context.Context, r bulk.Request) (job.Job, error)
	Result(ctx context.Context, id job.ID) (bulk.Result, error)
}

func (s *Server) bulkApp() (Bulk, error) {
	if s.Bulk == nil {
		return nil, job.Errorf(job.Refused, "bulk", "", "this server does no bulks")
	}
	return s.Bulk, nil
}

// startBulk creates a bulk, or tells what it would meet if dry is true.
func (s *Server) startBulk(w http.ResponseWriter, r *http.Request) error {
	app, err := s.bulkApp()
	if err != nil {
		return err
	}
	p := read(r)
	dry := p.flag("dry")
	if err := p.done(); err != nil {
		return err
	}
	b, err := decode[client.Bulk](r, true)
	if err != nil {
		return err
	}
	if _, b.Actor, err = identity(r, "", b.Actor); err != nil {
		return err
	}
	unhurried(w)
	if dry != nil && *dry {
		preview, err := app.Preview(r.Context(), bulk.Request(b))
		if err != nil {
			return err
		}
		return reply(w, preview)
	}
	j, err := app.Start(r.Context(), bulk.Request(b))
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/api/jobs/"+string(j.ID))
	return replyAs(w, http.StatusCreated, s.view(j))
}

// bulkResult tells what a bulk did.
func (s *Server) bulkResult(w http.ResponseWriter, r *http.Request) error {
	app, err := s.bulkApp()
	if err != nil {
		return err
	}
	if err := read(r).done(); err != nil {
		return err
	}
	result, err := app.Result(r.Context(), id(r))
	if err != nil {
		return err
	}
	return reply(w, result)
}
