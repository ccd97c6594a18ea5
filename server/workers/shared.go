package workers

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// Shared is what one server of several announces to the others: its engine, the workers that send requests to it, and
// the workers of its applications. Times are ages, because the clocks of servers differ.
type Shared struct {
	New     bool           `json:"new,omitempty"` // the server is too new to know all its workers
	Engine  api.WorkerInfo `json:"engine"`
	Workers []SharedWorker `json:"workers"`
	Agents  []SharedAgent  `json:"agents,omitempty"`
	// what its applications announce to themselves on the other servers, by names of theirs
	Parts map[string]json.RawMessage `json:"parts,omitempty"`
}

// SharedAgent is a worker of an application of another server, such as an agent.
type SharedAgent struct {
	Info api.WorkerInfo `json:"info"` // without the time of its last answer
	// of its last answer; negative: it has not answered
	Age time.Duration `json:"age"`
}

// SharedWorker is a worker of another server.
type SharedWorker struct {
	Claim api.Claim     `json:"claim"`
	Age   time.Duration `json:"age"` // of its last request; 0: it waits for jobs
	Busy  bool          `json:"busy,omitempty"`
}

// Share returns what the server announces. The agents are the workers of its applications.
func (r *Registry) Share(engine api.WorkerInfo, agents ...api.WorkerInfo) Shared {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	all := Shared{New: now.Sub(r.began) < silentAfter, Engine: engine}
	for _, name := range slices.Sorted(maps.Keys(r.workers)) {
		w := r.workers[name]
		w.ended(now)
		one := SharedWorker{Claim: w.claim, Age: now.Sub(w.seen), Busy: len(w.has) > 0}
		if w.polls > 0 {
			one.Age = 0
		}
		if one.Age <= forgotten {
			all.Workers = append(all.Workers, one)
		}
	}
	for _, a := range agents {
		one := SharedAgent{Info: a, Age: -1}
		if one.Info.Seen = (time.Time{}); !a.Seen.IsZero() {
			one.Age = max(0, now.Sub(a.Seen))
		}
		all.Agents = append(all.Agents, one)
	}
	return all
}

// Others are the announcements of the other servers, by the names of their engines.
type Others struct {
	servers map[string]Shared
	age     map[string]time.Duration
}

// Add adds an announcement and how long ago it was made.
func (o *Others) Add(server string, s Shared, age time.Duration) {
	if o.servers == nil {
		o.servers, o.age = map[string]Shared{}, map[string]time.Duration{}
	}
	o.servers[server], o.age[server] = s, age
}

// New reports whether a server that announces is too new to know all its workers.
func (o *Others) New() bool {
	for name, s := range o.servers {
		if s.New && o.age[name] <= silentAfter {
			return true
		}
	}
	return false
}

// Engines returns the engines of the other servers by name. One that does not announce any more is silent.
func (o *Others) Engines(now time.Time) []api.WorkerInfo {
	var all []api.WorkerInfo
	for _, name := range slices.Sorted(maps.Keys(o.servers)) {
		e := o.servers[name].Engine
		e.Seen = now.Add(-o.age[name])
		if o.age[name] > silentAfter {
			e.State = api.WorkerSilent
		}
		all = append(all, e)
	}
	return all
}

// Agents returns the workers of the applications of this server, followed by those of the other servers by name. One
// that several servers have is as this server has it, unless it is silent here and another server has its answers.
// Those of a server that does not announce any more are silent.
func (o *Others) Agents(own []api.WorkerInfo, now time.Time) []api.WorkerInfo {
	all := slices.Clone(own)
	at := map[string]int{}
	for i := range all {
		at[all[i].Name] = i
	}
	for _, server := range slices.Sorted(maps.Keys(o.servers)) {
		for _, a := range o.servers[server].Agents {
			one := a.Info
			if a.Age >= 0 {
				one.Seen = now.Add(-a.Age - o.age[server])
			}
			if o.age[server] > silentAfter {
				one.State = api.WorkerSilent
			}
			if i, known := at[one.Name]; !known {
				at[one.Name] = len(all)
				all = append(all, one)
			} else if all[i].State == api.WorkerSilent && one.State != api.WorkerSilent {
				all[i] = one
			}
		}
	}
	slices.SortStableFunc(all[len(own):], func(a, b api.WorkerInfo) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Parts calls each with what the applications of each other server announce under a name, and how long ago they did.
func (o *Others) Parts(name string, each func(server string, text []byte, age time.Duration)) {
	for _, server := range slices.Sorted(maps.Keys(o.servers)) {
		if text := o.servers[server].Parts[name]; text != nil {
			each(server, text, o.age[server])
		}
	}
}

// With returns a registry that has the workers of other servers, too. A worker that sent requests to several is as the
// last one saw it.
func (r *Registry) With(o *Others) *Registry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(o.servers) == 0 {
		return r
	}
	now := r.now()
	all := &Registry{now: r.now, began: r.began, workers: map[string]*worker{}}
	for name, w := range r.workers {
		one := *w
		one.has = maps.Clone(w.has)
		all.workers[name] = &one
	}
	for server, s := range o.servers {
		for i := range s.Workers {
			w := &s.Workers[i]
			seen := now.Add(-w.Age - o.age[server])
			if here := all.workers[w.Claim.Worker]; here != nil && (here.polls > 0 || !seen.After(here.seen)) {
				continue
			}
			one := &worker{claim: w.Claim, seen: seen, has: map[job.ID]has{}, busy: w.Busy}
			all.workers[w.Claim.Worker] = one
		}
	}
	return all
}
