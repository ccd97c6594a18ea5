package web

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/web/amount"
	"github.com/stagepost/stagepost/web/hours"
	"github.com/stagepost/stagepost/web/markup"
)

// overviewRefresh is the pause, in seconds, after which the script reads the overview again: nothing reports all
// changes of a server.
const overviewRefresh = 15

// failedJobs is the part of a query for jobs that failed.
const failedJobs = "outcome=failed&outcome=timed-out"

// overviewInput is what the API answers about the whole server.
type overviewInput struct {
	Health    api.Health
	Queue     api.Queue
	Attention attention
	Holds     api.QueueHolds
	Workers   api.Workers
}

// attention is what a search for what needs attention found, with the throughput, which takes as long.
type attention struct {
	At         time.Time // zero: no search has ended yet
	Stuck      api.Stuck
	Names      map[job.ID]string // what lists call the stuck jobs
	Failed     api.Page
	Throughput api.Throughput
	Uncounted  string // why the throughput is not known
}

// overview is what the page shows.
type overview struct {
	Alerts       []alert
	Stuck        []stuckRow
	StuckMore    int
	Failed       []Row
	AllFailed    string // address of the list of the jobs that the alert counts
	Applications []applicationRow
	Hours        hours.Series
	Uncounted    string
	Empty        bool      // there is no job
	Searched     time.Time // when Stuck and Failed were searched; zero: the first search is in progress
}

// alert is one thing that needs attention, with the page where something can be done about it.
type alert struct {
	Tone Tone
	Text string
	Link string
	Do   string // text of the link
}

type stuckRow struct {
	Name, What, Path, Reason, Why string
	State                         lifecycle.State
	Tone                          Tone
	Time                          string
}

// applicationRow sums up the jobs of one kind.
type applicationRow struct {
	Application, Many                      string
	Kind                                   job.Kind
	Part                                   bool   // the jobs are parts of others
	AllFailed                              string // address of the list of those that failed
	Queued, Working, Waiting, Failed, Done int64
	Hours                                  hours.Series
}

// home answers GET / of browsers: depositors see their own work, others the overview, or the jobs of their groups.
func (h *handlers) home(w http.ResponseWriter, r *http.Request) error {
	admitted, err := h.Admit(w, r, server.Shared)
	if err != nil {
		return err // the server leads a browser without a session to the sign-in page
	}
	if server.IsUser(admitted.Context()) {
		http.Redirect(w, r, "/mine", http.StatusSeeOther)
		return nil
	}
	if !h.Permits(admitted, http.MethodGet, "/api/v1/queue") { // a user who is limited to groups
		http.Redirect(w, r, "/jobs", http.StatusSeeOther)
		return nil
	}
	return h.Show("overview.html", h.overview)(w, admitted)
}

func (h *handlers) overview(r *http.Request) (*Frame, error) {
	in := overviewInput{}
	ask := func(path string, into any) error { return h.Get(r, path, into) }
	err := cmp.Or(
		ask("/api/v1/queue", &in.Queue),
		ask("/api/v1/queue/holds", &in.Holds), ask("/api/v1/workers", &in.Workers),
	)
	if err != nil {
		return nil, err
	}
	if in.Attention, err = h.recent.Get(r.Context(), func(ctx context.Context) (attention, error) {
		return h.attention(r.Clone(ctx))
	}); err != nil {
		return nil, err
	}
	if err := ask("/healthz", &in.Health); err != nil { // it is ill: the page shows why
		in.Health.Status = err.Error()
	}
	return &Frame{Title: "Overview", Body: viewOverview(h.Pages, &in), Refresh: overviewRefresh}, nil
}

// attention searches for what needs attention.
func (h *handlers) attention(r *http.Request) (a attention, err error) {
	a.At = h.Engine.Clock().Now()
	err = cmp.Or(h.Get(r, "/api/v1/stuck?limit=6", &a.Stuck),
		h.Get(r, "/api/v1/jobs?brief=true&"+failedJobs+"&limit=6"+h.whole(), &a.Failed))
	if err := h.Get(r, "/api/v1/throughput", &a.Throughput); err != nil { // the rest is shown without it
		a.Uncounted = job.Reason(err)
	}
	a.Names = map[job.ID]string{}
	for _, s := range a.Stuck.Stuck {
		var j api.Job
		if h.Get(r, "/api/v1/jobs/"+url.PathEscape(string(s.Job)), &j) == nil { // it may have been purged since
			a.Names[s.Job] = titleOf(h.Pages, &j.Job)
		}
	}
	return a, err
}

// viewOverview makes the overview: what needs attention first.
func viewOverview(kinds Kinds, in *overviewInput) overview {
	v := overview{Alerts: alertsOf(kinds, in), Empty: in.Queue.Total.Jobs == 0, Searched: in.Attention.At}
	for i := range in.Attention.Stuck.Stuck {
		row := stuckRowOf(kinds, &in.Attention.Stuck.Stuck[i])
		row.Name = cmp.Or(in.Attention.Names[in.Attention.Stuck.Stuck[i].Job], row.Name)
		v.Stuck = append(v.Stuck, row)
	}
	v.StuckMore = in.Attention.Stuck.Found - len(v.Stuck)
	gone := func(r Row) bool { return r.Gone }
	v.Failed = slices.DeleteFunc(rowsOf(kinds, in.Queue.At, &in.Attention.Failed), gone)
	_, v.AllFailed = failedOf(kinds, in.Queue.States)
	v.Applications = applicationsOf(kinds, in.Queue.States)
	v.Hours, v.Uncounted = hours.Of(&in.Attention.Throughput, ""), in.Attention.Uncounted
	for i := range v.Applications {
		v.Applications[i].Hours = hours.Of(&in.Attention.Throughput, v.Applications[i].Kind)
	}
	return v
}

// alertsOf lists what needs attention, the worst first.
func alertsOf(kinds Kinds, in *overviewInput) (all []alert) {
	if in.Health.Status != "ok" {
		all = append(all, alert{Bad, "The server is not well: " + in.Health.Status, "/healthz", "Health"})
	}
	expired := 0
	for _, w := range in.Workers.Workers {
		if w.Expired > 0 {
			expired++
		}
	}
	if expired > 0 {
		all = append(all, alert{Bad, numbered(expired, "worker has", "workers have") + " jobs whose lease has expired",
			"/workers", "Workers"})
	}
	for _, text := range in.Health.Warnings {
		all = append(all, alert{Held, text, "", ""})
	}
	if n := len(in.Attention.Stuck.Messages); n > 0 {
		all = append(all, alert{Bad, numbered(n, "message was", "messages were") + " abandoned after the last attempt",
			"/outbox?status=abandoned", "Messages"})
	}
	if n, list := failedOf(kinds, in.Queue.States); n > 0 {
		all = append(all, alert{Bad, numbered(n, "job", "jobs") + " failed", list, "Failed jobs"})
	}
	if n := len(in.Holds.Holds); n > 0 {
		jobs := int64(0)
		for i := range in.Holds.Holds {
			jobs += in.Holds.Holds[i].Jobs
		}
		text := numbered(n, "hold keeps ", "holds keep ") + numbered(int(jobs), "job", "jobs") + " from being worked on"
		if jobs == 0 {
			text = numbered(n, "hold", "holds") + ", for which no job waits"
		}
		all = append(all, alert{Held, text, "/holds", "Holds"})
	}
	if in.Attention.Stuck.Found > 0 {
		all = append(all, alert{Held, numbered(in.Attention.Stuck.Found, "job does", "jobs do") +
			" not move as usual", "#stuck",
			"These jobs"})
	}
	return all
}

// failedOf counts the jobs that failed, are there, and are no parts of others, and returns the address of their list.
func failedOf(kinds Kinds, states []api.QueueTotal) (n int, list string) {
	q := url.Values{}
	for _, s := range states {
		if stage := kinds.Stage(s.Kind, s.State); s.Jobs > 0 && endedBadly(&stage) && !kinds.NameOf(s.Kind).Part {
			n += int(s.Jobs)
			filterBy(q, s.Kind, s.State)
		}
	}
	return n, "/jobs?" + failedJobs + "&" + q.Encode()
}

// filterBy adds a kind and a state to the filters of a list, each once.
func filterBy(q url.Values, k job.Kind, s lifecycle.State) {
	for name, value := range map[string]string{"kind": string(k), "state": string(s)} {
		if !slices.Contains(q[name], value) {
			q.Add(name, value)
		}
	}
}

// endedBadly reports whether a state is the end of jobs that failed.
func endedBadly(stage *lifecycle.Stage) bool {
	return stage.Kind == lifecycle.End && (stage.Outcome == lifecycle.Failed || stage.Outcome == lifecycle.TimedOut)
}

// numbered writes a number with its noun.
func numbered(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return amount.Count(n) + " " + many
}

func stuckRowOf(kinds Kinds, s *api.StuckJob) stuckRow {
	stage := kinds.Stage(s.Kind, s.State)
	row := stuckRow{Name: kinds.NameOf(s.Kind).One + " …" + markup.ShortID(s.Job), What: strings.Join(nonEmpty(s.Group,
		s.Owner),
		", "), Path: JobPath(s.Job), State: s.State, Time: amount.Span(time.Duration(s.Seconds) * time.Second),
		Tone: ToneOf(&stage, lifecycle.None, false, s.Worker != "")}
	if len(s.Reasons) > 0 {
		row.Reason = s.Reasons[0].Sentence
	}
	if len(s.Blockers) > 0 {
		row.Why = s.Blockers[0].Sentence
	}
	return row
}

func nonEmpty(texts ...string) []string {
	return slices.DeleteFunc(texts, func(t string) bool { return t == "" })
}

// applicationsOf sums up the jobs of each kind by what they do: the kinds with the most work first.
func applicationsOf(kinds Kinds, states []api.QueueTotal) []applicationRow {
	rows, failed := map[job.Kind]*applicationRow{}, map[job.Kind]url.Values{}
	for _, s := range states {
		row := rows[s.Kind]
		if row == nil {
			named := kinds.NameOf(s.Kind)
			row = &applicationRow{Application: named.Application, Many: named.Many, Kind: s.Kind, Part: named.Part}
			rows[s.Kind], failed[s.Kind] = row, url.Values{}
		}
		stage := kinds.Stage(s.Kind, s.State)
		switch {
		case endedBadly(&stage):
			row.Failed += s.Jobs
			filterBy(failed[s.Kind], s.Kind, s.State)
			row.AllFailed = "/jobs?" + failedJobs + "&" + failed[s.Kind].Encode()
		case stage.Kind == lifecycle.End:
			row.Done += s.Jobs
		case stage.Kind == lifecycle.Wait:
			row.Waiting += s.Jobs
		default:
			row.Working += s.Claimed
			row.Queued += s.Jobs - s.Claimed
		}
	}
	var all []applicationRow
	for _, row := range rows {
		all = append(all, *row)
	}
	slices.SortFunc(all, func(a, b applicationRow) int {
		return cmp.Or(cmp.Compare(a.Application, b.Application), cmp.Compare(a.Many, b.Many))
	})
	return all
}
