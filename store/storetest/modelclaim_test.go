package storetest_test

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
)

func (m *model) Claim(ctx context.Context, c job.Claim) ([]job.Job, error) {
	return do(m, ctx, func() ([]job.Job, error) {
		if c.Worker == "" {
			return nil, job.Errorf(job.Invalid, "claim", "", "it has no worker")
		}
		if !short(800, c.Worker) {
			return nil, job.Errorf(job.Invalid, "claim", "", "the worker is too long")
		}
		return m.claim(&c), nil
	})
}

// Peek claims, and rolls that back.
func (m *model) Peek(ctx context.Context, c job.Claim, id job.ID) (job.Forecast, error) {
	return do(m, ctx, func() (job.Forecast, error) {
		var f job.Forecast
		if j, ok := m.jobs[id]; ok && m.live[id] && !j.Claimed() {
			for i := range c.Limits {
				if guards(&c.Limits[i], &j) {
					f.Limits = append(f.Limits, job.LimitUse{Limit: c.Limits[i], Active: m.active(&c.Limits[i], &j)})
				}
			}
			f.Hold = m.held(&j, c.Now)
		}
		for _, j := range m.claim(&c) {
			f.Next = append(f.Next, j.ID)
		}
		m.rollBack(0)
		return f, nil
	})
}

func (m *model) claim(c *job.Claim) (got []job.Job) {
	for large := 0; len(got) < c.N && large < mostLarge; {
		j, ok := m.pick(c)
		if !ok {
			break
		}
		set(m, &m.turn, m.turn+1)
		assign(m, m.turns, j.Owner, m.turn)
		j.Version++
		j.Due, j.Changed = time.Time{}, c.Now
		got = append(got, m.lease(j, c.Worker, c.Now.Add(c.Lease)))
		large += len(j.Spec) + len(j.Data)
	}
	return got
}

// lease gives a job to a worker.
func (m *model) lease(j job.Job, worker string, until time.Time) job.Job {
	j.Epoch++
	j.Starts++
	j.Worker, j.Until = worker, until
	m.put(j)
	return copied(j)
}

// pick returns the next job that the claim is granted, by age if that is its turn.
func (m *model) pick(c *job.Claim) (job.Job, bool) {
	ready := m.ready(c)
	if c.Ageing.Share > 0 && c.Suspects != job.OnlySuspects {
		sum := 1
		for _, place := range c.From {
			sum += m.given[place]
		}
		j, ok := m.first(ready, m.byAge)
		if ok && sum >= c.Ageing.Share && j.Entered.Before(c.Now.Add(-c.Ageing.Patience)) {
			for _, place := range c.From {
				assign(m, m.given, place, 0)
			}
			return j, true
		}
	}
	order := m.byTurn
	if c.Suspects == job.OnlySuspects {
		order = m.byPriority
	}
	j, ok := m.first(ready, order)
	if ok {
		place := job.KindState{Kind: j.Kind, State: j.State}
		assign(m, m.given, place, m.given[place]+1)
	}
	return j, ok
}

func (m *model) first(jobs []job.Job, order func(a, b job.Job) int) (job.Job, bool) {
	if len(jobs) == 0 {
		return job.Job{}, false
	}
	return slices.MinFunc(jobs, order), true
}

func (m *model) byPriority(a, b job.Job) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Number, b.Number), cmp.Compare(a.Kind, b.Kind))
}

func (m *model) byTurn(a, b job.Job) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(m.turns[a.Owner], m.turns[b.Owner]),
		m.byPriority(a, b))
}

func (m *model) byAge(a, b job.Job) int {
	return cmp.Or(a.Entered.Compare(b.Entered), cmp.Compare(a.Number, b.Number), cmp.Compare(a.Kind, b.Kind))
}

// ready returns all jobs that the claim may be granted.
func (m *model) ready(c *job.Claim) (all []job.Job) {
	for id := range m.live {
		j := m.jobs[id]
		suspects := c.Suspects == job.SuspectsToo || j.Suspect() == (c.Suspects == job.OnlySuspects)
		if suspects && slices.Contains(c.From, job.KindState{Kind: j.Kind, State: j.State}) && m.free(&j, c) {
			all = append(all, j)
		}
	}
	return all
}

// free reports whether a job is due and neither claimed nor held nor over a limit.
func (m *model) free(j *job.Job, c *job.Claim) bool {
	if j.Claimed() || j.Due.After(c.Now) || m.held(j, c.Now) != nil {
		return false
	}
	for _, l := range j.Requires {
		if !slices.Contains(c.Labels, l) {
			return false
		}
	}
	return !slices.ContainsFunc(c.Limits, func(l job.Limit) bool { return guards(&l, j) && m.active(&l, j) >= l.Max })
}

// inOrder reports whether a list is one of few labels, each once and in order.
func inOrder(labels []string) bool {
	for i, l := range labels {
		if !job.IsLabel(l) || i > 0 && labels[i-1] >= l {
			return false
		}
	}
	return len(labels) <= job.MostRequired
}

func (m *model) held(j *job.Job, at time.Time) *job.Hold {
	for _, h := range m.holds {
		if h.On(at) && h.Matches(j) {
			return &h
		}
	}
	return nil
}

// concerns reports whether a limit is about jobs like this one.
func concerns(l *job.Limit, j *job.Job) bool {
	return l.Kind == j.Kind && (l.Group == "" || l.Group == j.Group) && (l.Owner == "" || l.Owner == j.Owner) &&
		(l.Tag == "" || slices.Contains(j.Tags, l.Tag))
}

// guarded reports whether claims of jobs in the state of this one are under the limit.
func guarded(l *job.Limit, j *job.Job) bool {
	return len(l.Guard) == 0 || slices.Contains(l.Guard, j.State)
}

// guards reports whether the limit must let the job pass. A job in an occupied state is counted already.
func guards(l *job.Limit, j *job.Job) bool {
	return concerns(l, j) && guarded(l, j) && !slices.Contains(l.Occupy, j.State)
}

// active counts the active jobs that a limit counts together with this one.
func (m *model) active(l *job.Limit, with *job.Job) int {
	n := 0
	for id := range m.live {
		j := m.jobs[id]
		together := concerns(l, &j) && (!l.PerGroup || j.Group == with.Group) && (!l.PerOwner || j.Owner == with.Owner)
		if together && (slices.Contains(l.Occupy, j.State) || j.Claimed() && guarded(l, &j)) {
			n++
		}
	}
	return n
}

// chain leases a job that was just created or moved to the worker that asks for it, if a claim of its state would
// grant it: a new job if it is the next, a moved one also if jobs of the same priority are before it.
func (m *model) chain(id job.ID, c *job.Chain, at time.Time, fresh bool) {
	j := m.jobs[id]
	if c == nil || j.Ended {
		return
	}
	ask := job.Claim{From: []job.KindState{{Kind: j.Kind, State: j.State}}, Labels: c.Labels, Now: at,
		Limits: c.Limits}
	if !m.free(&j, &ask) {
		return
	}
	next, _ := m.first(m.ready(&ask), m.byTurn)
	if next.ID == id || !fresh && next.Priority >= j.Priority {
		m.lease(j, c.Worker, at.Add(c.Lease))
	}
}

func (m *model) Renew(ctx context.Context, r job.Renewal) ([]job.Lease, error) {
	return do(m, ctx, func() ([]job.Lease, error) {
		var lost []job.Lease
		for _, l := range r.Leases {
			j, ok := m.jobs[l.Job]
			if !ok || !j.Claimed() || j.Worker != r.Worker || j.Epoch != l.Epoch {
				lost = append(lost, l)
				continue
			}
			j.Until = r.Now.Add(r.Lease)
			m.put(j)
		}
		return lost, nil
	})
}

func (m *model) Overdue(ctx context.Context, now time.Time, kinds []job.Kind, n int) ([]job.Job, error) {
	return do(m, ctx, func() ([]job.Job, error) {
		var all []job.Job
		for id := range m.live {
			j := m.jobs[id]
			if j.Overdue(now) && (len(kinds) == 0 || slices.Contains(kinds, j.Kind)) && len(all) < min(n, 1000) {
				all = append(all, copied(j))
			}
		}
		return all, nil
	})
}

func (m *model) Holds(ctx context.Context) ([]job.Hold, error) {
	return do(m, ctx, func() ([]job.Hold, error) { return slices.Clone(m.holds), nil })
}

func (m *model) Hold(ctx context.Context, h job.Hold) ([]job.Hold, error) {
	return do(m, ctx, func() ([]job.Hold, error) {
		if !shortScope(h.Scope) {
			return nil, job.Errorf(job.Invalid, "hold", "", "a text of the scope is too long")
		}
		m.note(job.AuditedHold(&h))
		h.Address = ""
		all := append(m.without(h.Scope), h)
		slices.SortFunc(all, func(a, b job.Hold) int {
			return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Scope.String(), b.Scope.String()))
		})
		set(m, &m.holds, all)
		return slices.Clone(all), nil
	})
}

func (m *model) Release(ctx context.Context, h job.Hold) ([]job.Hold, error) {
	return do(m, ctx, func() ([]job.Hold, error) {
		left := m.without(h.Scope)
		if len(left) == len(m.holds) {
			return nil, job.Errorf(job.NotFound, "release", "", "no hold on %s", h.Scope)
		}
		set(m, &m.holds, left)
		m.note(job.AuditedRelease(&h))
		return slices.Clone(left), nil
	})
}

func (m *model) without(s job.Scope) []job.Hold {
	return slices.DeleteFunc(slices.Clone(m.holds), func(h job.Hold) bool { return h.Scope == s })
}
