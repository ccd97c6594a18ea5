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

// Options of the application. The zero Options are valid.
type Options struct {
	Page int           // jobs processed between two saves. Defaults to 100, at most 1000
	Keep time.Duration // of ended bulks. Defaults to job.Unlimited
}

// App is the application. The engine calls it for the kind bulk, and the server queries it.
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

// Works returns the kinds for the engine.
func (a *App) Works() []engine.Work {
	return []engine.Work{{
		// an operator who stops a failing group must not wait for another bulk
		Life: Life, Prefix: "blk", Keep: a.options.Keep, Slots: 2,
		Steps: map[lifecycle.State]engine.Step{Pending: a.count, Running: a.act},
	}}
}

// Deliver returns the topics of the outbox that the application delivers: none.
func (a *App) Deliver() map[string]engine.Deliver { return nil }

// Bind connects the application to the engine of its jobs. It is called once, before the engine runs.
func (a *App) Bind(e *engine.Engine) { a.engine, a.explainer = e, explain.New(e) }

// Close does nothing: the application has no open resources.
func (a *App) Close() error { return nil }

// Start creates a bulk. It has no owner and no tags, and a group only if its sender is limited to that one, who would
// not see it otherwise: so no other hold on the jobs delays it. For a key that was used before it returns the earlier
// bulk. Errors: Invalid; Conflict if the earlier bulk differs; Refused if Expect is missing, with the number of jobs
// that match now.
func (a *App) Start(ctx context.Context, r Request, group string) (job.Job, error) {
	if err := a.check(&r); err != nil {
		return job.Job{}, err
	}
	if r.Note == "" {
		return job.Job{}, job.Errorf(job.Invalid, "bulk", "",
			"a note is required: it is kept in the history of every job")
	}
	if r.Expect == nil {
		n, err := a.countMatches(ctx, &r, time.Time{})
		if err != nil {
			return job.Job{}, err
		}
		return job.Job{}, job.Errorf(job.Refused, "bulk", "", "%s: repeat the request with expect=%d", matching(n), n)
	}
	if *r.Expect < 1 {
		return job.Job{}, job.Errorf(job.Invalid, "bulk", "", "expect is %d: a bulk needs at least one job", *r.Expect)
	}
	j, err := a.engine.Submit(ctx, engine.Order{
		Kind: Kind, Key: r.Key, Priority: new(job.FirstPriority), Spec: r, By: lifecycle.Operator, Actor: r.Actor,
		Note: fmt.Sprintf("%s %d jobs: %s", r.Event, *r.Expect, r.Note), Group: group,
	})
	if err != nil {
		return j, err
	}
	if j.Group != group { // the earlier bulk may not exist for the sender
		return job.Job{}, job.Errorf(job.Conflict, "bulk", "", "this idempotency key was used for another bulk")
	}
	want, err := json.Marshal(r)
	if err == nil && !bytes.Equal(want, j.Spec) {
		err = job.Errorf(job.Conflict, "bulk", j.ID, "this idempotency key was used for another bulk")
	}
	return j, err
}

// matching formats the number of jobs that match.
func matching(n int) string {
	switch n {
	case 0:
		return "no job matches"
	case 1:
		return "1 job matches"
	}
	return fmt.Sprintf("%d jobs match", n)
}

// countMatches counts the jobs that match and, if before is set, were last changed before it.
func (a *App) countMatches(ctx context.Context, r *Request, before time.Time) (int, error) {
	n := 0
	err := a.each(ctx, query(r, before, 1000), func(*job.Job) error { n++; return nil })
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
