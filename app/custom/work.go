package custom

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// work makes what the engine of a server registers.
func (o *Options) work(f *File) engine.Work {
	w := o.steps(f)
	w.Slots, w.Keep, w.Outside, w.Orders = f.spec.Slots, time.Duration(f.spec.Keep), true, true
	for state, s := range f.spec.Work {
		if s.Pass {
			w.Steps[state] = func(context.Context, *engine.Run) error { return nil }
		}
		if s.Worker {
			w.Programs = append(w.Programs, state)
		}
		if o.Remote && w.Steps[state] != nil && len(s.Command) > 0 {
			w.Shared = append(w.Shared, state)
		}
	}
	for _, l := range f.spec.Limits {
		w.Limits = append(w.Limits, job.Limit{
			Name: l.Name, Kind: job.Kind(f.Table.Name()), Guard: l.States, Max: l.Max, PerOwner: l.Per == "owner",
			PerGroup: l.Per == "group",
		})
	}
	return w
}

// RemoteWork makes the work of a remote worker: the steps of the states with commands.
func RemoteWork(f *File, o Options) engine.Work { return o.steps(f) }

// steps makes what servers and remote workers have in common: the commands, and how often they are tried. Without a
// sandbox there are none.
func (o *Options) steps(f *File) engine.Work {
	w := engine.Work{
		Life: f.Table, Prefix: f.spec.Prefix, Adopts: f.spec.Adopts, Steps: map[lifecycle.State]engine.Step{},
		Policies: map[lifecycle.State]engine.Policy{}, Requires: map[lifecycle.State][]string{},
	}
	for state, s := range f.spec.Work {
		if len(s.Command) > 0 && o.Sandbox != nil {
			w.Steps[state] = o.command(f.Table, s)
		}
		w.Policies[state] = engine.Policy{
			Timeout: time.Duration(s.Deadline), MaxAttempts: s.Attempts,
			Backoff: engine.Backoff{First: time.Duration(s.Backoff.First), Max: time.Duration(s.Backoff.Max)},
		}
		w.Requires[state] = s.Requires
	}
	if len(f.spec.Webhooks) > 0 {
		w.Topics = []string{Topic}
	}
	return w
}

// File returns the text of the lifecycle of a kind, and the hash of its table. Errors: NotFound.
func (a *App) File(name string) (text []byte, hash string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.files[name]
	if f == nil {
		return nil, "", job.Errorf(job.NotFound, "lifecycle", "", "the server has no file of a lifecycle %.100q", name)
	}
	return f.text, f.Table.Hash(), nil
}
