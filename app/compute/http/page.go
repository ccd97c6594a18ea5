package computehttp

import (
	"cmp"
	"embed"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/quantity"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/openapi"
	"github.com/stagepost/stagepost/web"
	"github.com/stagepost/stagepost/web/amount"
	"github.com/stagepost/stagepost/web/filters"
)

//go:embed pages
var files embed.FS

// Paths of the pages.
const (
	listPath = "/compute"
	newPath  = "/compute/new"
)

// listRefresh is after how many seconds the script reads the list again.
const listRefresh = 10

// pageRoutes lists the pages.
func (s *Handlers) pageRoutes() []server.Route {
	clean := web.FormRoute("/compute/jobs/{id}/clean", server.Person, "Removes the files of a job that has ended.",
		s.pages.Post(s.cleanForm))
	clean.Right = server.Deletion
	return []server.Route{
		web.WithinGroups(web.PageRoute(listPath, server.Own,
			"A page with compute jobs and their filters, and the load of the services.",
			openapi.Query("service", "name", "label", "owner", "cause", "ended", "number", "after", "limit", "state",
				"outcome"), s.listPage)),
		web.WithinGroups(web.PageRoute(newPath, server.Own, "A page with a form for a new compute job: what its user "+
			"may use, and what is in use.", nil, s.pages.Show("new.html", s.newPage))),
		{Method: http.MethodPost, Pattern: listPath, Who: server.Own, Grouped: true, Handle: s.submitPage, Upload: true,
			Doc: "Makes a compute job as the form of the page asks: its fields first and the files behind them. " +
				"With the field fill_in it shows the form with the fields, and makes none.",
			NoReason: server.NewWork, IO: openapi.IO{Takes: []string{"multipart/form-data"}, Media: openapi.HTML,
				Status: http.StatusSeeOther, Also: map[int]any{200: nil}, Faults: openapi.HTML, Keyed: true}},
		web.FormRoute("/compute/jobs/{id}/retry", server.Person, "Runs a job again that has ended, as a new job.",
			s.pages.Post(s.retryForm)),
		clean,
	}
}

// retryForm runs a job again as the form asks.
func (s *Handlers) retryForm(r *http.Request, form *web.Form) (to, done string, err error) {
	b := api.ComputeRepeat{Note: form.Line("note"), Confirm: form.Checked("confirm"), Key: form.Text("key")}
	if err := form.Err(); err != nil {
		return "", "", err
	}
	var j api.ComputeJob
	if err := s.pages.Send(r, http.MethodPost, computePath(server.JobID(r))+"/retry", b, &j); err != nil {
		return "", "", err
	}
	return web.JobPath(j.ID), "This is the new job", nil
}

// cleanForm removes the files of a job as the form asks.
func (s *Handlers) cleanForm(r *http.Request, form *web.Form) (to, done string, err error) {
	b := api.Act{Note: form.Line("note")}
	if err := form.Err(); err != nil {
		return "", "", err
	}
	id := server.JobID(r)
	_, err = s.pages.Ask(r, http.MethodPost, computePath(id)+"/clean", b)
	return web.JobPath(id), "The files are removed", err
}

// sitePages is what compute adds to the pages for people.
func (s *Handlers) sitePages() server.Pages {
	p := server.Pages{
		Kinds: map[job.Kind]server.Named{
			compute.JobKind:     {One: "compute job", Many: "compute jobs", Application: "Compute"},
			compute.PayloadKind: {One: "execution", Many: "executions", Application: "Compute", Part: true},
		},
		Details: map[job.Kind]func(*http.Request, *api.Job) (server.Details, error){compute.JobKind: s.details},
		Plain:   map[job.Kind]map[string]string{compute.JobKind: plainWaits},
	}
	if s.Compute != nil {
		p.Links = []server.Link{{Section: "Work", Title: "Compute", Path: listPath, Who: server.Own}}
	}
	return p
}

// listView is what the list of compute jobs shows.
type listView struct {
	Filter   url.Values     // as in the address, without the cursor
	Kept     []filters.Kept // filters without a field
	Labels   []string       // filters, at least one
	Services []choice
	States   []choice
	Outcomes []choice
	Rows     []listRow
	First    string // address of the first page, on the others
	Next     string // address of the next page
	User     bool   // it lists the jobs of one user
	Load     []serviceRow
	Agents   []api.ComputeAgent // for operators
	New      string             // address of the form; empty: the reader may make no job
}

// choice is an option of a filter.
type choice struct {
	Value  string
	Chosen bool
}

type listRow struct {
	api.ComputeJob
	Title string
	Tone  web.Tone
	Since string
}

// serviceRow is the present state of a service.
type serviceRow struct {
	api.ComputeService
	Most string // what a job may ask for, in words
}

// listPage lists compute jobs. Filters without a value are removed from the address.
func (s *Handlers) listPage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	if filters := web.Given(q); len(filters) < len(q) {
		http.Redirect(w, r, web.With(listPath, filters), http.StatusSeeOther)
		return nil
	}
	return s.pages.Show("compute.html", s.list)(w, r)
}

func (s *Handlers) list(r *http.Request) (*web.Frame, error) {
	q := r.URL.Query()
	var page api.ComputePage
	var services api.ComputeServices
	if err := s.pages.Get(r, web.With("/api/v1/compute/jobs", q), &page); err != nil {
		return nil, err
	}
	if err := s.pages.Get(r, "/api/v1/compute/services", &services); err != nil {
		return nil, err
	}
	services.Services = usable(r, services.Services)
	user, lead := server.IsUser(r.Context()), "Programs and files of users, which run on agents under the limits of a "+
		"service."
	if user {
		lead = "Your programs and files, which run on other computers under the limits of a service."
		s.plainly(&page)
	}
	v := s.viewList(q, time.Now(), &page, &services)
	v.User = user
	fields := []string{"service", "state", "outcome", "name", "label", "ended", "cause", "number"}
	if !v.User {
		fields = append(fields, "owner")
	}
	v.Kept = filters.Besides(v.Filter, fields...)
	if s.Permits(r, http.MethodPost, listPath) {
		v.New = newPath
	}
	if s.MayUse(r.Context(), server.Operator) {
		var agents api.ComputeAgents
		if err := s.pages.Get(r, "/api/v1/compute/agents", &agents); err != nil {
			return nil, err
		}
		v.Agents = agents.Agents
	}
	return &web.Frame{Title: "Compute", Body: v, Refresh: listRefresh, Lead: lead}, nil
}

// viewList makes the list.
func (s *Handlers) viewList(q url.Values, now time.Time, page *api.ComputePage,
	services *api.ComputeServices) listView {
	v := listView{Filter: filters.Of(q, "service", "state", "outcome", "label", "cause")}
	v.Labels = v.Filter["label"]
	if len(v.Labels) == 0 {
		v.Labels = []string{""}
	}
	for _, one := range services.Services {
		v.Services = append(v.Services, choice{one.Name, slices.Contains(v.Filter["service"], one.Name)})
		v.Load = append(v.Load, serviceRow{ComputeService: one, Most: limitWords(&one.Max)})
	}
	for _, stage := range compute.JobLife.Stages() {
		state := string(stage.State)
		v.States = append(v.States, choice{state, slices.Contains(v.Filter["state"], state)})
	}
	for _, o := range []lifecycle.Outcome{lifecycle.OK, lifecycle.Failed, lifecycle.TimedOut, lifecycle.Cancelled} {
		v.Outcomes = append(v.Outcomes, choice{string(o), slices.Contains(v.Filter["outcome"], string(o))})
	}
	for _, j := range page.Jobs {
		stage := s.pages.Stage(compute.JobKind, j.State)
		v.Rows = append(v.Rows, listRow{ComputeJob: j, Title: cmp.Or(j.Name, fmt.Sprintf("compute job %d", j.Number)),
			Tone: web.ToneOf(&stage, j.Outcome, j.Ended, false), Since: amount.Ago(now, j.Changed)})
	}
	if q.Has("after") {
		v.First = web.With(listPath, v.Filter)
	}
	if page.Next != "" {
		next := url.Values{"after": {page.Next}}
		for name, values := range v.Filter {
			next[name] = values
		}
		v.Next = web.With(listPath, next)
	}
	return v
}

// limitWords states limits in words; "" if there are none.
func limitWords(l *api.ComputeLimits) string {
	var all []string
	add := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	add(l.Wall > 0, "%s of time", quantity.FormatDuration(time.Duration(l.Wall)))
	add(l.CPU > 0, "%s of processor time", quantity.FormatDuration(time.Duration(l.CPU)))
	add(l.Memory > 0, "%s of memory", quantity.Size(int64(l.Memory)))
	add(l.Disk > 0, "%s of disk", quantity.Size(int64(l.Disk)))
	add(l.Cores > 0, "%g processors", l.Cores)
	add(l.Processes > 0, "%d processes", l.Processes)
	return strings.Join(all, ", ")
}
