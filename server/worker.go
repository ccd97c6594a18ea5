package server

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/lean"
	"github.com/stagepost/stagepost/server/problem"
)

// Bounds of what a worker may ask for.
const (
	maxBatch  = 1000
	maxPlaces = 100
	maxWait   = 60.0   // seconds
	maxLease  = 3600.0 // seconds
)

func checkWorker(op, worker string, lease float64) error {
	switch {
	case worker == "":
		return job.Errorf(job.Invalid, op, "", "worker, the name of who asks, is missing")
	case lease < 0 || lease > maxLease || (lease > 0 && lease < 1):
		return job.Errorf(job.Invalid, op, "", "lease must be 1 to %g seconds, or 0 for the server's default", maxLease)
	}
	return CheckName("worker", worker)
}

// workerOf returns the name of the worker that sends a request: the owner of its token, whatever the request has;
// without authentication the name in the request.
func workerOf(r *http.Request, said string) string { return cmp.Or(OwnerOf(r.Context()), said) }

// inScope refuses kinds and states that a worker's token does not name. Admins and workers without authentication are
// not limited.
func inScope(ctx context.Context, op string, id job.ID, p job.KindState) error {
	who, known := Who(ctx)
	if !known || who.Role != identity.Worker || who.Work.Allows(string(p.Kind), string(p.State)) {
		return nil
	}
	return problem.Refuse(http.StatusForbidden, job.Refused,
		"%s: the token of %s does not name %s/%s (make one with stagepost admin token new --role worker --work %s/%s)",
		strings.TrimSpace(op+" "+string(id)), who.Name, p.Kind, p.State, p.Kind, p.State)
}

// MayWork refuses a worker whose token does not name a kind and state, for routes of applications with files of jobs.
func MayWork(ctx context.Context, op string, id job.ID, p job.KindState) error {
	return inScope(ctx, op, id, p)
}

// MayWorkOn refuses a worker whose token names no state of a kind.
func MayWorkOn(ctx context.Context, op string, k job.Kind) error {
	who, known := Who(ctx)
	if !known || who.Role != identity.Worker || who.Work.Names(string(k)) {
		return nil
	}
	return problem.Refuse(http.StatusForbidden, job.Refused,
		"%s: the token of %s does not name %s (make one with stagepost admin token new --role worker --work %s)",
		op, who.Name, k, k)
}

// WorkerOf returns the name of the worker that sends a request: the owner of its token, whatever the request has;
// without authentication the name in the request.
func WorkerOf(r *http.Request, said string) string { return workerOf(r, said) }

// maxLabels bounds the labels of a worker.
const maxLabels = 50

// checkLabels refuses what the list of workers could not show.
func checkLabels(c *api.Claim) error {
	if len(c.Labels) > maxLabels {
		return job.Errorf(job.Invalid, "claim", "", "at most %d labels", maxLabels)
	}
	for _, l := range c.Labels {
		if err := CheckName("a label", l); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{"host": c.Host, "version": c.Version} {
		if err := CheckName(name, text); err != nil {
			return err
		}
	}
	return nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// claim takes jobs for a worker. If there is none it waits for the next, up to `wait` seconds: a hint wakes it, and
// what has no hint (a due time) is found by a reading every second.
func (s *Server) claim(w http.ResponseWriter, r *http.Request) error {
	c, err := bodyBy(r, lean.ReadClaim)
	if err != nil {
		return err
	}
	c.Worker = workerOf(r, c.Worker)
	if err := checkWorker("claim", c.Worker, c.Lease); err != nil {
		return err
	}
	switch {
	case c.N < 1 || c.N > maxBatch:
		return job.Errorf(job.Invalid, "claim", "", "n must be 1 to %d", maxBatch)
	case len(c.From) < 1 || len(c.From) > maxPlaces:
		return job.Errorf(job.Invalid, "claim", "", "from must name 1 to %d states", maxPlaces)
	case c.Wait < 0 || c.Wait > maxWait:
		return job.Errorf(job.Invalid, "claim", "", "wait must be 0 to %g seconds", maxWait)
	}
	if err := checkLabels(&c); err != nil {
		return err
	}
	for _, p := range c.From {
		if err := inScope(r.Context(), "claim", "", p); err != nil {
			return err
		}
		life := s.Engine.Life(p.Kind)
		if life == nil {
			return job.Errorf(job.Invalid, "claim", "", "there is no kind %.100q", p.Kind)
		}
		if life.Kind(p.State) == "" {
			return job.Errorf(job.Invalid, "claim", "", "%s has no state %.100q", p.Kind, p.State)
		}
	}
	var jobs []job.Job
	done := s.registry.Claims(&c)
	defer func() { done(jobs) }()
	if jobs, err = s.granted(r.Context(), &c); err == nil && len(jobs) == 0 && c.Wait > 0 {
		jobs, err = s.poll(w, r, &c)
	}
	if err != nil {
		return err
	}
	s.leases.put(jobs...)
	return lean.Reply(w, func(b []byte) []byte { return lean.AppendClaimed(b, jobs) })
}

// granted claims jobs for a worker, unless it is drained.
func (s *Server) granted(ctx context.Context, c *api.Claim) ([]job.Job, error) {
	drains, err := s.drains(ctx)
	if _, drained := drains[c.Worker]; err != nil || drained {
		return nil, err
	}
	return s.Engine.Remote().Claim(ctx, remote.Claim{
		Worker: c.Worker, From: c.From, N: c.N, Lease: seconds(c.Lease), Labels: c.Labels,
	})
}

// poll waits for jobs. An answer that is no longer read costs their first lease, nothing else.
func (s *Server) poll(w http.ResponseWriter, r *http.Request, c *api.Claim) ([]job.Job, error) {
	wait := seconds(c.Wait)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + 30*time.Second))
	free, stop := s.hub.Await(c.From)
	defer stop()
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	again := time.NewTicker(s.PollAgain)
	defer again.Stop()
	for {
		jobs, err := s.granted(r.Context(), c)
		if err != nil || len(jobs) > 0 {
			return jobs, err
		}
		select {
		case <-ctx.Done():
			return nil, r.Context().Err()
		case <-s.hub.Done():
			return nil, nil
		case <-free:
		case <-again.C:
		}
	}
}

func (s *Server) renew(w http.ResponseWriter, r *http.Request) error {
	n, err := Body[api.Renewal](r, true)
	if err != nil {
		return err
	}
	n.Worker = workerOf(r, n.Worker)
	if err := checkWorker("renew", n.Worker, n.Lease); err != nil {
		return err
	}
	if len(n.Leases) > 10*maxBatch {
		return job.Errorf(job.Invalid, "renew", "", "at most %d leases at once", 10*maxBatch)
	}
	lost, err := s.Engine.Remote().Renew(r.Context(), n.Worker, n.Leases, seconds(n.Lease))
	if err != nil {
		return err
	}
	s.registry.Renews(n.Worker, n.Leases, lost, seconds(n.Lease))
	return Reply(w, api.Renewed{Lost: listed(lost)})
}

// restrict keeps a worker from going on with jobs where it could not claim them: while it is drained, and in states
// that its token does not name. A record is read before its report is.
func (s *Server) restrict(ctx context.Context, worker string, records []job.Job, reports []remote.Report) error {
	_, named := Who(ctx)
	var drains map[string]job.Hold
	for i, first := 0, true; i < len(reports); i++ {
		r, j := &reports[i], &records[i]
		if !r.Again {
			continue
		}
		if first {
			first = false
			var err error
			if drains, err = s.drains(ctx); err != nil {
				return err
			}
		}
		_, drained := drains[worker]
		r.Again = !drained
		if named {
			r.To = func(to lifecycle.State) bool {
				return inScope(ctx, "report", j.ID, job.KindState{Kind: j.Kind, State: to}) == nil
			}
		}
	}
	return nil
}

// conclude finds the records of the reports and passes both to the engine.
func (s *Server) conclude(ctx context.Context, worker string, reports []remote.Report) ([]job.Result, error) {
	asked := make([]job.Lease, len(reports))
	for i := range reports {
		asked[i] = job.Lease{Job: reports[i].Job, Epoch: reports[i].Epoch}
	}
	records := s.leases.get(asked)
	for i := range reports {
		if reports[i].Children || reports[i].Merge != nil {
			records[i] = job.Job{} // children and people change it without its worker
		}
	}
	if err := s.restrict(ctx, worker, records, reports); err != nil {
		return nil, err
	}
	var results []job.Result // nil as long as no report is refused here
	for i := range records {
		err := s.held(ctx, worker, &records[i], asked[i])
		if err == nil {
			err = s.maySpawn(ctx, &reports[i])
		}
		if err != nil {
			if results == nil {
				results = make([]job.Result, len(reports))
			}
			results[i] = job.Result{Job: job.Job{ID: asked[i].Job}, Err: err}
		}
	}
	if results == nil {
		return s.Engine.Remote().Report(ctx, worker, records, reports)
	}
	var good []int
	var goodRecords []job.Job
	var goodReports []remote.Report
	for i := range reports {
		if results[i].Err == nil {
			good, goodRecords, goodReports = append(good, i), append(goodRecords, records[i]), append(goodReports,
				reports[i])
		}
	}
	if len(good) == 0 {
		return results, nil
	}
	done, err := s.Engine.Remote().Report(ctx, worker, goodRecords, goodReports)
	if err != nil {
		return nil, err
	}
	for k, i := range good {
		results[i] = done[k]
	}
	return results, nil
}

// held fills in the record if it is not at hand, and checks that the token of the worker names its state.
func (s *Server) held(ctx context.Context, worker string, j *job.Job, l job.Lease) error {
	if j.ID == "" {
		found, err := s.Store.Get(ctx, l.Job)
		if err != nil {
			return err
		}
		*j = found
	}
	if j.Epoch != l.Epoch || j.Worker != worker {
		return nil // the engine refuses it, unless it is repeated
	}
	return inScope(ctx, "report", l.Job, job.KindState{Kind: j.Kind, State: j.State})
}

// maySpawn refuses children of kinds whose start the worker's token does not name.
func (s *Server) maySpawn(ctx context.Context, r *remote.Report) error {
	if r.Spawn == nil {
		return nil
	}
	for i := range r.Spawn.Jobs {
		k := r.Spawn.Jobs[i].Kind
		life := s.Engine.Life(k)
		if life == nil {
			continue // the engine refuses it
		}
		if err := inScope(ctx, "spawn", r.Job, job.KindState{Kind: k, State: life.Start().State}); err != nil {
			return err
		}
	}
	return nil
}

// leases keeps the records of jobs that workers outside hold, so that a report needs no read from the store. It is
// only a shortcut: a record that is missing, or has another epoch, is read; the commit compares epochs in any
// case.
type leases struct {
	mu   sync.Mutex // guards jobs
	jobs map[job.ID]job.Job
	most int
}

func newLeases(most int) *leases { return &leases{jobs: map[job.ID]job.Job{}, most: most} }

// put keeps records; when there is no space, any other is dropped.
func (l *leases) put(jobs ...job.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range jobs {
		if _, known := l.jobs[j.ID]; !known && len(l.jobs) >= l.most {
			for other := range l.jobs {
				delete(l.jobs, other)
				break
			}
		}
		l.jobs[j.ID] = j
	}
}

// get returns the records with the requested epochs; the others are zero.
func (l *leases) get(of []job.Lease) []job.Job {
	found := make([]job.Job, len(of))
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, lease := range of {
		if j, ok := l.jobs[lease.Job]; ok && j.Epoch == lease.Epoch {
			found[i] = j
		}
	}
	return found
}

// settle takes over what became of reports: jobs that stay with their worker are kept, the others go.
func (l *leases) settle(results []job.Result, worker string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range results {
		j := &results[i].Job
		if results[i].Err == nil && j.Worker == worker && !j.Ended {
			l.jobs[j.ID] = *j
		} else {
			delete(l.jobs, j.ID)
		}
	}
}
