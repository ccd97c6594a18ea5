// Package workers has the registry of remote workers: who claimed, when, from which states, and which jobs each has. It
// is made of the requests that workers send anyway, and lives in memory: after a restart of the server the next
// requests fill it again.
package workers

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

const (
	silentAfter = time.Minute    // without a request; longer if the worker's lease is longer
	forgotten   = 24 * time.Hour // without a request
	mostWorkers = 10_000         // beyond, the one that is silent for longest is forgotten
)

// Registry has the workers that sent requests to this server. It is safe for concurrent use.
type Registry struct {
	now   func() time.Time
	began time.Time

	news    chan struct{} // has a value if a worker is new or claims from other states; nil: it is not reported
	mu      sync.Mutex    // guards the rest
	workers map[string]*worker
	swept   time.Time // when what is over was last removed
}

// worker is what is known of one worker.
type worker struct {
	claim api.Claim // its last one
	seen  time.Time // its last request
	polls int       // claims that wait for jobs
	has   map[job.ID]has
	busy  bool // it has jobs from another server
}

// has is a job that a worker has, as far as its requests show.
type has struct {
	epoch int64
	until time.Time // its lease is over then, unless the worker renews it
}

// New makes an empty registry. now is the clock of the server.
func New(now func() time.Time) *Registry {
	began := now()
	return &Registry{now: now, began: began, swept: began, workers: map[string]*worker{},
		news: make(chan struct{}, 1)}
}

// News returns a channel that has a value after a worker was new, or claimed from other states or with other labels.
func (r *Registry) News() <-chan struct{} { return r.news }

// Claims notes that a worker requests jobs. The caller calls done with what was granted.
func (r *Registry) Claims(c *api.Claim) (done func(granted []job.Job)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.see(c.Worker)
	if !slices.Equal(w.claim.From, c.From) || !slices.Equal(w.claim.Labels, c.Labels) {
		select {
		case r.news <- struct{}{}:
		default:
		}
	}
	w.claim = *c
	w.polls++
	return func(granted []job.Job) {
		r.mu.Lock()
		defer r.mu.Unlock()
		w := r.see(c.Worker) // it may have been forgotten meanwhile
		w.polls = max(w.polls-1, 0)
		for i := range granted {
			w.takes(&granted[i])
		}
	}
}

// takes notes that a worker has a job. Its lease may have another clock than the registry.
func (w *worker) takes(j *job.Job) {
	until := w.seen.Add(w.patience())
	if j.Until.After(until) {
		until = j.Until
	}
	w.has[j.ID] = has{j.Epoch, until}
}

// Renews notes that a worker renewed leases, of which some are over. lease is what it asked for; 0: the default.
func (r *Registry) Renews(name string, leases, lost []job.Lease, lease time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.see(name)
	for _, l := range leases {
		w.has[l.Job] = has{l.Epoch, w.seen.Add(max(w.patience(), lease))}
	}
	for _, l := range lost {
		w.ends(l)
	}
}

// Reports notes the results of a worker's reports or updates. leases are those of the reports, in their order.
func (r *Registry) Reports(name string, leases []job.Lease, results []job.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.see(name)
	for i, l := range leases {
		j := &results[i].Job
		switch {
		case results[i].Err == nil && j.Worker == name && !j.Ended:
			w.takes(j)
		case results[i].Err == nil || job.KindOf(results[i].Err) == job.Stale:
			w.ends(l)
		}
	}
}

func (w *worker) ends(l job.Lease) {
	if w.has[l.Job].epoch == l.Epoch {
		delete(w.has, l.Job)
	}
}

// ended forgets the jobs whose leases are over: other workers may have them.
func (w *worker) ended(now time.Time) {
	maps.DeleteFunc(w.has, func(_ job.ID, h has) bool { return now.After(h.until) })
}

// sweep removes, from time to time, what is over: jobs whose workers are gone, and workers that are silent for long.
// The caller holds mu.
func (r *Registry) sweep() {
	now := r.now()
	if now.Sub(r.swept) < silentAfter {
		return
	}
	r.swept = now
	for name, w := range r.workers {
		w.ended(now)
		if w.polls == 0 && now.Sub(w.seen) > forgotten {
			delete(r.workers, name)
		}
	}
}

// see returns a worker that sends a request. The caller holds mu.
func (r *Registry) see(name string) *worker {
	r.sweep()
	w := r.workers[name]
	if w == nil {
		r.forget()
		w = &worker{has: map[job.ID]has{}}
		w.claim.Worker = name
		r.workers[name] = w
	}
	w.seen = r.now()
	return w
}

// forget makes space for a worker: it removes those that are silent for long, or the one that is silent for longest.
// The caller holds mu.
func (r *Registry) forget() {
	if len(r.workers) < mostWorkers {
		return
	}
	now := r.now()
	oldest := ""
	for name, w := range r.workers {
		if w.polls == 0 && now.Sub(w.seen) > forgotten {
			delete(r.workers, name)
		} else if oldest == "" || w.seen.Before(r.workers[oldest].seen) {
			oldest = name
		}
	}
	if len(r.workers) >= mostWorkers {
		delete(r.workers, oldest)
	}
}

// patience is how long the requests of a worker may be apart.
func (w *worker) patience() time.Duration {
	return max(silentAfter, time.Duration(w.claim.Lease*float64(time.Second)))
}

// silent reports whether the worker has sent no request for longer than its requests are apart.
func (w *worker) silent(now time.Time) bool {
	return w.polls == 0 && now.Sub(w.seen) > w.patience()
}

// List returns the workers by name. drains are the holds by which workers are drained.
func (r *Registry) List(drains map[string]job.Hold) []api.WorkerInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	all := []api.WorkerInfo{}
	for _, name := range slices.Sorted(maps.Keys(r.workers)) {
		w := r.workers[name]
		if w.polls == 0 && now.Sub(w.seen) > forgotten {
			continue
		}
		w.ended(now)
		c := &w.claim
		i := api.WorkerInfo{
			Name: name, State: api.WorkerIdle, Where: "api", Host: c.Host, Version: c.Version, Slots: c.Slots,
			Running: slices.Sorted(maps.Keys(w.has)), From: append([]job.KindState{}, c.From...),
			Labels: append([]string{}, c.Labels...), Seen: w.seen,
		}
		if len(w.has) > 0 || w.busy {
			i.State = api.WorkerBusy
		}
		if h, ok := drains[name]; ok {
			i.State, i.Drain = api.WorkerDraining, &h
		}
		if w.silent(now) {
			i.State = api.WorkerSilent
		}
		all = append(all, i)
	}
	return all
}

// Takes describes who takes jobs of a state.
type Takes struct {
	Live []string  // workers that claim such jobs, by name; those that are drained are among them
	Last string    // the worker that did last; empty: none is known
	Seen time.Time // its last request
	New  bool      // the registry is too new to know all workers
}

// Takes returns the workers that claim jobs of a state and have the labels.
func (r *Registry) Takes(p job.KindState, labels []string) Takes {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	t := Takes{New: now.Sub(r.began) < silentAfter}
	for _, name := range slices.Sorted(maps.Keys(r.workers)) {
		w := r.workers[name]
		lacks := func(l string) bool { return !slices.Contains(w.claim.Labels, l) }
		if !slices.Contains(w.claim.From, p) || slices.ContainsFunc(labels, lacks) {
			continue
		}
		if !w.silent(now) {
			t.Live = append(t.Live, name)
		}
		if t.Last == "" || w.seen.After(t.Seen) {
			t.Last, t.Seen = name, w.seen
		}
	}
	return t
}
