package engine

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// A job whose last workers all ended without a report is a suspect ([job.Job.Suspect]): it may have crashed them, or it
// ran at the same time as the job that did. A suspect runs alone until it reports or for a limited time. Only a claim
// during which the job ran alone counts towards poison.

// Times of suspects.
const (
	aloneFirst = 5 * time.Second  // that a suspect runs alone at first; doubled after each further worker
	aloneMost  = 10 * time.Minute // at most
	drainFor   = 30 * time.Second // to wait for running steps to end, so that a suspect can run alone
	drainAgain = 10 * time.Minute // until the next try; until then suspects run beside other jobs
)

// claiming stands for the suspect while it is being claimed.
const claiming job.ID = "?"

// suspicion is the dispatcher's state about suspects. The engine's mu guards it.
type suspicion struct {
	search   bool      // there may be suspects
	alone    job.ID    // runs alone; empty: none; claiming: one is being claimed
	draining time.Time // since then no job is begun, so that a suspect can run alone; zero: not draining
	beside   time.Time // until then suspects run beside other jobs
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
	if !s.search || now.Before(s.beside) {
		e.mu.Unlock()
		return false
	}
	s.search = false
	e.mu.Unlock()
	for _, p := range e.kindsNow().pools {
		found, err := e.store.Peek(ctx, e.suspectClaim(p, now), "")
		if err != nil {
			if ctx.Err() == nil {
				e.log.Error("claim", "error", err)
			}
			break
		}
		if len(found.Next) > 0 {
			return e.isolate(ctx, p, now)
		}
	}
	e.mu.Lock()
	s.draining = time.Time{}
	e.decideChains()
	e.mu.Unlock()
	return false
}

// withSuspects returns whether a claim for all jobs includes suspects.
func (e *Engine) withSuspects(now time.Time) job.Suspects {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Before(e.suspects.beside) {
		return job.SuspectsToo
	}
	return job.NoSuspects
}

func (e *Engine) suspectClaim(p *pool, now time.Time) job.Claim {
	return job.Claim{
		Worker: e.name, From: e.statesOf(p), Labels: e.options.Labels, N: 1, Lease: e.options.Lease, Now: now,
		Limits: e.kindsNow().limits, Suspects: job.OnlySuspects,
	}
}

// isolate claims a suspect if nothing runs. Otherwise it lets the running steps end, for at most drainFor.
func (e *Engine) isolate(ctx context.Context, p *pool, now time.Time) (wait bool) {
	e.mu.Lock()
	s := &e.suspects
	s.search = true // there may be more
	switch {
	case e.idle():
		s.draining, s.alone = time.Time{}, claiming
		e.decideChains()
		e.takeSlots(p, 1)
		e.mu.Unlock()
		e.claimSuspect(ctx, p)
		return true
	case s.draining.IsZero():
		s.draining = now
		s.timer = time.AfterFunc(drainFor, e.wakeDispatcher)
	case now.Sub(s.draining) >= drainFor:
		s.draining, s.beside = time.Time{}, now.Add(drainAgain)
	}
	wait = s.closed()
	e.decideChains()
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

// claimSuspect claims a suspect for a slot that the caller has taken and starts it alone.
func (e *Engine) claimSuspect(ctx context.Context, p *pool) {
	jobs, err := e.store.Claim(ctx, e.suspectClaim(p, e.clock.Now()))
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
	e.start(p, &j)
}

// aloneFor returns how long a suspect runs alone: longer after each crash, because a job may crash its worker late.
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

// accompanied lets other jobs run again, beside a suspect or after it.
func (e *Engine) accompanied(id job.ID) {
	e.mu.Lock()
	over := e.suspects.alone == id
	if over {
		e.suspects.alone = ""
		e.suspects.timer.Stop()
	}
	e.mu.Unlock()
	if over {
		e.wakeDispatcher()
	}
}

// severalJobs has the lost workers that had several claims, with the time at which that was seen.
type severalJobs map[string]time.Time

// hadOneJob counts the claims of a worker whose lease has expired, and reports whether it had only one.
func (e *Engine) hadOneJob(ctx context.Context, j *job.Job) (alone bool, err error) {
	n := 0 // the query has the workers, too, whose names begin with that of this one
	for q := (job.Query{Worker: j.Worker, Limit: 1000}); n < 2; {
		page, err := e.store.List(ctx, q)
		if err != nil {
			return false, err
		}
		for i := range page.Jobs {
			if page.Jobs[i].Worker == j.Worker {
				n++
			}
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	now := e.clock.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for worker, at := range e.several {
		if now.Sub(at) > 2*e.options.Lease {
			delete(e.several, worker)
		}
	}
	if n > 1 {
		e.several[j.Worker] = now
	}
	_, several := e.several[j.Worker]
	return !several, nil
}

// uncounted returns the number of starts after a lost claim during which the job did not run alone. The claim is not
// counted beyond the number of starts that makes a job a suspect.
func uncounted(starts, most int) int {
	if most == 1 {
		return job.SuspectStarts
	}
	return max(min(starts, job.SuspectStarts), starts-1)
}
