package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
)

// drainTag begins the tag of the hold by which a worker is drained. No job has such a tag: the hold is read when the
// worker claims.
const drainTag = "worker="

// drains returns the holds by which workers are drained, by the name of the worker.
func (s *Server) drains(ctx context.Context) (map[string]job.Hold, error) {
	holds, err := s.Store.Holds(ctx)
	var all map[string]job.Hold
	for _, h := range holds {
		name, ok := strings.CutPrefix(h.Tag, drainTag)
		if ok && h.Scope == (job.Scope{Tag: h.Tag}) && h.On(s.Engine.Clock().Now()) {
			if all == nil {
				all = map[string]job.Hold{}
			}
			all[name] = h
		}
	}
	return all, err
}

// ListWorkers returns the engines of this server and of the other servers of the store, the workers over the API, and
// those of applications, such as agents.
func (s *Server) ListWorkers(ctx context.Context) ([]api.WorkerInfo, error) {
	drains, err := s.drains(ctx)
	if err != nil {
		return nil, err
	}
	others, err := s.others(ctx)
	if err != nil {
		return nil, err
	}
	now := s.Engine.Clock().Now()
	all := append([]api.WorkerInfo{s.ownEngine()}, others.Engines(now)...)
	all = append(all, s.registry.With(&others).List(drains)...)
	return append(all, others.Agents(s.ownAgents(), now)...), nil
}

// ownAgents returns the workers of the applications of this server.
func (s *Server) ownAgents() []api.WorkerInfo {
	if s.Workers == nil {
		return nil
	}
	return s.Workers()
}

// ownEngine describes the engine of this server.
func (s *Server) ownEngine() api.WorkerInfo {
	now := s.Engine.Status()
	own := api.WorkerInfo{
		Name: now.Worker, State: api.WorkerIdle, Where: "server", Version: s.Version, Slots: now.Slots,
		Running: append([]job.ID{}, s.Engine.Running()...), From: append([]job.KindState{}, now.Shared.Next.From...),
		Labels: append([]string{}, now.Labels...), Seen: s.Engine.Clock().Now(),
	}
	for _, k := range s.Engine.Kinds() {
		if p, ok := now.Own[k]; ok {
			own.From = append(own.From, p.Next.From...)
		}
	}
	switch {
	case !now.Open || now.Draining:
		own.State = api.WorkerDraining
	case now.Running > 0:
		own.State = api.WorkerBusy
	}
	return own
}

// workers answers with the list of workers.
func (s *Server) workers(w http.ResponseWriter, r *http.Request) error {
	if err := Params(r).Err(); err != nil {
		return err
	}
	return s.replyWorkers(w, r, func(*api.WorkerInfo) bool { return true })
}

// replyWorkers answers with the workers that are selected.
func (s *Server) replyWorkers(w http.ResponseWriter, r *http.Request, selected func(*api.WorkerInfo) bool) error {
	answer := api.Workers{At: s.Engine.Clock().Now()}
	var err error
	if answer.Workers, err = s.ListWorkers(r.Context()); err != nil {
		return err
	}
	if err := s.addClaims(r.Context(), &answer); err != nil {
		return err
	}
	answer.Workers = slices.DeleteFunc(answer.Workers, func(i api.WorkerInfo) bool { return !selected(&i) })
	return Reply(w, answer)
}

// drainWorker keeps a worker from taking jobs. It needs not be known: it may not have claimed since the server began.
func (s *Server) drainWorker(w http.ResponseWriter, r *http.Request) error {
	return s.actOnWorker(w, r, func(ctx context.Context, scope job.Scope, who, why string) error {
		_, err := s.Engine.Operator().Hold(ctx, scope, cmp.Or(who, "operator"), why, time.Time{})
		return err
	})
}

// resumeWorker lets a worker take jobs again.
func (s *Server) resumeWorker(w http.ResponseWriter, r *http.Request) error {
	return s.actOnWorker(w, r, func(ctx context.Context, scope job.Scope, who, why string) error {
		_, err := s.releaseHold(ctx, scope, who, why)
		return err
	})
}

func (s *Server) actOnWorker(w http.ResponseWriter, r *http.Request,
	act func(ctx context.Context, scope job.Scope, who, why string) error) error {
	b, err := Body[api.WorkerDrain](r, true)
	if err != nil {
		return err
	}
	_, who, err := ActorOf(r, "", b.Actor)
	if err != nil {
		return err
	}
	if err := CheckText("note", b.Note, MostNote); err != nil {
		return err
	}
	name := r.PathValue("name")
	if err := checkWorker("drain", name, 0); err != nil {
		return err
	}
	if name == s.Engine.Status().Worker {
		return job.Errorf(job.Refused, "drain", "", "%s is the server itself: use stagepost admin drain", name)
	}
	others, err := s.others(r.Context())
	if err != nil {
		return err
	}
	for _, i := range others.Agents(s.ownAgents(), s.Engine.Clock().Now()) {
		if i.Name == name {
			return job.Errorf(job.Refused, "drain", "", "%s is an %s, not a worker of the API: "+
				"its application drains it", name, i.Where)
		}
	}
	if err := act(r.Context(), job.Scope{Tag: drainTag + name}, who, b.Note); err != nil {
		return err
	}
	return s.replyWorkers(w, r, func(i *api.WorkerInfo) bool { return i.Name == name })
}

// workerJob answers with a claimed job as it is now.
func (s *Server) workerJob(w http.ResponseWriter, r *http.Request) error {
	b, err := Body[api.WorkerLease](r, true)
	if err != nil {
		return err
	}
	b.Worker = workerOf(r, b.Worker)
	if err := checkWorker("read", b.Worker, 0); err != nil {
		return err
	}
	j, err := s.Store.Get(r.Context(), b.Job)
	if err != nil {
		return err
	}
	if j.Epoch != b.Epoch || j.Worker != b.Worker {
		return job.Errorf(job.Stale, "read", b.Job, "claim %d of %s is over, the record is at %d", b.Epoch, b.Worker,
			j.Epoch)
	}
	if err := inScope(r.Context(), "read", j.ID, job.KindState{Kind: j.Kind, State: j.State}); err != nil {
		return err
	}
	tasks, err := s.Store.Tasks(r.Context(), b.Job)
	if err != nil {
		return err
	}
	return Reply(w, api.WorkerJob{Job: api.LeasedOf(&j), Tasks: listed(tasks)})
}

// takes returns the workers that take jobs of a state, for the explainer. On a store of several servers that announce
// nothing, workers of the others are not known here.
func (s *Server) takes(ctx context.Context, p job.KindState, labels []string) explain.Takes {
	others, errOthers := s.others(ctx)
	t := s.registry.With(&others).Takes(p, labels)
	answer := explain.Takes{Live: t.Live, Last: t.Last, Seen: t.Seen, Unknown: t.New || others.New() ||
		errOthers != nil || s.Presence == nil && !s.Store.Properties().Exclusive}
	answer.Live = append(answer.Live, enginesFor(others.Engines(s.Engine.Clock().Now()), p, labels)...)
	drains, err := s.drains(ctx)
	if err != nil {
		answer.Unknown = true
	}
	for _, name := range answer.Live {
		if _, ok := drains[name]; ok {
			answer.Drained = append(answer.Drained, name)
		}
	}
	return answer
}
