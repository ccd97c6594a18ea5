package compute

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// waiter is a job that waits for an executor.
type waiter struct {
	id       job.ID
	code     string // of what it waits for
	owner    string
	demand   demand
	priority int
	created  time.Time
}

// line is who waits for an executor. The registry's lock guards it.
type line struct {
	jobs  map[job.ID]waiter
	turns map[string]int64 // when each owner began last, called or not
	turn  int64
}

// mostTurns is of how many owners the turns are remembered.
const mostTurns = 10_000

// take notes that an owner has his turn. When there are many owners, the older half of the turns is forgotten: these
// owners still go before all others.
func (l *line) take(owner string) {
	if _, known := l.turns[owner]; !known && len(l.turns) >= mostTurns {
		middle := slices.Sorted(maps.Values(l.turns))[len(l.turns)/2]
		maps.DeleteFunc(l.turns, func(_ string, turn int64) bool { return turn < middle })
	}
	l.turn++
	l.turns[owner] = l.turn
}

func newLine() line { return line{jobs: map[job.ID]waiter{}, turns: map[string]int64{}} }

// line puts a job among those that wait for an executor and gives their number.
func (r *registry) line(j *job.Job, d demand, code string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting.jobs[j.ID] = waiter{id: j.ID, code: code, owner: j.Owner, demand: d, priority: j.Priority,
		created: j.Created}
	return len(r.waiting.jobs)
}

// next removes the next waiting job from the line: of the first priority the owner who was not called for longest, as
// claims do, and of his jobs the oldest. called is how many were called already for each executor. The member is nil
// when no one can be called.
func (r *registry) next(called map[*member]int) (w waiter, m *member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	spare := map[string][]*member{} // by demand
	for _, o := range r.waiting.jobs {
		free, known := spare[o.demand.key()]
		if !known {
			free = slices.DeleteFunc(r.serving(o.demand, nil), func(m *member) bool { return m.spare() <= called[m] })
			spare[o.demand.key()] = free
		}
		at := slices.IndexFunc(free, o.demand.fits)
		if at >= 0 && (m == nil || r.waiting.before(&o, &w)) {
			w, m = o, free[at]
		}
	}
	if m != nil {
		delete(r.waiting.jobs, w.id)
		r.waiting.take(w.owner)
	}
	return w, m
}

func (l *line) before(a, b *waiter) bool {
	return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(l.turns[a.owner], l.turns[b.owner]),
		a.created.Compare(b.created), cmp.Compare(a.id, b.id)) < 0
}

// call wakes as many waiting jobs as there is capacity for.
func (r *registry) call(ctx context.Context) {
	called := map[*member]int{}
	for ctx.Err() == nil {
		w, m := r.next(called)
		if m == nil {
			return
		}
		switch err := r.app.engine.Notify(ctx, w.id, w.code); job.KindOf(err) {
		// a worker that just rests it checks again
		case "":
			called[m]++
		case job.Refused, job.NotFound: // it has ended: the next one
		default:
			r.app.log.Debug("compute: a job that waits for capacity was not called", "job", w.id, "error", err)
			return // it checks by itself after some time
		}
	}
}

// mostRecalled is how many jobs are put in line again for an executor that has come back. The others check by
// themselves.
const mostRecalled = 20_000

// recall puts those in line again who wait for an executor by their records: there is a new one, and a server that was
// started anew has an empty line.
func (r *registry) recall(ctx context.Context) {
	q := job.Query{Kinds: []job.Kind{JobKind}, States: []lifecycle.State{Queued},
		Causes: []string{blockFull, blockDrain, blockStart, blockSmall, blockLabels, blockBackup,
			blockSpace},
		Oldest: true, Limit: 1000}
	for n := 0; n < mostRecalled; n += 1000 {
		page, err := r.app.engine.Store().List(ctx, q)
		if err != nil {
			if ctx.Err() == nil {
				r.app.log.Warn("compute: the jobs that wait for an agent could not be listed", "error", err)
			}
			return
		}
		for i := range page.Jobs {
			j := &page.Jobs[i]
			if spec, d, err := RecordOf(j); err == nil && !j.Claimed() {
				r.line(j, demandOf(j, &spec, &d), j.Cause)
			}
		}
		if q.After = page.Next; q.After == "" {
			return
		}
	}
}

// remind sends an executor that has come back the messages that could not be sent while it was away, however long that
// was: that it may forget payloads (reliability hole J17), and is to end those of cancelled jobs that it still runs.
func (r *registry) remind(ctx context.Context, name string) {
	store, now := r.app.engine.Store(), r.app.engine.Clock().Now()
	var keys []string
	for _, m := range r.untold(ctx, name, job.Abandoned) {
		keys = append(keys, m.Key)
	}
	var late []job.Message
	for _, m := range r.untold(ctx, name, job.Pending) {
		if m.Due.After(now) {
			m.Due, m.Tried = now, nil
			late = append(late, m)
		}
	}
	report := func(err error) {
		if err != nil && ctx.Err() == nil {
			r.app.log.Warn("compute: an agent cannot be notified what it may forget", "agent", name, "error", err)
		}
	}
	for some := range slices.Chunk(keys, 100) {
		_, err := store.Replay(ctx, now, some...)
		report(err)
	}
	for some := range slices.Chunk(late, 100) {
		report(store.Settle(ctx, some...))
	}
}

// untold lists the newest messages to an executor that are settled as given.
func (r *registry) untold(ctx context.Context, name string, settled job.Settled) (all []job.Message) {
	q := job.MessageQuery{Topic: forgetTopic, Settled: &settled, Limit: 1000}
	for range 10 {
		page, err := r.app.engine.Store().Messages(ctx, q)
		if err != nil {
			break
		}
		for i := range page {
			var f forgotten
			if json.Unmarshal(page[i].Body, &f) == nil && f.Agent == name {
				all = append(all, page[i])
			}
		}
		if len(page) < q.Limit {
			break
		}
		q.Before = page[len(page)-1].Number
	}
	return all
}
