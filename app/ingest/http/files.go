package ingesthttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/orphans"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/problem"
)

// Details are what ingest has of a job beside its record, and what belongs to no job. *ingest.App implements it.
type Details interface {
	// Manifest opens the manifest of a job or batch as it was received.
	Manifest(ctx context.Context, id job.ID) (io.ReadCloser, error)
	JobFiles(ctx context.Context, id job.ID, after string, limit int) (ingest.JobFiles, error)
	Metadata(ctx context.Context, id job.ID) (ingest.Metadata, error)
	Submission(ctx context.Context, batch job.ID) (ingest.Handed, error)
	// Named gives the newest job of each object with an ARK or local id.
	Named(ctx context.Context, name string) ([]job.ID, error)
	Orphans(ctx context.Context) (api.Orphans, error)
	FixOrphans(ctx context.Context, f orphans.Fix) (api.FixedOrphans, error)
	Locations(ctx context.Context) ([]ingest.Location, error)
	Adopt(ctx context.Context, a ingest.Adoption) (ingest.Location, error)
}

// details returns the details, or an error without ingest.
func (s *Handlers) details() (Details, error) {
	if s.Options.Details == nil {
		return nil, problem.Absent("ingest", "this server has no ingest", "module ingest")
	}
	return s.Options.Details, nil
}

// manifest streams a manifest. It is hostile text: the headers keep a browser from taking it for anything else.
func (s *Handlers) manifest(w http.ResponseWriter, r *http.Request) (err error) {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, err := s.details()
	if err != nil {
		return err
	}
	f, err := app.Manifest(r.Context(), server.JobID(r))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Disposition", `inline; filename="manifest.checkm"`)
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	buffer := make([]byte, 64<<10)
	for {
		n, err := f.Read(buffer)
		_ = control.SetWriteDeadline(time.Now().Add(30 * time.Second)) // a recorder in a test has none
		if _, gone := w.Write(buffer[:n]); gone != nil || errors.Is(err, io.EOF) {
			return nil // who does not read on has gone
		}
		if err != nil {
			s.Log.Error("manifest", "job", server.JobID(r), "error", err)
			// the status is sent: only a broken connection shows that the answer is incomplete
			panic(http.ErrAbortHandler)
		}
	}
}

func (s *Handlers) jobFiles(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	after, limit := p.Page()
	if err := p.Err(); err != nil {
		return err
	}
	app, err := s.details()
	if err != nil {
		return err
	}
	page, err := app.JobFiles(r.Context(), server.JobID(r), after, limit)
	if err != nil {
		return err
	}
	return server.Reply(w, page)
}

func (s *Handlers) metadata(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, err := s.details()
	if err != nil {
		return err
	}
	m, err := app.Metadata(r.Context(), server.JobID(r))
	if err != nil {
		return err
	}
	return server.Reply(w, m)
}

func (s *Handlers) submission(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, err := s.details()
	if err != nil {
		return err
	}
	handed, err := app.Submission(r.Context(), server.JobID(r))
	if err != nil {
		return err
	}
	return server.Reply(w, handed)
}
