package computehttp

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
)

// Bounds of one answer about many jobs.
const (
	mostLooks = 100    // pages of the store that one page of a filtered list may cost
	mostUsage = 50_000 // jobs that an answer about usage counts
)

// computeFilter is what a list of compute jobs is asked for beside what the store can find.
type computeFilter struct {
	query    job.Query
	number   int64 // 0: any
	services []string
	name     string
	labels   []string
}

// listCompute gives a page of compute jobs. What the store has no index for is found by reading through: the page may
// then be shorter than asked, and still have a next one.
func (s *Handlers) listCompute(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	f := computeFilter{services: p.All("service"), name: p.Text("name"), labels: p.All("label")}
	f.query = job.Query{
		Kinds: []job.Kind{compute.JobKind}, Owner: p.Text("owner"), Causes: p.All("cause"),
		Ended: p.Flag("ended"),
	}
	f.number = p.Number("number", 1, job.LastNumber)
	f.query.After, f.query.Limit = p.Page()
	for _, state := range p.All("state") {
		f.query.States = append(f.query.States, foldState(state))
	}
	for _, o := range p.All("outcome") {
		f.query.Outcomes = append(f.query.Outcomes, lifecycle.Outcome(o))
	}
	if err := p.Err(); err != nil {
		return err
	}
	app, err := s.compute()
	if err != nil {
		return err
	}
	if f.query.Owner, err = onlyOwner(r, f.query.Owner); err != nil {
		return err
	}
	if err := server.OneOf("service", f.services, serviceNames(app)); err != nil {
		return err
	}
	if f.services, err = withinGroups(r.Context(), f.services); err != nil {
		return err
	}
	if err := s.CheckQuery(r.Context(), &f.query); err != nil {
		return err
	}
	jobs, next, err := s.search(r.Context(), &f)
	if err != nil {
		return err
	}
	page := api.ComputePage{Jobs: make([]api.ComputeJob, len(jobs)), Next: next}
	for i := range jobs {
		if page.Jobs[i], err = viewCompute(app, &jobs[i]); err != nil {
			return err
		}
	}
	if err := s.setPositions(r.Context(), page.Jobs); err != nil {
		return err
	}
	return server.Reply(w, page)
}

// withinGroups limits services to those of the sender: without any, all of these.
func withinGroups(ctx context.Context, services []string) ([]string, error) {
	if len(services) == 0 {
		return server.GroupsOf(ctx), nil
	}
	for _, one := range services {
		if err := server.CheckGroup(ctx, one); err != nil {
			return nil, err
		}
	}
	return services, nil
}

func serviceNames(app Compute) []string {
	var all []string
	for _, one := range app.Services() {
		all = append(all, one.Name)
	}
	return all
}

// search finds the jobs of a page. It never takes more from the store than the page still lacks, so that the store's
// cursor is that of the page.
func (s *Handlers) search(ctx context.Context, f *computeFilter) (found []job.Job, next string, err error) {
	if len(f.services) == 1 {
		f.query.Group = f.services[0]
	}
	filtered := len(f.services) > 1 || f.name != "" || len(f.labels) > 0
	if f.number != 0 {
		return s.numbered(ctx, f)
	}
	q, want := f.query, f.query.PageSize()
	for range mostLooks {
		q.Limit = want - len(found)
		page, err := s.Store.List(ctx, q)
		if err != nil {
			return nil, "", err
		}
		for i := range page.Jobs {
			if !filtered || f.fits(&page.Jobs[i]) {
				found = append(found, page.Jobs[i])
			}
		}
		if q.After = page.Next; page.Next == "" || len(found) >= want {
			break
		}
	}
	return found, q.After, nil
}

// numbered finds the one job with the number, if the filter fits it.
func (s *Handlers) numbered(ctx context.Context, f *computeFilter) (found []job.Job, next string, err error) {
	if f.query.After != "" {
		return nil, "", job.Errorf(job.Invalid, "list", "", "there is no page after number %d", f.number)
	}
	j, err := s.Store.Numbered(ctx, compute.JobKind, f.number)
	switch {
	case job.KindOf(err) == job.NotFound:
		return nil, "", nil
	case err != nil:
		return nil, "", err
	case f.query.Matches(&j) && f.fits(&j):
		found = append(found, j)
	}
	return found, "", nil
}

// fits reports whether a job is wanted, by what the store cannot ask for.
func (f *computeFilter) fits(j *job.Job) bool {
	if len(f.services) > 0 && !slices.Contains(f.services, j.Group) {
		return false
	}
	if f.name == "" && len(f.labels) == 0 {
		return true
	}
	spec, err := compute.SpecOf(j)
	if err != nil || f.name != "" && spec.Name != f.name {
		return false
	}
	for _, l := range f.labels {
		name, value, exact := strings.Cut(l, "=")
		if got, there := spec.Labels[name]; !there || exact && got != value {
			return false
		}
	}
	return true
}

// setPositions sets the positions of jobs that wait.
func (s *Handlers) setPositions(ctx context.Context, jobs []api.ComputeJob) error {
	positions := map[string]map[job.ID]int{}
	for i := range jobs {
		j := &jobs[i]
		if j.State != compute.Queued {
			continue
		}
		if positions[j.Service] == nil {
			of, err := s.queuePositions(ctx, j.Service)
			if err != nil {
				return err
			}
			positions[j.Service] = of
		}
		j.QueuePosition = positions[j.Service][j.ID]
	}
	return nil
}

func (s *Handlers) computeServices(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, err := s.compute()
	if err != nil {
		return err
	}
	jobs, err := s.tally(r.Context())
	if err != nil {
		return err
	}
	answer := api.ComputeServices{Services: []api.ComputeService{}}
	for _, one := range app.Services() {
		if server.CheckGroup(r.Context(), one.Name) != nil {
			continue
		}
		answer.Services = append(answer.Services, api.ComputeService{Name: one.Name, RunsPerUser: one.RunsPerUser,
			MaxRuns: one.MaxRuns, Agents: one.Agents, Limits: viewLimits(one.Limits), Max: viewLimits(one.Max),
			Queued: jobs[one.Name].queued, Running: jobs[one.Name].running})
	}
	return server.Reply(w, answer)
}

// tally is how many jobs of a service wait and run.
type tally struct{ queued, running int64 }

func (t tally) with(state lifecycle.State, jobs int64) tally {
	switch {
	case state == compute.Queued:
		t.queued += jobs
	case compute.Slot(state):
		t.running += jobs
	}
	return t
}

// tally counts the jobs of each service that the sender of a request may see: for a depositor its own.
func (s *Handlers) tally(ctx context.Context) (map[string]tally, error) {
	all := map[string]tally{}
	owner := server.UserOf(ctx)
	if owner == "" {
		counts, err := s.Store.Count(ctx)
		for _, t := range counts {
			if t.Kind == compute.JobKind {
				all[t.Group] = all[t.Group].with(t.State, t.Jobs)
			}
		}
		return all, err
	}
	q := job.Query{Kinds: []job.Kind{compute.JobKind}, Owner: owner, Limit: 1000}
	for _, stage := range compute.JobLife.Stages() {
		if stage.State == compute.Queued || compute.Slot(stage.State) {
			q.States = append(q.States, stage.State)
		}
	}
	for looked := 0; looked < mostUsage; {
		page, err := s.Store.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Jobs {
			j := &page.Jobs[i]
			all[j.Group] = all[j.Group].with(j.State, 1)
		}
		looked += len(page.Jobs)
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	return all, nil
}

func (s *Handlers) computeAgents(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, err := s.compute()
	if err != nil {
		return err
	}
	others, err := s.elsewhere(r.Context())
	if err != nil {
		return err
	}
	answer := api.ComputeAgents{Agents: []api.ComputeAgent{}}
	for _, a := range app.Agents(others...) {
		answer.Agents = append(answer.Agents, viewAgent(&a))
	}
	return server.Reply(w, answer)
}

// computeUsage reports what owners have here and what of theirs runs.
func (s *Handlers) computeUsage(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	owner := p.Text("owner")
	if err := p.Err(); err != nil {
		return err
	}
	app, err := s.compute()
	if err != nil {
		return err
	}
	owner, err = onlyOwner(r, owner)
	if err != nil {
		return err
	}
	var states []lifecycle.State // all whose files are here
	for _, stage := range compute.JobLife.Stages() {
		if stage.State != compute.Cleaned {
			states = append(states, stage.State)
		}
	}
	owners := map[string]*api.ComputeOwner{}
	q := job.Query{Kinds: []job.Kind{compute.JobKind}, States: states, Owner: owner, Limit: 1000}
	for looked := 0; looked < mostUsage; {
		page, err := s.Store.List(r.Context(), q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			if server.CheckGroup(r.Context(), page.Jobs[i].Group) != nil {
				continue
			}
			if err := addUsage(owners, &page.Jobs[i]); err != nil {
				return err
			}
		}
		looked += len(page.Jobs)
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	answer := api.ComputeUsage{Owners: []api.ComputeOwner{}, MostBytes: app.UserBytes(), More: q.After != ""}
	if len(server.GroupsOf(r.Context())) > 0 {
		answer.MostBytes = 0 // it bounds the files of all groups
	}
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		answer.Owners = append(answer.Owners, *owners[name])
	}
	return server.Reply(w, answer)
}

func addUsage(owners map[string]*api.ComputeOwner, j *job.Job) error {
	o := owners[j.Owner]
	if o == nil {
		o = &api.ComputeOwner{Owner: j.Owner, Running: map[string]int64{}, Queued: map[string]int64{}}
		owners[j.Owner] = o
	}
	spec, d, err := compute.RecordOf(j)
	if err != nil {
		return err
	}
	o.Jobs++
	o.Files += int64(len(spec.Files) + len(d.Fetched))
	if d.Results != nil {
		o.Files += int64(d.Results.Files)
	}
	o.Bytes += j.Bytes
	service := cmp.Or(j.Group, spec.Service)
	switch {
	case j.State == compute.Queued:
		o.Queued[service]++
	case compute.Slot(j.State):
		o.Running[service]++
	}
	return nil
}
