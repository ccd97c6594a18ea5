package bulk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Options of the application. The zero Options work.
type Options struct {
	Page int           // jobs done between two saves. Defaults to 100, at most 1000
	Keep time.Duration // of ended bulks. Defaults to for ever
}

// App is the application: what the engine calls for the kind bulk, and what the server asks about it.
type App struct {
	options   Options
	engine    *engine.Engine
	explainer *explain.Explainer
}

// New makes the application.
func New(o Options) *App {
	if o.Page <= 0 {
		o.Page = 100
	}
	o.Page = min(o.Page, 1000)
	return &App{options: o}
}

// Works are the kinds that the engine is to be made with.
func (a *App) Works() []engine.Work {
	return []engine.Work{{
		Life: Life, Prefix: "blk", Keep: a.options.Keep, Slots: 2, // an operator who stops what hangs must not wait for it
		Steps: map[lifecycle.State]engine.Step{Pending: a.count, Running: a.act},
	}}
}

// Deliver gives the topics of the outbox that the application delivers: none.
func (a *App) Deliver() map[string]engine.Deliver { return nil }

// Bind joins the application to the engine whose jobs it acts on. It is called once, before the engine runs.
func (a *App) Bind(e *engine.Engine) { a.engine, a.explainer = e, explain.New(e) }

// Close ends the application; nothing of it is open.
func (a *App) Close() error { return nil }

// Start creates a bulk. It has neither group nor owner nor tags, so that no hold on what it acts on keeps it waiting. Errors: Invalid; Refused if
// the number of jobs to expect is missing, with the number that match now. A bulk that the key made already is given
// again; Conflict if it was another one.
func (a *App) Start(ctx context.Context, r Request) (job.Job, error) {
	if err := a.check(&r); err != nil {
		return job.Job{}, err
	}
	if r.Note == "" {
		return job.Job{}, job.Errorf(job.Invalid, "bulk", "", "it needs a note: the history of every job will say why")
	}
	if r.Expect == nil {
		n, err := a.countMatches(ctx, &r, time.Time{})
		if err != nil {
			return job.Job{}, err
		}
		return job.Job{}, job.Errorf(job.Refused, "bulk", "", "%s: say that you expect %d, and it begins", matching(n), n)
	}
	if *r.Expect < 1 {
		return job.Job{}, job.Errorf(job.Invalid, "bulk", "", "to expect %d jobs is to do nothing", *r.Expect)
	}
	j, err := a.engine.Submit(ctx, engine.Order{
		Kind: Kind, Key: r.Key, Priority: new(job.FirstPriority), Spec: r, By: lifecycle.Operator, Actor: r.Actor,
		Note: fmt.Sprintf("%s %d jobs: %s", r.Event, *r.Expect, r.Note),
	})
	if err != nil {
		return j, err
	}
	want, err := json.Marshal(r)
	if err == nil && !bytes.Equal(want, j.Spec) {
		err = job.Errorf(job.Conflict, "bulk", j.ID, "this idempotency key was used for another bulk")
	}
	return j, err
}

// matching says how many jobs match.
func matching(n int) string {
	switch n {
	case 0:
		return "no job matches"
	case 1:
		return "1 job matches"
	}
	return fmt.Sprintf("%d jobs match", n)
}

// countMatches counts the jobs that match, last changed before a time if one is given.
func (a *App) countMatches(ctx context.Context, r *Request, before time.Time) (int, error) {
	n := 0
	err := a.each(ctx, r.query(before, 1000), func(*job.Job) error { n++; return nil })
	return n, err
}

// each calls do for every match.
func (a *App) each(ctx context.Context, q job.Query, do func(*job.Job) error) error {
	for {
		page, err := a.engine.Store().List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			if !a.matches(&page.Jobs[i]) {
				continue
			}
			if err := do(&page.Jobs[i]); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		q.After = page.Next
	}
}
