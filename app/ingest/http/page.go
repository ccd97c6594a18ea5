package ingesthttp

import (
	"embed"
	"net/http"
	"net/url"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/web/amount"
)

//go:embed pages/batch.html
var depositor embed.FS

// batchTemplates are those of the page for depositors, which has no navigation: people read it who have no account.
var batchTemplates = server.Templates(depositor)

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

	ExpectedEnd string    // in words; empty: not known
	Shared      time.Time // when the link expires by which it is read; zero: its reader is known
	Reports     string    // path of the report
	Manage      string    // path of the page with all that its reader may do; empty: there is none
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
	refresh := p.Choice(server.RefreshQuery, "off", server.RefreshAgain)
	err := p.Err()
	var v batchView
	if err == nil {
		v, err = s.viewBatch(r, server.JobID(r))
	}
	if err != nil {
		return s.FailPage(w, r, err)
	}
	v.keep(refresh == "off")
	v.Manage = "/jobs/" + url.PathEscape(string(v.Batch))
	return server.ReplyPage(w, http.StatusOK, batchTemplates, "batch.html", &v)
}

// keep keeps the page still, or has it ask again while the batch is open.
func (v *batchView) keep(still bool) {
	if v.Still = still; v.Open && !still {
		v.Refresh = refreshEvery
	}
}

// viewBatch makes the page about a batch that its reader may see.
func (s *Handlers) viewBatch(r *http.Request, id job.ID) (batchView, error) {
	v := batchView{Reports: "/api/v1/ingest/batches/" + url.PathEscape(string(id)) + "/report"}
	app, err := s.ingest()
	if err != nil {
		return v, err
	}
	done, err := s.mayMake(r)
	if err != nil {
		return v, err
	}
	defer done()
	report, err := app.Report(r.Context(), id)
	if err != nil {
		return v, err
	}
	v.BatchReport = report.Batch
	v.Open = !report.Ended || v.Pending > 0
	v.Done = v.Completed + v.Failed + v.Deleted
	if v.Expected > 0 {
		v.Percent = 100 * v.Done / v.Expected
	}
	v.Lists = listJobs(v.Jobs)
	if !report.Ended {
		x, err := s.Expect(r.Context(), id)
		if err != nil {
			return v, err
		}
		v.ExpectedEnd = amount.Expectation(&x)
	}
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
func (l batchList) Name(j api.JobReport) string { return report.NameOf(&j) }
