package archivehttp

import (
	"errors"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/app/archive/custody"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/transfer"
)

// archives answers with the shape of api.Archives.
func (s *Handlers) archives(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	after, limit := p.Page()
	q := custody.Query{
		Source: p.Text("source"), Course: p.Text("course"), Activity: p.Text("activity"), Owner: p.Text("owner"),
		Outcome: p.Choice("outcome", outcomes.Values...), After: after, Limit: limit,
	}
	if err := p.Err(); err != nil {
		return err
	}
	app, err := s.app()
	if err != nil {
		return err
	}
	if user := server.UserOf(r.Context()); user != "" {
		q.Owner = user
	}
	page, err := app.Archives(r.Context(), q)
	if err != nil {
		return err
	}
	return server.Reply(w, page)
}

// details answers with the shape of api.ArchiveDetails.
func (s *Handlers) details(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, err := s.app()
	if err != nil {
		return err
	}
	d, err := app.Details(r.Context(), server.JobID(r))
	if err != nil {
		return err
	}
	return server.ReplyJob(w, r, http.StatusOK, 0, d)
}

// artifacts answers with the shape of api.ArchiveArtifacts.
func (s *Handlers) artifacts(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	after, limit := p.Page()
	if err := p.Err(); err != nil {
		return err
	}
	app, err := s.app()
	if err != nil {
		return err
	}
	page, err := app.Artifacts(r.Context(), server.JobID(r), after, limit)
	if err != nil {
		return err
	}
	return server.Reply(w, page)
}

// recallAfter is after how many seconds a client may ask again for a file that is being recalled.
const recallAfter = 60

// content gives a file of an archive, or a part of it (RFC 9110, sections 13 and 14).
func (s *Handlers) content(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, err := s.app()
	if err != nil {
		return err
	}
	id, name := server.JobID(r), r.PathValue("path")
	transfer.IgnoreRange(r)
	f, err := app.Retrieve(r.Context(), id, name, begin(r.Header.Get("Range")))
	if errors.Is(err, copies.ErrRecalled) {
		w.Header().Set("Retry-After", strconv.Itoa(recallAfter))
		return server.ReplyAs(w, http.StatusAccepted, api.ArchiveRecall{
			Job: id, Path: name, Message: copies.ErrRecalled.Error(), After: recallAfter,
		})
	}
	if err != nil {
		return err
	}
	defer func() {
		if err := f.Close(); err != nil { // too late for the reader
			s.Log.Error("a file of an archive was not closed", "job", id, "path", name, "error", err)
		}
	}()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", transfer.Attachment(path.Base(name)))
	h.Set("ETag", `"`+f.SHA256+`"`)
	return transfer.Serve(w, r, s.Log, path.Base(name), f.Made, f)
}

// begin gives the first byte of a range (RFC 9110, section 14.1.2) as far as it is stated, so that the file is opened
// there: a wrong guess costs another opening.
func begin(ranges string) int64 {
	first, _, _ := strings.Cut(strings.TrimPrefix(ranges, "bytes="), "-")
	n, err := strconv.ParseInt(strings.TrimSpace(first), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// premis answers with preservation metadata.
func (s *Handlers) premis(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	format := p.Choice("format", formats.Values...)
	if err := p.Err(); err != nil {
		return err
	}
	app, err := s.app()
	if err != nil {
		return err
	}
	d, err := app.Preservation(r.Context(), server.JobID(r))
	if err != nil {
		return err
	}
	if format == "json" {
		w.Header().Set("Content-Type", "application/json")
		return d.WriteJSON(w)
	}
	w.Header().Set("Content-Type", "application/xml")
	return d.WriteXML(w)
}
