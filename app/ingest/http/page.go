package ingesthttp

import (
	"embed"
	"encoding/json"
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
)

//go:embed pages
var pages embed.FS

var batchTemplates = server.Templates(pages)

// refreshEvery is the pause, in seconds, after which a page of a batch that is not done asks again.
const refreshEvery = 30

// mostRows is the number of objects that a table of a page shows; the lists as files have all.
const mostRows = 500

// batchView is what the page about a batch shows.
type batchView struct {
	api.BatchReport
	Refresh int // seconds; 0 keeps the page still
	Still   bool
	Open    bool
	Done    int
	Percent int
	Lists   []batchList
}

type batchList struct {
	Title  string
	Failed bool
	Jobs   []api.JobReport
	All    int
	File   string // format of the report that has all of them
}

// batchPage shows a depositor the state of a batch.
func (s *Handlers) batchPage(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	refresh := p.Choice("refresh", "off")
	err := p.Err()
	var v batchView
	if err == nil {
		v, err = s.viewBatch(r)
	}
	if err != nil {
		return s.FailPage(w, r, err)
	}
	v.Still = refresh == "off"
	if v.Open && !v.Still {
		v.Refresh = refreshEvery
	}
	return server.ReplyPage(w, http.StatusOK, batchTemplates, "batch.html", &v)
}

func (s *Handlers) viewBatch(r *http.Request) (batchView, error) {
	var v batchView
	j, err := s.Store.Get(r.Context(), server.JobID(r))
	if err != nil {
		return v, err
	}
	app, err := s.ingest()
	if err != nil {
		return v, err
	}
	done, err := s.mayMake(r)
	if err != nil {
		return v, err
	}
	defer done()
	report, err := app.Report(r.Context(), j.ID)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(report.JSON, &v.BatchReport); err != nil {
		return v, job.Errorf(job.Internal, "page", j.ID, "the report: %w", err)
	}
	v.Open = !j.Ended || v.Pending > 0
	v.Done = v.Completed + v.Failed + v.Deleted
	if v.Expected > 0 {
		v.Percent = 100 * v.Done / v.Expected
	}
	v.Lists = listJobs(v.Jobs)
	return v, nil
}

// listJobs sorts the jobs into the tables of the page; what needs attention comes first.
func listJobs(jobs []api.JobReport) []batchList {
	all := []batchList{
		{Title: "Not stored", Failed: true, File: "csv-failed"}, {Title: "Not done yet"}, {Title: "Stored",
			File: "csv-completed"},
		{Title: "Taken out of the submission"},
	}
	for i := range jobs {
		l := &all[0]
		switch j := &jobs[i]; {
		case j.State == "Deleted":
			l = &all[3]
		case j.Outcome == lifecycle.None:
			l = &all[1]
		case j.Outcome == lifecycle.OK:
			l = &all[2]
		}
		if l.All++; len(l.Jobs) < mostRows {
			l.Jobs = append(l.Jobs, jobs[i])
		}
	}
	return all
}

// Class is the style of the page. A batch that could not be read has failed without objects; a withdrawn one is no
// success.
func (v *batchView) Class() string {
	switch {
	case v.Open || v.State == "Deleted":
		return "open"
	case v.Failed > 0 || v.State != "Completed":
		return "failed"
	}
	return "done"
}

// Name is what a depositor would call the object.
func (l batchList) Name(j api.JobReport) string {
	for _, s := range []string{j.Title, j.Filename, j.URL} {
		if s != "" {
			return s
		}
	}
	return "payload"
}
