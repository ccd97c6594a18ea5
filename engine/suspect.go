package engine

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// A job whose last workers all ended without a report is a suspect ([job.Job.Suspect]): it may be what ended them, or
// it was worked on beside the one that did. Suspects run one at a time, with nothing beside them, until they report or
// for a while; only a job that ran alone when its worker ended is blamed, and the claims of the others are not counted
// towards poison.

// Times of suspects.
const (
	aloneFirst = 5 * time.Second  // that a suspect runs alone at first; twice as long after each further worker
	aloneMost  = 10 * time.Minute // at most
	drainFor   = 30 * time.Second // that is waited for running steps to end, so that a suspect can run alone
	drainAgain = 10 * time.Minute // until that is tried again; suspects run beside the others meanwhile
)

// claiming stands for the suspect while it is being claimed.
const claiming job.ID = "?"

// suspicion is what the dispatcher has suspects. The engine's mu guards it.
type suspicion struct {
	look     bool      // there may be suspects
	alone    job.ID    // runs alone; empty: none; claiming: one is being claimed
	draining time.Time // since when no other job is begun, so that a suspect can; zero: not
	beside   time.Time // until when suspects run beside others
	timer    *time.Timer
}

// closed reports whether no other job may begin. The caller holds mu.
func (s *suspicion) closed() bool { return s.alone != "" || !s.draining.IsZero() }

// trySuspect begins a suspect alone if there is one and nothing runs. wait reports that nothing else may begin now.
func (e *Engine) trySuspect(ctx context.Context) (wait bool) {
	now := e.clock.Now()
	e.mu.Lock()
	s := &e.suspects
	if s.alone != "" {
		e.mu.Unlock()
		return true
	}
	if !s.look || now.Before(s.beside) {
		e.mu.Unlock()
		return false
	}
	s.look = false
	e.mu.Unlock()
	for _, p := range e.kindsNow().pools {
		found, err := e.store.Claim(ctx, e.suspectClaim(p, now, true))
		if err != nil {
			if ctx.Err() == nil {
				e.log.Error("claim", "error", err)
			}
			break
		}
		if len(found) > 0 {
			return e.isolate(ctx, p, now)
		}
	}
	e.mu.Lock()
	s.draining = time.Time{}
	e.mu.Unlock()
	return false
}

// withSuspects reports what a claim for all jobs does with suspects.
func (e *Engine) withSuspects(now time.Time) job.Suspects {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Before(e.suspects.beside) {
		return job.SuspectsToo
	}
	return job.NoSuspects
}

func (e *Engine) suspectClaim(p *pool, now time.Time, dry bool) job.Claim {
	return job.Claim{
		Worker: e.name, From: e.placesOf(p), N: 1, Until: now.Add(e.options.Lease), Now: now,
		Limits: e.kindsNow().limits, Suspects: job.OnlySuspects, Dry: dry,
	}
}

// isolate claims a suspect if nothing runs, else waits for that, but not without end.
func (e *Engine) isolate(ctx context.Context, p *pool, now time.Time) (wait bool) {
	e.mu.Lock()
	s := &e.suspects
	s.look = true // there may be more
	switch {
	case e.idle():
		s.draining, s.alone = time.Time{}, claiming
		e.take(p, 1)
		e.mu.Unlock()
		e.claimSuspect(ctx, p)
		return true
	case s.draining.IsZero():
		s.draining = now
		s.timer = time.AfterFunc(drainFor, e.stir)
	case now.Sub(s.draining) >= drainFor:
		s.draining, s.beside = time.Time{}, now.Add(drainAgain)
	}
	wait = s.closed()
	e.mu.Unlock()
	return wait
}

// idle reports whether no slot is taken. The caller holds mu.
func (e *Engine) idle() bool {
	for _, p := range e.kindsNow().pools {
		if p.free < p.total {
			return false
		}
	}
	return len(e.running) == 0
}

// claimSuspect claims a suspect for a slot that was taken for it and starts it alone.
func (e *Engine) claimSuspect(ctx context.Context, p *pool) {
	jobs, err := e.store.Claim(ctx, e.suspectClaim(p, e.clock.Now(), false))
	if err != nil && ctx.Err() == nil {
		e.log.Error("claim", "error", err)
	}
	if len(jobs) == 0 {
		e.mu.Lock()
		e.suspects.alone = ""
		e.mu.Unlock()
		e.unreserve(p)
		return
	}
	e.claimed(jobs, e.clock.Now())
	j := jobs[0]
	term := e.aloneFor(ctx, &j)
	e.log.Warn("it runs alone: the last workers that had it ended without a report", "job", j.ID, "state", j.State,
		"starts", j.Starts, "at most", term)
	e.mu.Lock()
	e.suspects.alone = j.ID
	e.suspects.timer = time.AfterFunc(term, func() { e.accompanied(j.ID) })
	e.mu.Unlock()
	e.start(p, j)
}

// aloneFor gives how long a suspect runs alone: what ends its workers late must be alone for longer.
func (e *Engine) aloneFor(ctx context.Context, j *job.Job) time.Duration {
	history, err := e.store.History(ctx, j.ID, max(0, j.Seq-16), 0)
	if err != nil {
		return aloneFirst
	}
	d := aloneFirst
	for i, losses := len(history)-1, 0; i >= 0 && history[i].Event == lifecycle.Lost && d < aloneMost; i-- {
		if losses++; losses > job.SuspectStarts {
			d *= 2
		}
	}
	return min(d, aloneMost)
}

// accompanied lets other jobs run beside a suspect, or after it.
func (e *Engine) accompanied(id job.ID) {
	e.mu.Lock()
	over := e.suspects.alone == id
	if over {
		e.suspects.alone = ""
		e.suspects.timer.Stop()
	}
	e.mu.Unlock()
	if over {
		e.stir()
	}
}

// company reports which workers had several jobs when they ended, of those whose claims are over.
type company map[string]time.Time

// meet notes the claims that a worker has that seems to have ended, and reports whether it had only one.
func (e *Engine) meet(ctx context.Context, j *job.Job) (alone bool, err error) {
	page, err := e.store.List(ctx, job.Query{Worker: j.Worker, Limit: 100})
	if err != nil {
		return false, err
	}
	n, now := 0, e.clock.Now()
	for i := range page.Jobs {
		if page.Jobs[i].Worker == j.Worker {
			n++
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for worker, at := range e.company {
		if now.Sub(at) > 2*e.options.Lease {
			delete(e.company, worker)
		}
	}
	if n > 1 {
		e.company[j.Worker] = now
	}
	_, several := e.company[j.Worker]
	return !several, nil
}

// uncounted is how many starts a job has that was not alone when its worker ended: what it has been blamed for, but it
// is a suspect at the second time.
func uncounted(starts, most int) int {
	if most == 1 {
		return job.SuspectStarts
	}
	return max(min(starts, job.SuspectStarts), starts-1)
}
