package ingesthttp

import (
	"embed"
	"fmt"
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/openapi"
	"github.com/stagepost/stagepost/web"
)

//go:embed pages/outcome.html pages/share.html pages/profile.html pages/profiles.html
var files embed.FS

// Bounds of the part of the page about a batch.
const (
	shownOutcomes = 200  // objects
	mostRetries   = 1000 // failed objects that one form tries again
)

// batchRoutes lists the forms on the page about a batch.
func (s *Handlers) batchRoutes() []server.Route {
	return []server.Route{
		web.FormRoute("/batches/{id}/retry", server.Person, "Tries the failed objects of a batch again.",
			s.pages.Post(s.retryForm)),
		{Method: http.MethodPost, Pattern: "/batches/{id}/shares", Who: server.Person, Handle: s.shareForm,
			Doc: "Makes a link to the batch, and shows it once.", NoReason: "the operation of the API checks it",
			IO: openapi.IO{Takes: []string{"application/x-www-form-urlencoded"}, Media: openapi.HTML,
				Faults: openapi.HTML}},
		web.FormRoute("/batches/{id}/shares/revoke", server.Person, "Revokes a link to the batch.",
			s.pages.Post(s.unshareForm)),
	}
}

// detailView is what ingest adds to the page about a batch.
type detailView struct {
	batchView
	Rows    []outcomeRow
	More    int  // objects that are not shown
	Retries int  // failed objects that can be tried again
	Acts    bool // the reader may try them again and share the batch
	Links   []api.Share
	Forms   string // path of the forms
}

type outcomeRow struct {
	api.JobReport
	Name string
	Tone web.Tone
}

// batchDetails shows the outcome of each object of a batch, the report, and the links by which it is shared.
func (s *Handlers) batchDetails(r *http.Request, j *api.Job) (d server.Details, err error) {
	if s.Ingest == nil {
		return d, nil
	}
	of, err := s.viewBatch(r, j.ID)
	if err != nil {
		return d, err
	}
	v := detailView{batchView: of, Forms: "/batches/" + url.PathEscape(string(j.ID)),
		Acts: s.Permits(r, http.MethodPost, "/batches/{id}/retry")}
	for _, list := range of.Lists {
		for _, one := range list.Jobs {
			if len(v.Rows) == shownOutcomes {
				break
			}
			v.Rows = append(v.Rows, outcomeRow{one, list.Name(one), s.toneOf(&one)})
		}
		v.More += list.All
	}
	for i := range of.Jobs {
		if retries(&of.Jobs[i]) {
			v.Retries++
		}
	}
	v.More -= len(v.Rows)
	d.Children = len(v.Rows) > 0
	if v.Acts && s.Shares != nil {
		var shares api.Shares
		if err := s.pages.Get(r, sharesPath(j.ID), &shares); err != nil {
			return d, err
		}
		v.Links = shares.Shares
	}
	d.HTML, err = s.pages.Fragment("outcome.html", v)
	return d, err
}

func sharesPath(id job.ID) string {
	return "/api/v1/ingest/batches/" + url.PathEscape(string(id)) + "/shares"
}

// toneOf returns how the outcome of an object appears.
func (s *Handlers) toneOf(j *api.JobReport) web.Tone {
	stage := s.pages.Stage(record.JobKind, j.State)
	return web.ToneOf(&stage, j.Outcome, j.Outcome != lifecycle.None, false)
}

// retryForm tries the failed objects of a batch again, each as its lifecycle allows.
func (s *Handlers) retryForm(r *http.Request, form *web.Form) (to, done string, err error) {
	note := form.Line("note")
	if err := form.Err(); err != nil {
		return "", "", err
	}
	id := server.JobID(r)
	v, err := s.viewBatch(r, id)
	if err != nil {
		return "", "", err
	}
	again, refused, why := 0, 0, error(nil)
	for i := range v.Jobs {
		if !retries(&v.Jobs[i]) || again+refused == mostRetries {
			continue
		}
		path := "/api/v1/jobs/" + url.PathEscape(string(v.Jobs[i].Job)) + "/events/" + string(record.Retry)
		if _, err := s.pages.Ask(r, http.MethodPost, path, api.Act{Note: note}); err != nil {
			refused, why = refused+1, err
			continue
		}
		again++
	}
	switch {
	case again == 0 && why != nil:
		return "", "", why
	case again == 0:
		return "", "", job.Errorf(job.Refused, "retry", id, "no failed object can be tried again: what failed needs a "+
			"new submission")
	}
	done = fmt.Sprintf("%d tried again", again)
	if refused > 0 {
		done += fmt.Sprintf("; %d cannot be: %s", refused, job.Reason(why))
	}
	return web.JobPath(id), done, nil
}

// retries reports whether an object failed because of something that a retry can mend.
func retries(j *api.JobReport) bool {
	return (j.Outcome == lifecycle.Failed || j.Outcome == lifecycle.TimedOut) && j.State == record.Failed &&
		j.Remedy != api.RemedyNew
}

// shareForm makes a link and shows it: its secret is stored nowhere.
func (s *Handlers) shareForm(w http.ResponseWriter, r *http.Request) error {
	return s.pages.Form(w, r, func(form *web.Form) error {
		o := api.ShareOrder{Valid: form.Text("valid"), Note: form.Line("note")}
		if err := form.Err(); err != nil {
			return err
		}
		var made api.Share
		id := server.JobID(r)
		if err := s.pages.Send(r, http.MethodPost, sharesPath(id), o, &made); err != nil {
			return err
		}
		return s.pages.Reply(w, r, http.StatusOK, "share.html", &web.Frame{Title: "The link",
			Up: server.Link{Title: "The batch", Path: web.JobPath(id)}, Body: struct {
				api.Share
				Address string
			}{made, s.Absolute(r, made.Path)}})
	})
}

// unshareForm revokes a link.
func (s *Handlers) unshareForm(r *http.Request, form *web.Form) (to, done string, err error) {
	share, note := form.Text("share"), form.Line("note")
	if err := form.Err(); err != nil {
		return "", "", err
	}
	id := server.JobID(r)
	path := web.With(sharesPath(id)+"/"+url.PathEscape(share), web.Given(url.Values{"note": {note}}))
	_, err = s.pages.Ask(r, http.MethodDelete, path, nil)
	return web.JobPath(id), "The link is revoked: it opens nothing any more", err
}
