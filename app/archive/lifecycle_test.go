package archive

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/engine/enginetest"
	"github.com/stagepost/stagepost/lifecycle"
)

const jobTransitions = `
Uninitialized enqueue Queued engine
Uninitialized fail ErrorHandling timer
Uninitialized timeout ErrorHandling timer
Uninitialized cancel ErrorHandling operator,owner
Queued begin PreProcessing worker
Queued fail ErrorHandling worker,timer
Queued timeout ErrorHandling timer
Queued cancel ErrorHandling operator,owner
PreProcessing next ActivityArchiving worker
PreProcessing fail ErrorHandling worker,timer
PreProcessing timeout ErrorHandling timer
PreProcessing cancel ErrorHandling operator,owner
ActivityArchiving next BackupCollection worker
ActivityArchiving error Error worker,timer
ActivityArchiving timeout ErrorHandling timer
ActivityArchiving cancel ErrorHandling operator,owner
BackupCollection next PostProcessing worker
BackupCollection error Error worker,timer
BackupCollection timeout ErrorHandling timer
BackupCollection cancel ErrorHandling operator,owner
PostProcessing next Store worker
PostProcessing error Error worker,timer
PostProcessing timeout ErrorHandling timer
PostProcessing cancel ErrorHandling operator,owner
Store next Signing worker
Store error Error worker,timer
Store timeout ErrorHandling timer
Store cancel ErrorHandling operator,owner
Signing next Cleanup worker
Signing error Error worker,timer
Signing timeout ErrorHandling timer
Signing cancel ErrorHandling operator,owner
Error recover RecoverableError engine
Error fail ErrorHandling engine
Error timeout ErrorHandling timer
Error cancel ErrorHandling operator,owner
RecoverableError retry [ActivityArchiving BackupCollection PostProcessing Store Signing] timer,operator
RecoverableError timeout ErrorHandling timer
RecoverableError cancel ErrorHandling operator,owner
ErrorHandling next Cleanup worker
Cleanup finish Completed worker
Cleanup fail Failure worker
Cleanup timeout Timeout worker
Cleanup abort Cancelled worker
Completed delete Deleted timer,operator
Failure delete Deleted timer,operator
Timeout delete Deleted timer,operator
Cancelled delete Deleted timer,operator
`

const taskTransitions = `
Created start Running worker
Created cancel Cancelled operator,owner,engine
Running finish Finished worker
Running fail Failed worker
Running timeout TimedOut timer
Running cancel Cancelled operator,owner,engine
Running wait Awaiting worker
Awaiting start Running worker
Awaiting timeout TimedOut timer
Awaiting cancel Cancelled operator,owner,engine
Failed retry Created operator,engine
TimedOut retry Created operator,engine
`

// TestTransitions compares the tables with lists that were written apart from them.
func TestTransitions(t *testing.T) {
	for _, c := range []struct {
		table *lifecycle.Table
		want  string
	}{{JobLife, jobTransitions}, {TaskLife, taskTransitions}} {
		want := strings.Split(strings.TrimSpace(c.want), "\n")
		if diff := cmp.Diff(want, enginetest.TransitionLines(c.table)); diff != "" {
			t.Errorf("%s (-list +table):\n%s", c.table.Name(), diff)
		}
	}
}

// TestOutcomeSelectsTheEnd moves a job through Cleanup with each outcome.
func TestOutcomeSelectsTheEnd(t *testing.T) {
	worker, timer, engine, owner := lifecycle.Worker, lifecycle.Timer, lifecycle.Engine, lifecycle.Owner
	toStore := []lifecycle.Taken{{Event: Enqueue, By: engine}, {Event: Begin, By: worker}, {Event: Next, By: worker},
		{Event: Next, By: worker}, {Event: Next, By: worker}, {Event: Next, By: worker}}
	for _, c := range []struct {
		more []lifecycle.Taken
		want lifecycle.State
	}{
		{[]lifecycle.Taken{{Event: Next, By: worker}, {Event: Next, By: worker}}, Completed},
		{[]lifecycle.Taken{{Event: ErrorEvent, By: worker}, {Event: Fail, By: engine}, {Event: Next, By: worker}},
			Failure},
		{[]lifecycle.Taken{{Event: TimeoutEvent, By: timer}, {Event: Next, By: worker}}, Timeout},
		{[]lifecycle.Taken{{Event: ErrorEvent, By: timer}, {Event: Recover, By: engine}, {Event: Cancel, By: owner},
			{Event: Next, By: worker}}, Cancelled},
	} {
		p, err := JobLife.Replay(append(toStore[:6:6], c.more...))
		if err != nil || p.State != Cleanup {
			t.Fatalf("%s: at %+v, %v; want Cleanup", c.want, p, err)
		}
		e, ok := JobLife.Choose(p, lifecycle.Pass, worker)
		if !ok {
			t.Fatalf("%s: nothing to choose at %+v", c.want, p)
		}
		if p, err = JobLife.Next(p, e, worker); err != nil || p.State != c.want {
			t.Errorf("ended in %s, %v; want %s", p.State, err, c.want)
		}
	}
}

// TestRecoveredJobGoesBackToItsPhase checks that a recovered job returns to the phase that failed.
func TestRecoveredJobGoesBackToItsPhase(t *testing.T) {
	for _, phase := range []lifecycle.State{ActivityArchiving, BackupCollection, PostProcessing, Store, Signing} {
		p := lifecycle.Position{State: phase, LastOK: PreProcessing}
		for _, m := range []lifecycle.Taken{{Event: ErrorEvent, By: lifecycle.Worker},
			{Event: Recover, By: lifecycle.Engine}, {Event: Retry, By: lifecycle.Timer}} {
			next, err := JobLife.Next(p, m.Event, m.By)
			if err != nil {
				t.Fatalf("%s: %v", phase, err)
			}
			p = next
		}
		if p.State != phase || p.LastOK != PreProcessing {
			t.Errorf("back at %+v, want %s", p, phase)
		}
	}
}

// TestNumbersCoverBothTables checks that every state has a number and is found by it.
func TestNumbersCoverBothTables(t *testing.T) {
	for _, c := range []struct {
		table  *lifecycle.Table
		number func(lifecycle.State) (int, bool)
		state  func(int) (lifecycle.State, bool)
	}{{JobLife, JobNumber, JobState}, {TaskLife, TaskNumber, TaskState}} {
		for _, s := range c.table.Stages() {
			n, ok := c.number(s.State)
			back, found := c.state(n)
			if !ok || !found || back != s.State && n != 240 {
				t.Errorf("%s %s: number %d, %v, read back as %s, %v", c.table.Name(), s.State, n, ok, back, found)
			}
		}
	}
	if s, _ := JobState(240); s != Failure {
		t.Errorf("240 is %s, want Failure", s)
	}
	if s, ok := JobState(255); ok {
		t.Errorf("255 is %s, want nothing", s)
	}
	if n, ok := TaskNumber(Completed); ok {
		t.Errorf("a task's Completed is %d, want nothing", n)
	}
	for s, want := range map[lifecycle.State]int{Uninitialized: 0, Signing: 70, Cleanup: 90, Deleted: 110,
		ErrorHandling: 220, Timeout: 230} {
		if n, _ := JobNumber(s); n != want {
			t.Errorf("%s is %d, want %d", s, n, want)
		}
	}
}
