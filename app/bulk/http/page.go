package bulkhttp

import (
	"cmp"
	"embed"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/bulk"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/web"
)

//go:embed pages
var files embed.FS

// pageView is what the page about a bulk that is to be started shows.
type pageView struct {
	Filters []filter
	List    string // address of the jobs
	Events  []event
	Preview *api.BulkPreview // nil: no event is chosen
	Sample  []sample
	Most    int  // jobs for which the event is possible, as far as was checked
	Checked bool // of every job
}

// sample is one of the jobs, with its name for people.
type sample struct {
	api.BulkSample
	Name string // title, or object; empty: it has none
}

type filter struct{ Name, Value string }

type event struct {
	Value  string
	Chosen bool
}

// page shows what an event would do to all jobs of a query, and a form that does it.
func (s *Handlers) page(r *http.Request) (*web.Frame, error) {
	if _, err := s.bulkApp(); err != nil {
		return nil, err
	}
	p := server.Params(r)
	q := url.Values{}
	for _, name := range api.BulkFilters() {
		if values := p.All(name); len(values) > 0 {
			q[name] = values
		}
	}
	chosen := p.Text("event")
	if err := p.Err(); err != nil {
		return nil, err
	}
	b, err := bulkOf(q)
	if err != nil {
		return nil, err
	}
	if b.Group, err = server.GroupFor(r.Context(), b.Group); err != nil {
		return nil, err
	}
	if b.Group != "" {
		q.Set("group", b.Group)
	}
	v := viewPage(s.pages, q, chosen)
	v.Events = slices.DeleteFunc(v.Events, func(e event) bool {
		one := b
		one.Event = lifecycle.Event(e.Value)
		return s.mayDelete(r.Context(), &one) != nil
	})
	if chosen != "" {
		b.Event = lifecycle.Event(chosen)
		v.Preview = new(api.BulkPreview)
		if err := s.pages.Send(r, http.MethodPost, "/api/v1/bulk?dry=true", b, v.Preview); err != nil {
			return nil, err
		}
		if err := s.named(r, &v); err != nil {
			return nil, err
		}
	}
	return &web.Frame{Title: "Act on many jobs", Up: server.Link{Title: "Jobs", Path: v.List}, Body: v}, nil
}

// named adds the names of the sample, and for how many jobs the event is possible.
func (s *Handlers) named(r *http.Request, v *pageView) error {
	p := v.Preview
	v.Most, v.Checked = p.Legal-p.Refused, p.Count == len(p.Sample)
	for _, one := range p.Sample {
		var j api.Job
		err := s.pages.Get(r, "/api/v1/jobs/"+url.PathEscape(string(one.ID)), &j)
		if err != nil && job.KindOf(err) != job.NotFound {
			return err
		}
		v.Sample = append(v.Sample, sample{one, cmp.Or(j.Title, j.Object)})
	}
	return nil
}

// viewPage makes the page without its preview.
func viewPage(kinds web.Catalog, q url.Values, chosen string) pageView {
	v := pageView{List: web.With("/jobs", q)}
	for _, name := range api.BulkFilters() {
		for _, value := range q[name] {
			v.Filters = append(v.Filters, filter{name, value})
		}
	}
	seen := map[lifecycle.Event]bool{lifecycle.Reprioritize: true}
	for _, k := range kinds.KindsOf() {
		if k == bulk.Kind || len(q["kind"]) > 0 && !slices.Contains(q["kind"], string(k)) {
			continue
		}
		for _, stage := range kinds.Stages(k) {
			if len(q["state"]) > 0 && !slices.Contains(q["state"], string(stage.State)) {
				continue
			}
			for _, t := range stage.Transitions {
				if t.By&lifecycle.Operator != 0 && !seen[t.Event] {
					seen[t.Event] = true
					v.Events = append(v.Events, event{string(t.Event), string(t.Event) == chosen})
				}
			}
		}
	}
	return v
}

// bulkOf makes a request of the filters.
func bulkOf(q url.Values) (b api.Bulk, err error) {
	single := func(name string) string {
		if len(q[name]) > 1 {
			err = job.Errorf(job.Invalid, "bulk", "", "%s is given %d times", name, len(q[name]))
		}
		return q.Get(name)
	}
	b = api.Bulk{Group: single("group"), Owner: single("owner"), Parent: job.ID(single("parent")), Tag: single("tag"),
		Causes: q["cause"], Worker: single("worker"), Words: single("words")}
	if text := single("ended"); text != "" && err == nil {
		var ended bool
		if ended, err = strconv.ParseBool(text); err != nil {
			err = job.Errorf(job.Invalid, "bulk", "", "ended must be true or false, not %.40q", text)
		}
		b.Ended = &ended
	}
	for _, k := range q["kind"] {
		b.Kinds = append(b.Kinds, job.Kind(k))
	}
	for _, s := range q["state"] {
		b.States = append(b.States, lifecycle.State(s))
	}
	for _, o := range q["outcome"] {
		b.Outcomes = append(b.Outcomes, lifecycle.Outcome(o))
	}
	return b, err
}

// start starts the bulk of the form.
func (s *Handlers) start(r *http.Request, form *web.Form) (to, done string, err error) {
	if _, err := s.bulkApp(); err != nil {
		return "", "", err
	}
	q := url.Values{}
	for _, name := range api.BulkFilters() {
		if values := form.All(name); len(values) > 0 {
			q[name] = values
		}
	}
	b, err := bulkOf(q)
	if err != nil {
		return "", "", err
	}
	b.Event, b.Note, b.Confirm = lifecycle.Event(form.Text("event")), form.Line("note"), form.Checked("confirm")
	if text := form.Text("expect"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			form.Wrong("expect must be a number, not %.40q", text)
		}
		b.Expect = &n
	}
	if err := form.Err(); err != nil {
		return "", "", err
	}
	var j api.Job
	if err := s.pages.Send(r, http.MethodPost, "/api/v1/bulk", b, &j); err != nil {
		return "", "", err
	}
	return web.JobPath(j.ID), "Started: " + string(b.Event) + " on all matching jobs", nil
}
