package trigger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
)

// saveEvery is the least time between two saves of the progress of a run.
const saveEvery = 10 * time.Second

// Causes of failed runs.
const CauseSource = "source" // the source of the schedule cannot be read

// pass is one attempt at a run.
type pass struct {
	*engine.Run
	app    *App
	order  Order
	record Record
	source source.Source
	saved  time.Time
}

// begin is the step of Pending.
func (a *App) begin(_ context.Context, r *engine.Run) error {
	var o Order
	if err := r.Spec(&o); err != nil {
		return engine.Fail(cause.Error, err)
	}
	if _, err := a.options.Sources.Source(o.Schedule.Source); err != nil && !cause.Temporary(err) {
		return engine.Fail(CauseSource, err)
	}
	return nil
}

// run is the step of Running. After a crash it continues with the last course that was not saved: a job that the
// crashed attempt started is found by its key.
func (a *App) run(ctx context.Context, r *engine.Run) error {
	p := &pass{Run: r, app: a, saved: r.Now()}
	if err := errors.Join(r.Spec(&p.order), r.Data(&p.record)); err != nil {
		return engine.Fail(cause.Error, err)
	}
	if p.order.Begins {
		p.SetMessage("the times of the schedule count from now on")
		return nil
	}
	err := p.courses(ctx)
	switch {
	case err == nil:
		p.SetMessage(p.summary())
		return p.SetData(p.record)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case cause.Temporary(err):
		return errors.Join(p.SetData(p.record), engine.Retry(err))
	}
	return engine.Fail(CauseSource, err)
}

// courses decides about each course.
func (p *pass) courses(ctx context.Context) (err error) {
	if p.source, err = p.app.options.Sources.Source(p.order.Schedule.Source); err != nil {
		return err
	}
	if p.record.Courses == nil {
		if p.record.Courses, err = p.list(ctx); err != nil {
			return err
		}
		if err := p.save(ctx); err != nil {
			return err
		}
	}
	for p.record.Next < len(p.record.Courses) {
		course := p.record.Courses[p.record.Next]
		if err := p.course(ctx, course); err != nil {
			if ctx.Err() != nil || cause.Temporary(err) && !p.Last() {
				return err
			}
			p.record.Unread++
			p.note(Decision{Mark: MarkIgnore, Course: course, Reason: "the course cannot be read: " + err.Error()})
		}
		p.record.Next++
		p.Progress(int64(p.record.Next), int64(len(p.record.Courses)), "courses")
		if p.Now().Sub(p.saved) >= saveEvery {
			if err := p.save(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// list gives the ids of the courses of the schedule. A course that is named twice, or is in two categories, is in it
// once.
func (p *pass) list(ctx context.Context) ([]string, error) {
	s := &p.order.Schedule
	ids := s.chosen()
	if ids != nil && len(s.Categories) == 0 {
		return ids, nil // one that does not exist is reported when it is read
	}
	var (
		all []source.Course
		err error
	)
	if len(s.Categories) > 0 {
		all, err = source.CoursesIn(ctx, p.source, s.Categories)
	} else {
		all, err = p.source.Courses(ctx, nil)
	}
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, id := range ids {
		named[id] = true
	}
	out, seen := []string{}, map[string]bool{}
	for _, c := range all {
		if seen[c.ID] || ids != nil && !named[c.ID] {
			continue
		}
		seen[c.ID] = true
		out = append(out, c.ID)
	}
	for _, id := range ids {
		if !seen[id] {
			p.note(Decision{
				Mark: MarkIgnore, Course: id, Reason: "the course is not in the categories of the schedule",
			})
		}
	}
	return out, nil
}

// save makes the progress durable. It fails if another worker has the run.
func (p *pass) save(ctx context.Context) error {
	p.saved = p.Now()
	if err := p.SetData(p.record); err != nil {
		return err
	}
	return p.Save(ctx)
}

// note records a decision, and logs it.
func (p *pass) note(d Decision) {
	note(&p.record, d)
	p.Log().Info(string(d.Mark), "course", d.Course, "activity", d.Activity, "name", d.Name, "reason", d.Reason,
		"job", d.Job)
}

// summary states what the run did.
func (p *pass) summary() string {
	r := &p.record
	archived := r.Counts[MarkArchive] + r.Counts[MarkForce]
	verb := fmt.Sprintf("%s started for %s", count(r.Started, "archive job"), count(archived, "activity"))
	if p.order.Schedule.DryRun {
		verb = fmt.Sprintf("dry run: %s would be archived", count(archived, "activity"))
	}
	after := ""
	if r.Waiting > 0 {
		after = fmt.Sprintf(" (%d after failures)", r.Waiting)
	}
	text := fmt.Sprintf("%s of %s; %d skipped%s, %d ignored", verb, count(len(r.Courses), "course"),
		r.Counts[MarkSkip], after, r.Counts[MarkIgnore])
	if r.Unread > 0 {
		text += fmt.Sprintf("; %s could not be read", count(r.Unread, "course"))
	}
	return text
}

// count gives a number with a noun.
func count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case noun == "activity":
		return fmt.Sprintf("%d activities", n)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// idOf names the archive job of a course in a run: the same in every attempt at the run.
func idOf(run job.ID, course string) string { return fmt.Sprintf("%s/%s", run, course) }
