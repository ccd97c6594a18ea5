package computehttp

import (
	"context"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/problem"
)

// Compute runs users' files. *compute.App does.
type Compute interface {
	Begin(ctx context.Context) (*compute.Upload, error)
	Repeat(ctx context.Context, id job.ID, change func(*compute.Order)) (job.Job, error)
	Repeatable(j *job.Job) error // why the job cannot run again as it is; nil: it can
	Cancel(ctx context.Context, id job.ID, w compute.Request) (job.Job, error)
	Clean(ctx context.Context, id job.ID, w compute.Request) (job.Job, error)
	Results(j *job.Job) (*os.File, *compute.Results, error)
	Sums(j *job.Job) (map[string]string, error)
	Partial(ctx context.Context, j *job.Job) (io.ReadCloser, error)
	Input(j *job.Job, name string) (*os.File, error)
	Log(ctx context.Context, j *job.Job, stream string, offset int64, follow bool) (io.ReadCloser, error)
	Agents(others ...compute.Elsewhere) []compute.Agent
	Announce() []compute.Announced // the agents of this server, for the other servers
	Drain(ctx context.Context, name string, on bool, who, why string, others ...compute.Elsewhere) (compute.Agent,
		error)
	Services() []compute.Service
	UserBytes() int64                  // of files that one user may have here; 0: no bound
	Expires(ended time.Time) time.Time // when the files of a job are removed that ended then; zero: they are kept
}

// computeSettings are those of which one makes a server run users' files.
const computeSettings = "setting compute.local or compute.services"

func (s *Handlers) compute() (Compute, error) {
	if s.Compute == nil {
		return nil, problem.Absent("compute", "this server runs no users' files", computeSettings)
	}
	return s.Compute, nil
}

// computeJob gives the compute job that a request names. Any other job is as unknown as none. Whose it may be is
// decided before, in admit.
func (s *Handlers) computeJob(r *http.Request) (Compute, job.Job, error) {
	j, err := s.Store.Get(r.Context(), server.JobID(r))
	if err == nil && j.Kind != compute.JobKind {
		err = job.Errorf(job.NotFound, "get", server.JobID(r), "there is no such compute job")
	}
	if err != nil {
		return nil, j, err
	}
	app, err := s.compute()
	return app, j, err
}

// anonymous owns the jobs that came without an owner.
const anonymous = "anonymous"

// computeOwner gives whose a new job is.
func computeOwner(r *http.Request, said string) string {
	if owner := server.OwnerFor(r.Context(), said); owner != "" {
		return owner
	}
	return anonymous
}

// onlyOwner gives the owner to whom a list is restricted: the one asked for, or the user itself.
func onlyOwner(r *http.Request, asked string) (string, error) {
	owner := server.UserOf(r.Context())
	if owner == "" || asked == owner {
		return asked, nil
	}
	if asked != "" {
		return "", problem.Refuse(http.StatusForbidden, job.Refused, "a user sees its own jobs only")
	}
	return owner, nil
}

func computePath(id job.ID) string { return "/api/v1/compute/jobs/" + string(id) }

func (s *Handlers) showCompute(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, j, err := s.computeJob(r)
	if err != nil {
		return err
	}
	return s.replyCompute(w, r, app, &j, http.StatusOK)
}

// replyCompute answers with all that is known of a job.
func (s *Handlers) replyCompute(w http.ResponseWriter, r *http.Request, app Compute, j *job.Job, status int) error {
	v, err := viewCompute(app, j)
	if err != nil {
		return err
	}
	if err := s.detailCompute(app, j, &v); err != nil {
		return err
	}
	if j.State == compute.Queued {
		positions, err := s.queuePositions(r.Context(), j.Group)
		if err != nil {
			return err
		}
		v.QueuePosition = positions[j.ID]
	}
	return server.ReplyJob(w, r, status, j.Version, v)
}

// viewCompute makes what a list shows of a job.
func viewCompute(app Compute, j *job.Job) (api.ComputeJob, error) {
	spec, d, err := compute.RecordOf(j)
	if err != nil {
		return api.ComputeJob{}, err
	}
	v := api.ComputeJob{
		ID: j.ID, Number: j.Number, Service: spec.Service, Owner: j.Owner, User: spec.User, Name: spec.Name,
		Labels: spec.Labels, Requires: spec.Required(j), Priority: j.Priority, From: spec.From,
		State: j.State, Status: compute.StatusOf(j.State), Outcome: j.Outcome, Ended: j.Ended, Cause: j.Cause,
		Message: j.Message, Version: j.Version,
		Agent: d.Agent, Attempt: d.Attempt, Created: j.Created, Changed: j.Changed,
	}
	if n := d.Notice; n != nil {
		v.Place = n.Place
		v.Started, v.Finished = d.Times()
		if e := n.Ending; e != nil {
			v.Ending = &api.ComputeEnding{
				ExitCode: e.Exit, Signal: e.Signal, Cause: e.Cause, Sentence: e.Sentence, Note: e.Note,
				Sandbox: e.Sandbox,
				WallMS:  e.WallMS, CPUMS: e.CPUMS, Memory: e.Memory, Disk: e.Disk, LogCut: e.LogCut,
			}
		}
	}
	if j.Ended && j.State != compute.Cleaned {
		if v.Finished.IsZero() && spec.Imported == nil { // when one ended in another system is not known
			v.Finished = j.Entered
		}
		v.Expires = app.Expires(j.Entered)
	}
	if d.Results != nil && j.State != compute.Cleaned {
		v.Results = viewResults(d.Results)
	}
	return v, nil
}

func viewResults(r *compute.Results) *api.ComputeResults {
	v := &api.ComputeResults{
		Bytes: r.Bytes, SHA256: r.SHA256, Files: r.Files, Partial: r.Partial, Sentence: r.Sentence, Skipped: r.Skipped,
		Reasons: r.Reasons, Names: r.Names, Renamed: r.Renamed,
	}
	if left := r.LeftOut.Sentence(); left != "" {
		v.Sentence = strings.TrimPrefix(v.Sentence+"; "+left, "; ")
	}
	return v
}

// detailCompute adds what only one job is shown with.
func (s *Handlers) detailCompute(app Compute, j *job.Job, v *api.ComputeJob) error {
	spec, d, err := compute.RecordOf(j)
	if err != nil {
		return err
	}
	for _, f := range slices.Concat(spec.Files, d.Fetched) {
		v.Files = append(v.Files, api.ComputeFile{From: fromInputs, Name: f.Name, Size: f.Size, SHA256: f.SHA256})
	}
	v.Env, v.Inputs, v.Callback = spec.Env, spec.Inputs, spec.Callback
	asked := viewLimits(spec.Limits)
	v.Asked = &asked
	for _, one := range app.Services() {
		if one.Name == spec.Service {
			if limits, err := one.Effective(spec.Limits); err == nil {
				hold := viewLimits(limits)
				v.Limits = &hold
			}
		}
	}
	for _, a := range d.Attempts {
		v.Attempts = append(v.Attempts, api.ComputeAttempt(a))
	}
	if d.Notice != nil && !j.Ended {
		v.Waits = d.Notice.Reason
	}
	self := computePath(j.ID)
	v.Links = map[string]string{
		"self": self, "events": self + "/events", "logs": self + "/logs", "files": self + "/files",
		"results": self + "/results", "partial": self + "/partial", "job": "/api/v1/jobs/" + string(j.ID),
		"why": "/api/v1/jobs/" + string(j.ID) + "/why",
	}
	if v.Can = s.View(*j).Can; j.Ended && j.State != compute.Cleaned {
		// by clean a person has the timer's transition taken
		for _, by := range []lifecycle.Actor{lifecycle.Owner, lifecycle.Operator} {
			v.Can[by.String()] = append(v.Can[by.String()], compute.Clean)
		}
	}
	return nil
}

func viewLimits(l compute.Limits) api.ComputeLimits {
	return api.ComputeLimits{
		Wall: api.Seconds(l.Wall), CPU: api.Seconds(l.CPU), Memory: api.Bytes(l.Memory), Disk: api.Bytes(l.Disk),
		Output:    api.Bytes(l.Output),
		Processes: l.Processes, Cores: l.Cores, Files: l.Files,
	}
}

func limitsOf(l api.ComputeLimits) compute.Limits {
	return compute.Limits{
		Wall: time.Duration(l.Wall), CPU: time.Duration(l.CPU), Memory: int64(l.Memory), Disk: int64(l.Disk),
		Output:    int64(l.Output),
		Processes: l.Processes, Cores: l.Cores, Files: l.Files,
	}
}

// mostAhead is how far positions in a queue are counted.
const mostAhead = 1000

// queuePositions returns the positions of the waiting jobs of a service, 1 for the next: by priority, then by age.
// Fairness between users may let a job pass others.
func (s *Handlers) queuePositions(ctx context.Context, service string) (map[job.ID]int, error) {
	all, err := compute.Waiting(ctx, s.Store, service, mostAhead)
	if err != nil {
		return nil, err
	}
	before := make([]int, job.LastPriority+2) // jobs of lower priorities
	for i := range all {
		before[min(max(all[i].Priority, 0), job.LastPriority)+1]++
	}
	for i := 1; i < len(before); i++ {
		before[i] += before[i-1]
	}
	positions := make(map[job.ID]int, len(all))
	for i := range all {
		p := min(max(all[i].Priority, 0), job.LastPriority)
		before[p]++
		positions[all[i].ID] = before[p]
	}
	return positions, nil
}

// eventsCompute streams what happens to a job, as that of all jobs.
func (s *Handlers) eventsCompute(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	p.Number("after", 0, 1<<62)
	if err := p.Err(); err != nil {
		return err
	}
	if _, _, err := s.computeJob(r); err != nil {
		return err
	}
	return s.Events(w, r)
}

// foldState gives a state as the lifecycle spells it, for people write "running".
func foldState(name string) lifecycle.State {
	for _, stage := range compute.JobLife.Stages() {
		if strings.EqualFold(string(stage.State), name) {
			return stage.State
		}
	}
	return lifecycle.State(name)
}
