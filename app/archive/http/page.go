package archivehttp

import (
	"cmp"
	"crypto/rand"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/openapi"
	"github.com/stagepost/stagepost/web"
	"github.com/stagepost/stagepost/web/amount"
)

//go:embed pages
var files embed.FS

// Bounds of the pages.
const (
	readArchives = 1000 // archives from which the list of courses is made
	shownCourses = 50   // courses
	shownFiles   = 20   // files of an archive on the page about its job
	pageFiles    = 100  // files on a page of them
)

// pageRoutes lists the pages.
func (s *Handlers) pageRoutes() []server.Route {
	return append([]server.Route{
		web.PageRoute("/jobs/{id}/copies", server.Person, "A page with the files of an archive, and their copies with "+
			"the digest and the fixity check of each: after.", openapi.Query("after"),
			s.pages.Show("copies.html", s.copiesPage)),
		web.PageRoute("/archive", server.Own, "A page with the archived courses: newest archive, activities, copies "+
			"and problems of each, for users of their own archives: source, course.",
			[]openapi.Parameter{{Name: "source", Doc: "Source of the archives."},
				{Name: "course", Doc: "Course of the archives, by its id in the source."}}, s.coursesPage),
		web.PageRoute("/archive/{source}/{course}", server.Operator, "A page about a course: what of it is archived, "+
			"changed since, or missing, and its archives.", nil, s.pages.Show("course.html", s.coursePage)),
		web.FormRoute("/archive/{source}/{course}", server.Operator, "Archives a course as the form of the page asks.",
			s.pages.Post(s.archiveForm)),
	}, web.HookRoutes(s.Server, "/archive/hooks", prefix+"/hooks")...)
}

// sitePages is what archives add to the pages for people.
func (s *Handlers) sitePages() server.Pages {
	p := server.Pages{
		Kinds: map[job.Kind]server.Named{
			archive.Kind: {One: "archive job", Many: "archive jobs", Application: "Archive"},
		},
		Details: map[job.Kind]func(*http.Request, *api.Job) (server.Details, error){archive.Kind: s.jobDetails},
	}
	if s.Archive != nil {
		p.Links = []server.Link{{Section: "Work", Title: "Archive", Path: "/archive", Who: server.Own},
			{Section: "Control", Title: "Archive webhooks", Path: "/archive/hooks", Who: server.Operator}}
	}
	return p
}

// coursesView is what the list of courses shows.
type coursesView struct {
	Source, Course string // the filters
	Rows           []courseRow
	More           bool // there are other courses, or older archives
	Locations      []api.ArchiveLocation
	Deletions      []api.ArchiveDeletion // that wait for a decision
	Operator       bool
}

// courseRow is a course with its newest archive.
type courseRow struct {
	api.Archive
	Title      string
	Path       string // of the page about the course; empty: the reader may not open it
	Since      string
	Tone       web.Tone
	Archives   int // that were read
	Activities int
	Left       int // activities that were not archived
	Files      int
	Bytes      int64
	Places     []located
	Problems   []string
}

// located is the copies of an archive in one storage location.
type located struct {
	api.ArchiveStored
	Tone    web.Tone
	State   string
	Checked string // how long ago
}

func coursePath(source, course string) string {
	return "/archive/" + url.PathEscape(source) + "/" + url.PathEscape(course)
}

// coursesPage lists courses. Filters without a value are removed from the address.
func (s *Handlers) coursesPage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	if filters := web.Given(q); len(filters) < len(q) {
		http.Redirect(w, r, web.With("/archive", filters), http.StatusSeeOther)
		return nil
	}
	return s.pages.Show("archive.html", s.courses)(w, r)
}

func (s *Handlers) courses(r *http.Request) (*web.Frame, error) {
	p := server.Params(r)
	v := coursesView{Source: p.Text("source"), Course: p.Text("course"), Operator: s.MayUse(r.Context(),
		server.Operator)}
	if err := p.Err(); err != nil {
		return nil, err
	}
	q := web.Given(url.Values{"source": {v.Source}, "course": {v.Course}, "limit": {strconv.Itoa(readArchives)}})
	var page api.Archives
	if err := s.pages.Get(r, web.With(prefix+"/archives", q), &page); err != nil {
		return nil, err
	}
	rows, more := byCourse(page.Archives)
	v.More = more || page.Next != ""
	now := s.Engine.Clock().Now()
	for i := range rows {
		row := &rows[i]
		var d api.ArchiveDetails
		if err := s.pages.Get(r, prefix+"/archives/"+url.PathEscape(string(row.Job)), &d); err != nil {
			return nil, err
		}
		row.fill(&d, now)
		if v.Operator {
			row.Path = coursePath(row.Source, row.Course)
		}
	}
	v.Rows = rows
	if v.Operator {
		var sources api.ArchiveSources
		var deletions api.ArchiveDeletions
		if err := cmp.Or(s.pages.Get(r, prefix+"/sources", &sources),
			s.pages.Get(r, prefix+"/deletions?state=requested", &deletions)); err != nil {
			return nil, err
		}
		v.Locations, v.Deletions = sources.Locations, deletions.Deletions
	}
	return &web.Frame{Title: "Archive", Body: v,
		Lead: "Courses with their newest archive. A package is complete " +
			"when each storage location has a verified copy."}, nil
}

// byCourse groups archives, the newest first, by course, and reports whether there are more courses than are shown.
func byCourse(all []api.Archive) (rows []courseRow, more bool) {
	at := map[[2]string]int{}
	for _, a := range all {
		key := [2]string{a.Source, a.Course}
		i, known := at[key]
		if !known {
			if len(rows) == shownCourses {
				more = true
				continue
			}
			i, at[key] = len(rows), len(rows)
			rows = append(rows, courseRow{Archive: a, Title: cmp.Or(a.CourseName, a.Course)})
		}
		rows[i].Archives++
	}
	return rows, more
}

// fill sets what the details of the newest archive state.
func (row *courseRow) fill(d *api.ArchiveDetails, now time.Time) {
	row.Since, row.Tone = amount.Ago(now, cmp.Or(row.Ended, row.Created)), toneOf(row.Outcome)
	row.Files, row.Bytes, row.Places = d.Files, d.Bytes, copiesOf(d.Stored, now)
	for i := range d.Activities {
		a := &d.Activities[i]
		row.Activities++
		if a.Reason != "" || a.State == "missing" || a.State == "excluded" {
			row.Left++
		}
	}
	row.Problems = problemsOf(d)
}

// toneOf returns how the outcome of an archive appears.
func toneOf(outcome string) web.Tone {
	switch outcome {
	case "complete":
		return web.Good
	case "failed":
		return web.Bad
	case "making":
		return web.Working
	}
	return web.Quiet
}

// copiesOf states in words how the copies in each storage location are.
func copiesOf(stored []api.ArchiveStored, now time.Time) []located {
	all := make([]located, len(stored))
	for i, one := range stored {
		p := located{ArchiveStored: one, Tone: web.Good, State: "verified"}
		switch {
		case one.Faults > 0:
			p.Tone, p.State = web.Bad, "damaged"
		case one.Missing > 0 && one.Error != "":
			p.Tone, p.State = web.Bad, "not stored"
		case one.Missing > 0:
			p.Tone, p.State = web.Working, "being stored"
		case one.Copies == 0 && one.Deleted > 0:
			p.Tone, p.State = web.Quiet, "deleted"
		case one.Copies == 0:
			p.Tone, p.State = web.Waiting, "none"
		}
		if !one.Checked.IsZero() {
			p.Checked = amount.Ago(now, one.Checked)
		}
		all[i] = p
	}
	return all
}

// problemsOf lists what a person should act on, the cause first.
func problemsOf(d *api.ArchiveDetails) (all []string) {
	if d.Outcome == "failed" && d.Message != "" {
		all = append(all, d.Message)
	}
	for _, one := range d.Stored {
		if one.Faults > 0 {
			all = append(all, strconv.Itoa(one.Faults)+" damaged files in "+one.Location)
		}
		if one.Missing > 0 && one.Error != "" {
			all = append(all, one.Location+": "+one.Error)
		}
	}
	for i := range d.Activities {
		a := &d.Activities[i]
		switch {
		case a.Drift:
			all = append(all, a.Name+" changed while it was archived")
		case a.Failures > 0 && a.Cause != "":
			all = append(all, a.Name+": "+a.Cause)
		}
	}
	return all[:min(len(all), 5)]
}

// courseView is what the page about a course shows.
type courseView struct {
	api.ArchiveOverview
	Rows   []activityRow
	Counts []string
	List   []courseRow // its archives
	Absent string      // why the source does not answer
	Path   string
	May    bool // the reader may archive it
	Key    string
}

type activityRow struct {
	api.ArchiveActivity
	Tone  web.Tone
	Since string
}

func (s *Handlers) coursePage(r *http.Request) (*web.Frame, error) {
	source, id := r.PathValue("source"), r.PathValue("course")
	v := courseView{Path: coursePath(source, id), May: s.Permits(r, http.MethodPost, prefix+"/jobs"), Key: rand.Text()}
	var page api.Archives
	q := url.Values{"source": {source}, "course": {id}, "limit": {"20"}}
	if err := s.pages.Get(r, web.With(prefix+"/archives", q), &page); err != nil {
		return nil, err
	}
	err := s.pages.Get(r, prefix+"/sources/"+url.PathEscape(source)+"/courses/"+url.PathEscape(id), &v.ArchiveOverview)
	if err != nil && (len(page.Archives) == 0 || job.KindOf(err) == job.Internal) {
		return nil, err
	}
	if err != nil { // the archives are there although the source is not
		v.Absent = job.Reason(err)
	}
	now := s.Engine.Clock().Now()
	for _, a := range page.Archives {
		v.List = append(v.List, courseRow{Archive: a, Title: string(a.Job), Tone: toneOf(a.Outcome),
			Since: amount.Ago(now, a.Created)})
	}
	v.setActivities(now)
	title := cmp.Or(v.ArchiveOverview.Course.Name, id)
	if v.ArchiveOverview.Course.Name == "" && len(page.Archives) > 0 {
		title = cmp.Or(page.Archives[0].CourseName, id)
	}
	return &web.Frame{Title: title, Up: server.Link{Title: "Archive", Path: "/archive"}, Body: v}, nil
}

// activityTone is how a state of activities appears.
type activityTone struct {
	state string
	tone  web.Tone
}

// activityTones are those of all states, in the order of their urgency.
var activityTones = []activityTone{{"missing", web.Bad}, {"changed", web.Held}, {"expired", web.Held}, {"archived",
	web.Good}, {"removed", web.Quiet},
	{"excluded", web.Quiet}}

// setActivities makes the rows of the activities, the most urgent first.
func (v *courseView) setActivities(now time.Time) {
	for _, t := range activityTones {
		n := 0
		for i := range v.Activities {
			if a := &v.Activities[i]; a.State == t.state {
				n++
				v.Rows = append(v.Rows, activityRow{*a, t.tone, amount.Ago(now, a.Archived)})
			}
		}
		if n > 0 {
			v.Counts = append(v.Counts, strconv.Itoa(n)+" "+t.state)
		}
	}
}

// archiveForm archives a course.
func (s *Handlers) archiveForm(r *http.Request, form *web.Form) (to, done string, err error) {
	o := api.ArchiveOrder{Key: form.Text("key")}
	o.Source, o.Course, o.Note = r.PathValue("source"), r.PathValue("course"), form.Line("note")
	o.Activities = form.All("activity")
	if err := form.Err(); err != nil {
		return "", "", err
	}
	var j api.Job
	if err := s.pages.Send(r, http.MethodPost, prefix+"/jobs", o, &j); err != nil {
		return "", "", err
	}
	return web.JobPath(j.ID), "The archive job is in the queue", nil
}

// archiveView is what the page about a job shows of its archive.
type archiveView struct {
	api.ArchiveDetails
	Path       string // of the page about the course; empty: the reader may not open it
	Activities []activityRow
	Places     []located
	Problems   []string
	List       template.HTML // its first files
	All        string        // the page with all files; empty: there are no others
	Objects    []objectRow
	Active     []api.ArchiveHold // legal holds that apply
}

// jobDetails shows the packages, copies, digests and time stamps of an archive.
func (s *Handlers) jobDetails(r *http.Request, j *api.Job) (d server.Details, err error) {
	path := prefix + "/archives/" + url.PathEscape(string(j.ID))
	var v archiveView
	if s.Archive == nil {
		return d, nil
	}
	err = s.pages.Get(r, path, &v.ArchiveDetails)
	if job.KindOf(err) == job.NotFound {
		return d, nil // the job has not begun: the catalog lacks it
	}
	if err != nil {
		return d, err
	}
	now := s.Engine.Clock().Now()
	v.Places, v.Problems = copiesOf(v.Stored, now), problemsOf(&v.ArchiveDetails)
	v.Objects = objectsOf(v.ArchiveDetails.Objects, now)
	for _, a := range v.ArchiveDetails.Activities {
		row := activityRow{ArchiveActivity: a, Tone: web.Waiting}
		if i := slices.IndexFunc(activityTones, func(t activityTone) bool { return t.state == a.State }); i >= 0 {
			row.Tone = activityTones[i].tone
		}
		v.Activities = append(v.Activities, row)
	}
	for _, h := range v.Holds {
		if h.Released.IsZero() {
			v.Active = append(v.Active, h)
		}
	}
	if s.MayUse(r.Context(), server.Operator) {
		v.Path = coursePath(v.Source, v.Course)
	}
	if v.Tombstone == nil {
		var next string
		if v.List, next, err = s.fileList(r, j.ID, "", shownFiles); err != nil && job.KindOf(err) != job.Gone {
			return d, err
		}
		if next != "" {
			v.All = copiesPath(j.ID, "")
		}
	}
	d.HTML, err = s.pages.Fragment("detail.html", v)
	return d, err
}
