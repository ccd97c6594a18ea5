package web

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/web/filters"
)

// jobsView is what the list of jobs shows.
type jobsView struct {
	Filter url.Values     // as in the address, without the cursor
	Kept   []filters.Kept // filters without a field
	Views  []savedView
	Kinds  []choice
	States []choice
	Ends   []choice
	Groups []choice // to which the reader is limited; none: to no groups
	Rows   []Row
	Total  string // how many match, if it is known at no cost
	First  string // address of the first page, on the others
	Next   string // address of the next page
	Acts   []server.Link
	User   bool // it lists the jobs of one user
	Words  bool // the store finds jobs by words
}

// savedView is a query that people often need.
type savedView struct {
	Title, Path string
	Here        bool
}

// choice is an option of a filter.
type choice struct {
	Value, Text string
	Chosen      bool
}

// jobs lists jobs. The address has the filters; those without a value are removed from it, and the states that only
// other kinds have: another kind was chosen.
func (h *handlers) jobs(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	if filters := fitting(h.Pages, Given(q)); filters.Encode() != q.Encode() {
		http.Redirect(w, r, With("/jobs", filters), http.StatusSeeOther)
		return nil
	}
	return h.Show("jobs.html", h.jobList)(w, r)
}

func (h *handlers) jobList(r *http.Request) (*Frame, error) {
	q := r.URL.Query()
	q.Del("brief") // a page always is
	groups := server.GroupsOf(r.Context())
	if len(groups) > 0 && q.Get("group") == "" {
		q.Set("group", groups[0]) // a list is of one of them
	}
	var page api.Page
	asked := maps.Clone(q)
	asked.Set("brief", "true")
	if err := h.Get(r, With("/api/v1/jobs", asked), &page); err != nil {
		return nil, err
	}
	h.plainly(r, &page)
	v := viewJobs(h.Pages, time.Now(), q, &page)
	v.User, v.Words = server.IsUser(r.Context()), h.Store.Properties().Words
	fields := []string{"kind", "state", "outcome", "group", "tag", "order", "parent", "ended", "worker", "cause", "key",
		"words"}
	if !v.User {
		fields = append(fields, "owner")
	}
	v.Kept = filters.Besides(v.Filter, fields...)
	for _, group := range groups {
		v.Groups = append(v.Groups, choice{group, group, group == q.Get("group")})
	}
	if h.MayUse(r.Context(), server.Operator) {
		var queue api.Queue
		if err := h.Get(r, "/api/v1/queue", &queue); err != nil {
			return nil, err
		}
		v.Total = totalOf(h.Pages, q, queue.Rows)
	}
	v.Acts = actsOn(h.OnList(r.Context()), v.Filter)
	return &Frame{Title: "Jobs", Body: v, Refresh: overviewRefresh}, nil
}

// viewJobs makes the list.
func viewJobs(kinds Catalog, now time.Time, q url.Values, page *api.Page) jobsView {
	filter := filters.Of(q, "kind", "state", "outcome", "cause")
	v := jobsView{Filter: filter, Rows: rowsOf(kinds, now, page), Views: savedViews(filter)}
	for _, k := range kinds.KindsOf() {
		v.Kinds = append(v.Kinds, choice{Value: string(k), Text: kinds.NameOf(k).Many})
	}
	v.Kinds = choose(v.Kinds, filter["kind"])
	v.States = choose(stateChoices(kinds, filter["kind"]), filter["state"])
	for _, o := range []lifecycle.Outcome{lifecycle.OK, lifecycle.Failed, lifecycle.TimedOut, lifecycle.Cancelled} {
		v.Ends = append(v.Ends, choice{Value: string(o), Text: string(o)})
	}
	v.Ends = choose(v.Ends, filter["outcome"])
	if q.Has("after") {
		v.First = With("/jobs", filter)
	}
	if page.Next != "" {
		next := url.Values{"after": {page.Next}}
		for name, values := range filter {
			next[name] = values
		}
		v.Next = With("/jobs", next)
	}
	return v
}

// fitting removes from filters the states that other kinds have and the chosen ones do not. A state that no kind has
// stays: records outlive lifecycles.
func fitting(kinds Catalog, q url.Values) url.Values {
	filter := filters.Of(q, "kind", "state")
	own, all := stateChoices(kinds, filter["kind"]), stateChoices(kinds, nil)
	states := slices.DeleteFunc(slices.Clone(filter["state"]), func(s string) bool {
		is := func(c choice) bool { return c.Value == s }
		return len(own) > 0 && slices.ContainsFunc(all, is) && !slices.ContainsFunc(own, is)
	})
	if len(states) < len(filter["state"]) {
		q = maps.Clone(q)
		if q["state"] = states; len(states) == 0 {
			delete(q, "state")
		}
	}
	return q
}

// Catalog is the kinds of a server with their names and stages.
type Catalog interface {
	Kinds
	KindsOf() []job.Kind
	Stages(k job.Kind) []lifecycle.Stage
}

// KindsOf lists the kinds that the server runs.
func (p *Pages) KindsOf() []job.Kind { return p.Engine.Kinds() }

// Stages lists the stages of the lifecycle of a kind.
func (p *Pages) Stages(k job.Kind) []lifecycle.Stage {
	if life := p.Engine.Life(k); life != nil {
		return life.Stages()
	}
	return nil
}

// choose marks the options that are chosen, and adds those that are not among the options: records outlive lifecycles.
func choose(all []choice, chosen []string) []choice {
	for _, value := range chosen {
		i := slices.IndexFunc(all, func(c choice) bool { return c.Value == value })
		if i < 0 {
			i, all = len(all), append(all, choice{Value: value, Text: value})
		}
		all[i].Chosen = true
	}
	return all
}

// stateChoices lists the states of the chosen kinds, or of all, each once.
func stateChoices(kinds Catalog, of []string) (all []choice) {
	seen := map[lifecycle.State]bool{}
	for _, k := range kinds.KindsOf() {
		if len(of) > 0 && !slices.Contains(of, string(k)) {
			continue
		}
		for _, s := range kinds.Stages(k) {
			if !seen[s.State] {
				seen[s.State] = true
				all = append(all, choice{Value: string(s.State), Text: string(s.State)})
			}
		}
	}
	if len(of) == 0 {
		slices.SortFunc(all, func(a, b choice) int { return cmp.Compare(a.Text, b.Text) })
	}
	return all
}

// savedViews are the queries above the list. They keep the kind, group, owner and tag of the present one.
func savedViews(filter url.Values) (all []savedView) {
	keep := url.Values{}
	for _, name := range []string{"kind", "group", "owner", "tag", "parent"} {
		if v := filter[name]; len(v) > 0 {
			keep[name] = v
		}
	}
	for _, one := range []struct {
		title string
		more  url.Values
	}{
		{"All", nil}, {"Open", url.Values{"ended": {"false"}}},
		{"Failed", url.Values{"outcome": {string(lifecycle.Failed), string(lifecycle.TimedOut)}}},
		{"Ended well", url.Values{"outcome": {string(lifecycle.OK)}}},
		{"Oldest open", url.Values{"ended": {"false"}, "order": {"oldest"}}},
	} {
		q := url.Values{}
		for name, values := range keep {
			q[name] = values
		}
		for name, values := range one.more {
			q[name] = values
		}
		all = append(all, savedView{one.title, With("/jobs", q), q.Encode() == filter.Encode()})
	}
	return all
}

// totalOf states how many jobs match. The tallies have it for the filters by kind, state, group and ended; for
// others the number is not known without reading all jobs.
func totalOf(kinds Kinds, q url.Values, rows []job.Tally) string {
	for name := range q {
		if !slices.Contains([]string{"kind", "state", "group", "ended", "order", "after", "limit"}, name) {
			return ""
		}
	}
	n := int64(0)
	for i := range rows {
		t := &rows[i]
		ended := kinds.Stage(t.Kind, t.State).Kind == lifecycle.End
		if fits(q["kind"], string(t.Kind)) && fits(q["state"], string(t.State)) && fits(q["group"], t.Group) &&
			(q.Get("ended") == "" || (q.Get("ended") == "true") == ended) {
			n += t.Jobs
		}
	}
	return numbered(int(n), "job", "jobs")
}

func fits(wanted []string, got string) bool { return len(wanted) == 0 || slices.Contains(wanted, got) }

// actsOn gives pages the filters of a list. There are none if they would act on other jobs than the list has: with a
// filter that the pages do not take, and without a filter, because nothing acts on all jobs of a server.
func actsOn(pages []server.Link, filter url.Values) (all []server.Link) {
	q := maps.Clone(filter)
	maps.DeleteFunc(q, func(name string, v []string) bool { return len(v) == 0 || name == "order" || name == "limit" })
	for name := range q {
		if !slices.Contains(api.BulkFilters(), name) {
			return nil
		}
	}
	if len(q) == 0 || len(q) == 1 && q.Has("ended") {
		return nil
	}
	for _, l := range pages {
		l.Path = With(l.Path, q)
		all = append(all, l)
	}
	return all
}

// searchView is what a search found.
type searchView struct {
	Name string
	Rows []Row
}

// search opens the job that a name means. A number may be that of jobs of several kinds.
func (h *handlers) search(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	name := strings.TrimSpace(p.Text("name"))
	if err := p.Err(); err != nil {
		return h.Fail(w, r, err)
	}
	names := []string{name}
	if _, err := strconv.ParseUint(name, 10, 63); err == nil {
		for _, k := range h.KindsOf() {
			if !h.NameOf(k).Part {
				names = append(names, string(k)+"/"+name)
			}
		}
	}
	var page api.Page
	var wrong error
	for i, one := range names {
		var found api.Page
		if err := h.Get(r, With("/api/v1/lookup", url.Values{"name": {one}}), &found); i == 0 {
			wrong = err
		}
		page.Jobs = append(page.Jobs, slices.DeleteFunc(found.Jobs, func(j job.Job) bool {
			return slices.ContainsFunc(page.Jobs, func(have job.Job) bool { return have.ID == j.ID })
		})...)
	}
	if len(page.Jobs) == 0 {
		if to := h.withWords(r, name); to != "" {
			http.Redirect(w, r, to, http.StatusSeeOther)
			return nil
		}
		return h.Fail(w, r, wrong)
	}
	if len(page.Jobs) == 1 {
		http.Redirect(w, r, JobPath(page.Jobs[0].ID), http.StatusSeeOther)
		return nil
	}
	f := &Frame{Title: "Several jobs fit", Body: searchView{name, rowsOf(h.Pages, time.Now(), &page)}}
	return h.Reply(w, r, http.StatusOK, "search.html", f)
}

// withWords returns the page of the only job that has the words of a text, or of the list of several; empty: none has.
func (h *handlers) withWords(r *http.Request, text string) string {
	if !h.Store.Properties().Words {
		return ""
	}
	for _, group := range append([]string{""}, server.GroupsOf(r.Context())...) {
		q := Given(url.Values{"words": {text}, "group": {group}})
		var page api.Page
		if err := h.Get(r, With("/api/v1/jobs", q)+"&brief=true&limit=2", &page); err != nil {
			continue
		}
		if len(page.Jobs) == 1 && page.Next == "" {
			return JobPath(page.Jobs[0].ID)
		}
		if len(page.Jobs) > 0 || page.Next != "" {
			return With("/jobs", q)
		}
	}
	return ""
}

// theme stores which colors a browser chose, and goes back to the page.
func (h *handlers) theme(w http.ResponseWriter, r *http.Request) error {
	return h.Post(func(_ *http.Request, form *Form) (to, done string, err error) {
		chosen, back := form.Text("theme"), form.Text("back")
		if err := form.Err(); err != nil {
			return "", "", err
		}
		if !slices.Contains(themes, chosen) {
			return "", "", job.Errorf(job.Invalid, "theme", "", "there is no theme %.20q", chosen)
		}
		if u, err := url.Parse(back); err != nil || u.Host != "" || u.Scheme != "" || !localPath.MatchString(back) {
			back = "/"
		}
		http.SetCookie(w, &http.Cookie{Name: themeCookie, Value: chosen, Path: "/", MaxAge: 365 * 24 * 3600,
			HttpOnly: true, SameSite: http.SameSiteLaxMode})
		return back, "", nil
	})(w, r)
}
