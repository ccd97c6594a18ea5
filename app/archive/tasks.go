package archive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// TaskKind is the kind of archiving, backup and storage tasks.
const TaskKind job.Kind = "archive.task"

// saveEvery is the least time between two commits of the progress of tasks.
const saveEvery = 2 * time.Second

// unit is a task that a phase runs.
type unit struct {
	name string // of the task
	data any    // for the record; may be nil
}

// part is a task while it runs. Its methods may be called from its goroutine only.
type part struct {
	record  job.Task
	changes chan<- change
}

// change is a change of a task. If done is not nil, it is committed at once, and done receives the error.
type change struct {
	job.Task
	done chan<- error
}

// keep records the data of the task with the next commit.
func (p *part) keep(ctx context.Context, data any) {
	p.record.Data = encode(data)
	p.send(ctx)
}

// progress records how far the task has come.
func (p *part) progress(ctx context.Context, done, total int64) {
	p.record.Done, p.record.Total = done, total
	p.send(ctx)
}

// save records the data of the task and returns when the commit is durable.
func (p *part) save(ctx context.Context, data any) error {
	p.record.Data = encode(data)
	done := make(chan error, 1)
	select {
	case p.changes <- change{p.record, done}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *part) send(ctx context.Context) {
	select {
	case p.changes <- change{p.record, nil}:
	case <-ctx.Done():
	}
}

// planTasks records the tasks of the units that the job does not have yet.
func (t *task) planTasks(ctx context.Context, units []unit) error {
	have, err := t.tasks(ctx)
	if err != nil {
		return err
	}
	for _, u := range units {
		if _, ok := have[u.name]; ok {
			continue
		}
		one := job.Task{Name: u.name, Kind: TaskKind, State: Created}
		if u.data != nil {
			one.Data = encode(u.data)
		}
		if err := t.put(job.Task{}, one); err != nil {
			return err
		}
	}
	return nil
}

// tasks gives the recorded tasks by their names.
func (t *task) tasks(ctx context.Context) (map[string]job.Task, error) {
	all, err := t.Tasks(ctx)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]job.Task, len(all))
	for _, one := range all {
		byName[one.Name] = one
	}
	return byName, nil
}

// runTasks runs the named tasks that are not Finished, some at once, and records what becomes of each. One that fails
// does not end the others. It gives nil only if all are Finished; else the error of a task that another attempt would
// not help, if there is one.
func (t *task) runTasks(ctx context.Context, names []string, most int, do func(context.Context, *part) error) error {
	t.Changed() // what a person tries again from now on is noticed
	have, err := t.tasks(ctx)
	if err != nil {
		return err
	}
	var open []job.Task
	for _, name := range names {
		one, ok := have[name]
		switch {
		case !ok:
			return fmt.Errorf("the task %s is not planned", name)
		case one.State == Cancelled:
			return fmt.Errorf("the task %s is cancelled", name)
		case one.State != Finished:
			open = append(open, one)
		}
	}
	ended, err := t.perform(ctx, open, most, do)
	if err != nil {
		return err
	}
	return worst(ended)
}

// perform runs tasks and commits what they record. The error is that of a commit; those of tasks are in the result.
func (t *task) perform(
	ctx context.Context, open []job.Task, most int, do func(context.Context, *part) error,
) ([]error, error) {
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	changes, slots := make(chan change), make(chan struct{}, max(most, 1))
	g := newGroup(func(one job.Task) error {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-inner.Done():
			return nil
		}
		return t.one(inner, one, changes, do)
	}, func() { close(changes) })
	for _, one := range open {
		g.begin(one)
	}
	g.release()
	err := t.record(inner, open, changes, g, stop)
	for range changes { // tasks that notice the end late
	}
	if err == nil {
		err = context.Cause(inner)
	}
	return slices.Collect(maps.Values(g.errs)), err
}

// one runs a task.
func (t *task) one(
	ctx context.Context, record job.Task, changes chan<- change, do func(context.Context, *part) error,
) (err error) {
	p := &part{record: record, changes: changes}
	if p.record.State == Failed || p.record.State == TimedOut {
		p.record.State = next(p.record.State, Retry, lifecycle.Engine)
	}
	if p.record.State == Created || p.record.State == Awaiting {
		p.record.State = next(p.record.State, Start, lifecycle.Worker)
	}
	p.record.Attempts, p.record.Message = p.record.Attempts+1, ""
	p.send(ctx)
	defer func() {
		if r := recover(); r != nil {
			err = panicked{fmt.Errorf("%s: panic: %v", record.Name, r)}
			t.Log().Error("panic in a task", "task", record.Name, "panic", r, "stack", string(debug.Stack()))
		}
		if ctx.Err() != nil { // it stays Running: the next attempt goes on with it
			return
		}
		event := Finish
		var w waiting
		switch {
		case errors.As(err, &w):
			event = Wait
		case err != nil:
			event, p.record.Message = Fail, err.Error()
		}
		p.record.State = next(p.record.State, event, lifecycle.Worker)
		p.send(ctx)
	}()
	if err := do(ctx, p); err != nil {
		return fmt.Errorf("%s: %w", record.Name, err)
	}
	return nil
}

// next follows a transition of [TaskLife].
func next(s lifecycle.State, e lifecycle.Event, by lifecycle.Actor) lifecycle.State {
	to, err := TaskLife.Next(lifecycle.Position{State: s}, e, by)
	if err != nil {
		panic(err) // this package takes no other transitions
	}
	return to.State
}

// record commits the changes of tasks: those of state at once, progress now and then. Tasks that a person has tried
// again begin in the group.
func (t *task) record(
	ctx context.Context, open []job.Task, changes <-chan change, g *group, stop context.CancelCauseFunc,
) error {
	pending := map[string]job.Task{}
	states := map[string]lifecycle.State{}
	var saved time.Time
	was := map[string]job.Task{} // as of the last commit
	for _, one := range open {
		was[one.Name] = one
	}
	flush := func() error {
		for _, name := range sortedKeys(pending) {
			if err := t.put(was[name], pending[name]); err != nil {
				return err
			}
			was[name] = pending[name]
		}
		clear(pending)
		saved = t.Now()
		return t.Save(ctx)
	}
	steps := newSteps(open)
	for {
		c, ok := change{}, false
		select {
		case c, ok = <-changes:
		case <-t.Changed():
			if err := t.beginAgain(ctx, g); err != nil {
				stop(err)
				return err
			}
			continue
		}
		if !ok {
			break
		}
		pending[c.Name] = c.Task
		steps.enter(c.Task)
		t.Progress(steps.done, steps.total, "parts")
		if c.done == nil && states[c.Name] == c.State && t.Now().Sub(saved) < saveEvery {
			continue
		}
		states[c.Name] = c.State
		err := flush()
		if c.done != nil {
			c.done <- err
		}
		if err != nil {
			stop(err)
			return err
		}
	}
	if len(pending) == 0 || ctx.Err() != nil {
		return nil
	}
	return flush()
}

// steps counts the parts of tasks, such as attempts of a quiz. A task that has not begun counts one.
type steps struct {
	done, total int64
	tasks       map[string][2]int64 // done and total of each
}

func newSteps(open []job.Task) *steps {
	s := &steps{tasks: map[string][2]int64{}}
	for _, one := range open {
		s.enter(one)
	}
	return s
}

// enter enters a task as it is now.
func (s *steps) enter(one job.Task) {
	was, is := s.tasks[one.Name], [2]int64{one.Done, max(one.Total, 1)}
	if one.State == Finished {
		is[0] = is[1]
	}
	s.tasks[one.Name] = is
	s.done, s.total = s.done+is[0]-was[0], s.total+is[1]-was[1]
}

// worst gives the error to report: of a task that another attempt would not help, else of one that failed, else of one
// that waits, first of what this phase waits for.
func worst(errs []error) error {
	rank := func(err error) int {
		var w waiting
		switch {
		case errors.As(err, &w) && w.later:
			return 3
		case errors.As(err, &w):
			return 2
		case cause.Temporary(err):
			return 1
		}
		return 0
	}
	if len(errs) == 0 {
		return nil
	}
	return slices.MinFunc(errs, func(a, b error) int { return rank(a) - rank(b) })
}
