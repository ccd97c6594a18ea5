package bulk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Causes of failed bulks.
const (
	CauseCount   = "count"   // another number of jobs matches than expected; nothing was done
	CauseInvalid = "invalid" // the request is not valid any more; nothing was done
	CauseRefused = "refused" // no job could be done
)

// record is the persisted progress of a bulk. It is saved at the end of each page, together with the next page.
type record struct {
	Begun time.Time `json:"begun"` // matches were last changed before
	Result
	Page   []planned `json:"page,omitempty"` // the next page, or the page in progress when the last worker crashed
	Cursor string    `json:"cursor,omitempty"`
	Last   bool      `json:"last,omitempty"` // no page follows Page
}

// planned is a job as it was when its page was read.
type planned struct {
	ID      job.ID `json:"id"`
	Version int64  `json:"version"`
	Seq     int64  `json:"seq"` // number of its history entries
}

// count is the step of Pending: it compares the number of matches with the expected number.
func (a *App) count(ctx context.Context, r *engine.Run) error {
	var q Request
	if err := r.Spec(&q); err != nil {
		return err
	}
	if err := a.check(&q); err != nil {
		return engine.Fail(CauseInvalid, err)
	}
	if q.Expect == nil {
		return engine.Fail(CauseInvalid, errors.New("the expected number of jobs is missing"))
	}
	now := r.Now()
	n, err := a.countMatches(ctx, &q, now)
	if err != nil {
		return err
	}
	if n != *q.Expect {
		return engine.Fail(CauseCount, fmt.Errorf("%s and %d were expected: nothing was done", matching(n), *q.Expect))
	}
	return r.SetData(record{Begun: now, Result: Result{Matches: n}})
}

// pass is one attempt at processing the matches.
type pass struct {
	*engine.Run
	app    *App
	q      Request
	from   string // the address of the person
	record record
}

// act is the step of Running. After a crash it begins with the last saved page.
func (a *App) act(ctx context.Context, r *engine.Run) error {
	p := &pass{Run: r, app: a}
	if err := errors.Join(r.Spec(&p.q), r.Data(&p.record)); err != nil {
		return err
	}
	first, err := a.engine.Store().History(ctx, r.Job().ID, 0, 1)
	if err != nil {
		return err
	}
	p.from = first[0].Address
	for {
		for i := range p.record.Page {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := p.one(ctx, &p.record.Page[i]); err != nil {
				return err
			}
			p.Progress(int64(seen(&p.record.Result)), int64(p.record.Matches), "jobs")
		}
		if p.record.Last {
			return p.conclude()
		}
		if err := p.turn(ctx); err != nil {
			return err
		}
	}
}

// turn reads the next page and saves it together with the results of the pages before.
func (p *pass) turn(ctx context.Context) error {
	q := query(&p.q, p.record.Begun, p.app.options.Page)
	q.After = p.record.Cursor
	page, err := p.app.engine.Store().List(ctx, q)
	if err != nil {
		return err
	}
	p.record.Page = nil
	for i := range page.Jobs {
		if j := &page.Jobs[i]; p.app.matches(j) {
			p.record.Page = append(p.record.Page, planned{ID: j.ID, Version: j.Version, Seq: j.Seq})
		}
	}
	p.record.Cursor, p.record.Last = page.Next, page.Next == ""
	if err := p.SetData(p.record); err != nil {
		return err
	}
	return p.Save(ctx)
}

// one processes one job. A job that differs from its planned version was either done by a crashed attempt, or
// changed; then again processes it.
func (p *pass) one(ctx context.Context, one *planned) error {
	err := p.do(ctx, one.ID, one.Version)
	if job.KindOf(err) == job.Conflict {
		did, unknown := p.app.did(ctx, p.Job().ID, &p.q, one)
		if unknown != nil {
			return unknown
		}
		if did {
			p.record.Done++
			return nil
		}
		err = p.again(ctx, one.ID)
	}
	switch job.KindOf(err) {
	case "":
		p.record.Done++
	case job.Refused, job.Invalid:
		refuse(&p.record.Result, one.ID, err)
	case job.Conflict:
		p.record.Changed++
	case job.NotFound, job.Gone:
		p.record.Skipped++
	default:
		return err
	}
	return nil
}

// again processes a job that changed since its page was read, if it still matches.
func (p *pass) again(ctx context.Context, id job.ID) error {
	j, err := p.app.engine.Store().Get(ctx, id)
	if err != nil {
		return err
	}
	q := query(&p.q, time.Time{}, 0)
	if !q.Matches(&j) || !p.app.matches(&j) {
		return job.Errorf(job.Conflict, "bulk", id, "it does not match any more")
	}
	return p.do(ctx, id, j.Version)
}

// do causes the event on one job, like a person who read that version.
func (p *pass) do(ctx context.Context, id job.ID, version int64) error {
	note, actor := p.q.Note+mark(p.Job().ID), cmp.Or(p.q.Actor, lifecycle.Operator.String())
	ctx = job.WithAddress(ctx, p.from)
	if p.q.Event == lifecycle.Reprioritize {
		_, err := p.app.engine.Operator().SetPriority(ctx, id, version, *p.q.Priority, actor, note)
		return err
	}
	_, err := p.app.engine.Do(ctx, operator.Act{
		Job: id, Event: p.q.Event, By: lifecycle.Operator, Actor: actor, Note: note, Version: version,
		Confirm: p.q.Confirm,
	})
	return err
}

// mark is the end of the note of every act of a bulk.
func mark(id job.ID) string { return " (bulk " + string(id) + ")" }

// did reports whether the bulk has acted on a job since its page was read.
func (a *App) did(ctx context.Context, bulk job.ID, q *Request, one *planned) (bool, error) {
	history, err := a.engine.Store().History(ctx, one.ID, one.Seq, 0)
	if kind := job.KindOf(err); kind == job.NotFound || kind == job.Gone {
		return false, nil
	}
	for _, e := range history {
		if e.Event == q.Event && e.By == lifecycle.Operator && strings.HasSuffix(e.Note, mark(bulk)) {
			return true, nil
		}
	}
	return false, err
}

// conclude ends the bulk. It fails only if no job was done and some were refused.
func (p *pass) conclude() error {
	p.record.Page = nil
	p.record.Changed += max(0, p.record.Matches-seen(&p.record.Result)) // they changed before their page was read
	if err := p.SetData(p.record); err != nil {
		return err
	}
	text := sentence(&p.record.Result)
	if p.record.Done == 0 && p.record.Refused > 0 {
		return engine.Fail(CauseRefused, errors.New(text))
	}
	p.SetMessage(text)
	return nil
}
