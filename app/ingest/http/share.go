package ingesthttp

import (
	"cmp"
	"net/http"
	"net/url"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/share"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/quantity"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/openapi"
	"github.com/stagepost/stagepost/server/problem"
)

// Shares keeps links to batches. *share.Links does.
type Shares interface {
	Add(one share.Link, valid time.Duration) (share.Link, string, error)
	Of(batch job.ID) ([]share.Link, error)
	Revoke(batch job.ID, id string) error
	Find(secret string) (share.Link, error)
}

// The events of the audit log.
const (
	shareEvent   lifecycle.Event = "share"
	unshareEvent lifecycle.Event = "unshare"
)

// shareRoutes lists the routes of links to batches.
func (s *Handlers) shareRoutes() []server.Route {
	return []server.Route{
		{Method: http.MethodPost, Pattern: "/api/v1/ingest/batches/{id}/shares", Who: server.Person,
			Doc: "Makes a link by which anyone who has it reads this batch and no other: valid, note, actor. The " +
				"path with its secret is in this answer alone.", Handle: s.makeShare,
			IO: openapi.IO{In: api.ShareOrder{}, Out: api.Share{}, Status: http.StatusCreated,
				Also: map[int]any{200: api.Share{}}, Once: true}},
		{Method: http.MethodGet, Pattern: "/api/v1/ingest/batches/{id}/shares", Who: server.Person,
			Doc: "The links of a batch that are valid, without their secrets.", Handle: s.listShares,
			IO: openapi.IO{Out: api.Shares{}}},
		{Method: http.MethodDelete, Pattern: "/api/v1/ingest/batches/{id}/shares/{share}", Who: server.Person,
			Doc: "Revokes a link of a batch: note, actor.", Handle: s.revokeShare,
			IO: openapi.IO{Out: api.Shares{}, Query: openapi.Query("note", "actor")}},
		{Method: http.MethodGet, Pattern: "/shared/{token}", Who: server.Anyone,
			Doc: "A page about the batch of a link, to read; refresh=off keeps it still.", Handle: s.sharedPage,
			IO: openapi.IO{Media: openapi.HTML, Query: openapi.Query("refresh")}},
		{Method: http.MethodGet, Pattern: "/shared/{token}/report", Who: server.Anyone,
			Doc: "The report about the batch of a link: format.", Handle: s.sharedReport,
			IO: openapi.IO{Out: api.BatchReport{}, Media: []string{"text/plain", "text/html", "text/csv"},
				Query: openapi.Query("format")}},
	}
}

func (s *Handlers) shares() (Shares, error) {
	if s.Shares == nil {
		return nil, problem.Absent("ingest", "this server has no links to batches", "module ingest")
	}
	return s.Shares, nil
}

// batchOf gives the batch of a request. Any other job is as unknown as none.
func (s *Handlers) batchOf(r *http.Request) (job.Job, error) {
	app, err := s.ingest()
	if err != nil {
		return job.Job{}, err
	}
	return app.Batch(r.Context(), server.JobID(r))
}

// makeShare makes a link and notes it in the audit log.
func (s *Handlers) makeShare(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	j, err := s.batchOf(r)
	if err != nil {
		return err
	}
	app, err := s.shares()
	if err != nil {
		return err
	}
	o, err := server.Decode[api.ShareOrder](r, false)
	if err != nil {
		return err
	}
	if err := server.CheckText("note", o.Note, server.MostNote); err != nil {
		return err
	}
	valid := share.Default
	if o.Valid != "" {
		if valid, err = quantity.ParseDuration(o.Valid); err != nil {
			return job.Errorf(job.Invalid, "share", j.ID, "valid: %w", err)
		}
	}
	by, actor, err := server.ActorOf(r, "", o.Actor)
	if err != nil {
		return err
	}
	link, secret, err := app.Add(share.Link{Batch: j.ID, By: actor, Note: o.Note}, valid)
	if err != nil {
		return err
	}
	if err := s.noteShare(r, shareEvent, by, actor, &link, o.Note); err != nil {
		return err
	}
	v := viewShare(&link)
	v.Path = "/shared/" + secret
	return server.ReplyAs(w, http.StatusCreated, v)
}

func (s *Handlers) noteShare(r *http.Request, event lifecycle.Event, by lifecycle.Actor, actor string,
	link *share.Link, note string) error {
	return s.Engine.Operator().Audit(r.Context(), operator.Entry{By: by, Actor: cmp.Or(actor, "operator"),
		Event: event, Object: string(link.Batch) + " link " + link.ID, Note: note})
}

func viewShare(link *share.Link) api.Share {
	return api.Share{ID: link.ID, Batch: link.Batch, By: link.By, Note: link.Note, Made: link.Made,
		Expires: link.Expires}
}

func (s *Handlers) listShares(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	if _, err := s.Store.Get(r.Context(), server.JobID(r)); err != nil {
		return err
	}
	return s.replyShares(w, server.JobID(r))
}

func (s *Handlers) replyShares(w http.ResponseWriter, batch job.ID) error {
	app, err := s.shares()
	if err != nil {
		return err
	}
	links, err := app.Of(batch)
	if err != nil {
		return err
	}
	all := api.Shares{Shares: make([]api.Share, len(links))}
	for i := range links {
		all.Shares[i] = viewShare(&links[i])
	}
	return server.Reply(w, all)
}

// revokeShare removes a link and notes it in the audit log.
func (s *Handlers) revokeShare(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	note, said := p.Text("note"), p.Text("actor")
	if err := p.Err(); err != nil {
		return err
	}
	id := server.JobID(r)
	if _, err := s.Store.Get(r.Context(), id); err != nil {
		return err
	}
	app, err := s.shares()
	if err != nil {
		return err
	}
	if err := server.CheckText("note", note, server.MostNote); err != nil {
		return err
	}
	by, actor, err := server.ActorOf(r, "", said)
	if err != nil {
		return err
	}
	link := share.Link{Batch: id, ID: r.PathValue("share")}
	if err := app.Revoke(id, link.ID); err != nil {
		return err
	}
	if err := s.noteShare(r, unshareEvent, by, actor, &link, note); err != nil {
		return err
	}
	return s.replyShares(w, id)
}

// sharedPage shows the batch of a link.
func (s *Handlers) sharedPage(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	refresh := p.Choice(server.RefreshQuery, "off", server.RefreshAgain)
	err := p.Err()
	var link share.Link
	var v batchView
	if err == nil {
		link, err = s.shared(r)
	}
	if err == nil {
		v, err = s.viewBatch(r, link.Batch)
	}
	if err != nil {
		return s.failShared(w, r, err)
	}
	v.Shared, v.Reports = link.Expires, "/shared/"+url.PathEscape(r.PathValue("token"))+"/report"
	v.keep(refresh == "off")
	return server.ReplyPage(w, http.StatusOK, batchTemplates, "batch.html", &v)
}

// shared gives the link of a request.
func (s *Handlers) shared(r *http.Request) (share.Link, error) {
	app, err := s.shares()
	if err != nil {
		return share.Link{}, err
	}
	return app.Find(r.PathValue("token"))
}

func (s *Handlers) failShared(w http.ResponseWriter, r *http.Request, err error) error {
	if server.ForPeople(r) && job.KindOf(err) == job.NotFound {
		return server.ReplyPage(w, http.StatusNotFound, batchTemplates, "error.html", struct{ Text string }{
			"This link leads to nothing: it was revoked, or it has expired. Ask the person who gave it to you for a " +
				"new one."})
	}
	return s.FailPage(w, r, err)
}

// sharedReport gives the report about the batch of a link.
func (s *Handlers) sharedReport(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	p.Choice("format", api.ReportFormats()...)
	if err := p.Err(); err != nil {
		return err
	}
	link, err := s.shared(r)
	if err != nil {
		return err
	}
	return s.reportOn(w, r, link.Batch)
}
