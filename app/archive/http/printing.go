package archivehttp

import (
	"io"
	"math"
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/openapi"
)

// claim are the parameters of a claim.
var claim = []openapi.Parameter{
	{Name: "epoch", Type: "integer", Doc: "Epoch of the claim."},
	{Name: "worker", Doc: "Name of the worker; with tokens it is the owner of the token."},
}

// digest is the parameter of a file that is sent.
var digest = openapi.Parameter{Name: "sha256", Doc: "SHA-256 of the file in hexadecimal."}

// printingRoutes are for workers elsewhere that print PDF files.
func (s *Handlers) printingRoutes() []server.Route {
	return []server.Route{
		{Method: http.MethodGet, Pattern: prefix + "/pdf/{id}/document", Who: server.Worker,
			Doc: "The document of a claimed job that prints a PDF file: epoch, worker.", Handle: s.document,
			IO: openapi.IO{Media: []string{"text/html"}, Query: claim}},
		{Method: http.MethodPut, Pattern: prefix + "/pdf/{id}/file", Who: server.Worker,
			Doc: "Keeps the PDF file of a claimed job, before the job is reported: epoch, worker, sha256. The " +
				"request has the length of the file. It may be repeated.", Handle: s.keepPDF,
			NoReason: "workers act there, not people", IO: openapi.IO{Takes: []string{"application/pdf"},
				Status: http.StatusNoContent, Query: append([]openapi.Parameter{digest}, claim...)}},
	}
}

// held gives the claimed job of a request. read reads further parameters.
func (s *Handlers) held(r *http.Request, read func(*server.Parameters)) (Printing, *api.Leased, error) {
	p := server.Params(r)
	l := job.Lease{Job: server.JobID(r), Epoch: p.Number("epoch", 1, math.MaxInt64)}
	worker := server.WorkerOf(r, p.Text("worker"))
	read(p)
	if err := p.Err(); err != nil {
		return nil, nil, err
	}
	app, err := s.app()
	if err != nil {
		return nil, nil, err
	}
	from := app.Printing()
	j, err := from.Held(r.Context(), worker, l)
	if err == nil {
		err = server.MayWork(r.Context(), "pdf", j.ID, job.KindState{Kind: j.Kind, State: j.State})
	}
	return from, j, err
}

// document gives the document of a job, as text for people who open it in a browser: it is a stranger's.
func (s *Handlers) document(w http.ResponseWriter, r *http.Request) error {
	from, j, err := s.held(r, func(*server.Parameters) {})
	if err != nil {
		return err
	}
	f, err := from.Source(r.Context(), j)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Disposition", "attachment")
	if _, err := io.Copy(w, f); err != nil {
		s.Log.Info("a document was not sent in full length", "job", j.ID, "error", err)
	}
	return f.Close()
}

// keepPDF keeps the PDF file of a job.
func (s *Handlers) keepPDF(w http.ResponseWriter, r *http.Request) (err error) {
	var sum string
	from, j, err := s.held(r, func(p *server.Parameters) { sum = p.Text(digest.Name) })
	if err != nil {
		return err
	}
	if r.ContentLength < 0 {
		return job.Errorf(job.Invalid, "pdf", j.ID, "the header Content-Length is missing")
	}
	end, err := s.Upload(w, r)
	if err != nil {
		return err
	}
	defer end()
	if err := from.Put(r.Context(), j, pdf.Result{Size: r.ContentLength, SHA256: sum}, r.Body); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
