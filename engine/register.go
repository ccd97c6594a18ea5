package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// kinds has the works that are registered with an engine. It is immutable: [Engine.Register] replaces it.
type kinds struct {
	works  map[job.Kind]*Work
	pools  []*pool // the first is shared
	own    map[job.Kind]*pool
	limits []job.Limit
}

func (e *Engine) kindsNow() *kinds { return e.kinds.Load() }

// poolOf returns the pool of a kind.
func (k *kinds) poolOf(kind job.Kind) *pool {
	if p := k.own[kind]; p != nil {
		return p
	}
	return k.pools[0]
}

// Releases reports whether a limit may count one job fewer since the change of a hint, so that another job of its kind
// is claimable.
func (e *Engine) Releases(h *job.Hint) bool { return e.kindsNow().releases(h) }

func (k *kinds) releases(h *job.Hint) bool {
	for i := range k.limits {
		l := &k.limits[i]
		counts := len(l.Guard)+len(l.Occupy) == 0 || slices.Contains(l.Guard, h.State) ||
			slices.Contains(l.Occupy, h.State)
		if l.Kind == h.Kind && (h.Ended || h.Free || !counts) {
			return true
		}
	}
	return false
}

// workOf returns the work of a kind, or nil.
func (e *Engine) workOf(k job.Kind) *Work { return e.kindsNow().works[k] }

// statesOf returns the states from which jobs are claimed for a pool.
func (e *Engine) statesOf(p *pool) []job.KindState {
	e.mu.Lock()
	defer e.mu.Unlock()
	return p.states
}

// Register adds a kind to an engine, which may be running, or replaces the work of a kind that has slots of its own. It
// is Refused while jobs of the kind are open under a definition that the work does not support (reliability rule R13).
func (e *Engine) Register(ctx context.Context, w Work) error {
	if err := w.validate(); err != nil {
		return &job.Error{Op: "register", Kind: job.Invalid, Err: err}
	}
	e.defining.Lock()
	defer e.defining.Unlock()
	old := e.workOf(w.kind())
	if w.Slots <= 0 || old != nil && old.Slots <= 0 {
		return job.Errorf(job.Invalid, "register", "",
			"%s is registered while the engine runs: it needs slots of its own", w.kind())
	}
	if err := e.sharesPrefix(&w); err != nil {
		return err
	}
	if old == nil || old.Life.Hash() != w.Life.Hash() {
		if err := e.contradicts(ctx, &w); err != nil {
			return err
		}
	}
	e.install(&w)
	e.wakeDispatcher()
	return nil
}

// Unregister removes a kind that has slots of its own. It is Refused while jobs of the kind exist that are no
// tombstones, because their records and histories need the lifecycle. Errors: NotFound, Invalid, Refused.
func (e *Engine) Unregister(ctx context.Context, k job.Kind) error {
	e.defining.Lock()
	defer e.defining.Unlock()
	w := e.workOf(k)
	switch {
	case w == nil:
		return job.Errorf(job.NotFound, "unregister", "", "there is no kind %q (known: %s)", k, e.kindNames())
	case w.Slots <= 0:
		return job.Errorf(job.Invalid, "unregister", "", "%s has no slots of its own", k)
	}
	if err := e.unused(ctx, w); err != nil {
		return err
	}
	e.uninstall(k)
	e.wakeDispatcher()
	return nil
}

// unused refuses a kind with jobs that are no tombstones.
func (e *Engine) unused(ctx context.Context, w *Work) error {
	tallies, err := e.store.Count(ctx)
	if err != nil {
		return err
	}
	n := int64(0)
	for _, t := range tallies {
		if t.Kind == w.kind() && !w.Life.Tombstone(t.State) {
			n += t.Jobs
		}
	}
	if n > 0 {
		return job.Errorf(job.Refused, "unregister", "", "jobs of the kind %s: %d; their records need the lifecycle. "+
			"Delete these jobs first (stagepost list --kind %s)", w.kind(), n, w.kind())
	}
	return nil
}

// uninstall removes the work of a kind that has slots of its own.
func (e *Engine) uninstall(k job.Kind) {
	was := e.kindsNow()
	next := &kinds{works: maps.Clone(was.works), own: maps.Clone(was.own)}
	p := next.own[k]
	delete(next.works, k)
	delete(next.own, k)
	next.pools = slices.DeleteFunc(slices.Clone(was.pools), func(other *pool) bool { return other == p })
	next.limits = slices.DeleteFunc(slices.Clone(was.limits), func(l job.Limit) bool { return l.Kind == k })
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kinds.Store(next)
}

// contradicts refuses a work that does not support the definition of an open job. The last work of the kind supported
// the definitions of all open jobs, so it checks the newest 1000 only.
func (e *Engine) contradicts(ctx context.Context, w *Work) error {
	open := false
	page, err := e.store.List(ctx, job.Query{Kinds: []job.Kind{w.kind()}, Ended: &open, Limit: 1000})
	if err != nil {
		return err
	}
	for i := range page.Jobs {
		if j := &page.Jobs[i]; !w.supports(j) {
			return job.Errorf(job.Refused, "register", "",
				"the lifecycle %s has changed (definition %s), and jobs are open under the definition %s, "+
					"such as %s in %s: wait until they have ended, or keep the states and transitions as they were",
				w.kind(), w.Life.Hash(), j.Definition, j.ID, j.State)
		}
	}
	return nil
}

// register adds a work to a new engine.
func (e *Engine) register(w *Work) error {
	if err := w.validate(); err != nil {
		return err
	}
	if e.workOf(w.kind()) != nil {
		return job.Errorf(job.Invalid, "register", "", "%s is registered twice", w.Life.Name())
	}
	if err := e.sharesPrefix(w); err != nil {
		return err
	}
	e.install(w)
	return nil
}

// install adds a work to the registered ones, or replaces the work of its kind.
func (e *Engine) install(w *Work) {
	was, policies := e.kindsNow(), map[lifecycle.State]Policy{}
	for _, s := range w.Life.Stages() {
		policies[s.State] = w.policyFor(s.State)
	}
	own := *w
	w, own.Policies = &own, policies
	next := &kinds{works: maps.Clone(was.works), own: maps.Clone(was.own), pools: slices.Clone(was.pools)}
	if next.works == nil {
		next.works, next.own = map[job.Kind]*Work{}, map[job.Kind]*pool{}
	}
	next.works[w.kind()] = w
	next.limits = slices.DeleteFunc(slices.Clone(was.limits), func(l job.Limit) bool { return l.Kind == w.kind() })
	next.limits = append(next.limits, w.Limits...)
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.shared
	if w.Slots > 0 {
		if p = next.own[w.kind()]; p == nil {
			p = &pool{}
			next.pools, next.own[w.kind()] = append(next.pools, p), p
		}
		p.free, p.total = p.free+w.Slots-p.total, w.Slots
	}
	p.states = slices.DeleteFunc(slices.Clone(p.states), func(at job.KindState) bool { return at.Kind == w.kind() })
	for _, s := range w.Life.Stages() {
		if e.takes(w, s.State) {
			p.states = append(p.states, job.KindState{Kind: w.kind(), State: s.State})
		}
	}
	p.expect(unknown)
	e.kinds.Store(next)
}
