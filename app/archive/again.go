package archive

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// performed lists, by phase, the beginnings of the names of the tasks that the phase performs. The tasks of copies only
// record what the locations have.
var performed = map[lifecycle.State][]string{
	ActivityArchiving: {courseTask, activityTask, backupTask},
	BackupCollection:  {backupTask},
	Store:             {objectTask},
}

// again is the retry of one task by a person: see [engine.Work]. It is possible while a worker performs the phase of
// the task. Later the next attempt of the phase performs the task, or the job has failed.
func again(j *job.Job, t *job.Task, by lifecycle.Actor) (job.Task, error) {
	to, err := TaskLife.Next(lifecycle.Position{State: t.State}, Retry, by)
	if t.Kind != TaskKind || err != nil {
		return job.Task{}, job.Errorf(job.Refused, "retry-task", j.ID,
			"the task %s is %s: an operator may try a task again that is Failed or TimedOut", t.Name, t.State)
	}
	performs := func(prefix string) bool { return strings.HasPrefix(t.Name, prefix) }
	if !j.Claimed() || !slices.ContainsFunc(performed[j.State], performs) {
		return job.Task{}, job.Errorf(job.Refused, "retry-task", j.ID,
			"no worker performs the phase of the task %s now: the job is %s, and the next attempt of the phase "+
				"tries again every task that is not Finished", t.Name, j.State)
	}
	next := *t
	next.State, next.Message = to.State, ""
	return next, nil
}

// group runs tasks at once. It ends with the last of them; until then one that failed can run again.
type group struct {
	run   func(job.Task) error
	ended func() // called once, when no task runs any more

	mu      sync.Mutex // guards the rest
	running int
	begun   map[string]int      // by name: the attempts before the last run of a task
	runs    map[string]bool     // by name
	due     map[string]job.Task // run again when they have failed
	errs    map[string]error    // of the tasks that failed, by name
}

// newGroup makes a group that does not end before a call of release.
func newGroup(run func(job.Task) error, ended func()) *group {
	return &group{run: run, ended: ended, running: 1, begun: map[string]int{}, runs: map[string]bool{},
		due: map[string]job.Task{}, errs: map[string]error{}}
}

// begin runs a task.
func (g *group) begin(one job.Task) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.start(one)
}

// start is begin under the lock.
func (g *group) start(one job.Task) {
	delete(g.errs, one.Name)
	g.running++
	g.begun[one.Name], g.runs[one.Name] = one.Attempts, true
	go func() { g.end(one.Name, g.run(one)) }()
}

// again runs a task of the group again if a person has made it Created since it began, and the group has not ended.
func (g *group) again(one job.Task) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before, mine := g.begun[one.Name]
	switch {
	case !mine || g.running == 0 || one.State != Created || one.Attempts <= before:
	case g.runs[one.Name]: // its failure is recorded, and it is about to end
		g.due[one.Name] = one
	default:
		g.start(one)
	}
}

// end notes how a task ended.
func (g *group) end(name string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.runs[name] = false
	if one, ok := g.due[name]; ok && err != nil {
		delete(g.due, name)
		g.start(one)
	} else if err != nil {
		g.errs[name] = err
	}
	g.leave()
}

// release lets the group end.
func (g *group) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leave()
}

// leave is the end of one that runs.
func (g *group) leave() {
	if g.running--; g.running == 0 {
		g.ended()
	}
}

// beginAgain runs the tasks again that failed in this attempt and that a person has made Created.
func (t *task) beginAgain(ctx context.Context, g *group) error {
	have, err := t.tasks(ctx)
	if err != nil {
		return err
	}
	for _, name := range sortedKeys(have) {
		g.again(have[name])
	}
	return nil
}
