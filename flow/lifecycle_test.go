package flow

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/lifecycle"
)

// flowTable is TaskFlow's table of a flow's states: ok is a change, ign is quietly ignored, err is refused.
const flowTable = `
           PENDING RUNNING SUCCESS FAILURE REVERTED SUSPENDING SUSPENDED RESUMING
PENDING    ign     ok      err     err     err      ign        ign       ign
RUNNING    err     ign     ok      ok      ok       ok         err       ok
SUCCESS    ok      ok      ign     err     err      ign        ign       ign
FAILURE    err     ok      err     ign     err      ign        ign       ign
REVERTED   ok      err     err     err     ign      ign        ign       ign
SUSPENDING err     err     ok      ok      ok       ign        ok        ok
SUSPENDED  err     ok      err     err     err      ign        ign       ign
RESUMING   err     err     err     err     err      err        ok        ign
`

// ways reports which states the transitions of each state lead to, and counts the transitions; loops are left out.
func ways(t *lifecycle.Table) (to map[string]bool, n int) {
	to = map[string]bool{}
	for _, s := range t.Stages() {
		for _, a := range s.Transitions {
			if a.Class != lifecycle.Loop {
				to[string(s.State)+">"+string(a.To)] = true
				n++
			}
		}
	}
	return to, n
}

// TestFlowHoldsTheWholeMatrix examines all 64 pairs.
func TestFlowHoldsTheWholeMatrix(t *testing.T) {
	to, n := ways(Life)
	if n != 27 || len(to) != 24 || !to["FAILURE>PENDING"] || !to["SUSPENDED>PENDING"] {
		t.Errorf("%d transitions to %d pairs, want 17 that may be asked for, 2 by reset only, 2 that end what never began, 3 deletions: %v", n, len(to), to)
	}
	asked := 0
	rows := strings.Split(strings.TrimSpace(flowTable), "\n")
	names := strings.Fields(rows[0])
	for _, row := range rows[1:] {
		cells := strings.Fields(row)
		for i, want := range cells[1:] {
			got, c := "err", statePair{lifecycle.State(cells[0]), lifecycle.State(names[i])}
			switch {
			case c.isAllowed():
				got = "ok"
				asked++
			case c.isIgnored():
				got = "ign"
			}
			if got != want {
				t.Errorf("%s to %s: %s, want %s", cells[0], names[i], got, want)
			}
		}
	}
	if asked != 17 {
		t.Errorf("%d changes may be asked for, want 17", asked)
	}
	for _, from := range []lifecycle.State{FailureState, Suspended} {
		a, ok := Life.Transition(from, Reset)
		if p, err := Life.Next(lifecycle.Position{State: from}, Reset, lifecycle.Owner); !ok || err != nil ||
			p.State != Pending || a.By&^byPerson != 0 {
			t.Errorf("a reset of %s gives %+v, %v", from, p, err)
		}
	}
	if len(ignored) != 14 {
		t.Errorf("%d ignored changes, want 14", len(ignored))
	}
	if (statePair{"ELSEWHERE", "ELSEWHERE"}).isIgnored() {
		t.Error("a state that no flow has is ignored")
	}
}

const taskTable = "PENDING>RUNNING PENDING>IGNORE RUNNING>SUCCESS RUNNING>FAILURE SUCCESS>REVERTING FAILURE>REVERTING " +
	"REVERTING>REVERTED REVERTING>REVERT_FAILURE REVERTED>PENDING IGNORE>PENDING"

// TestTaskAndRetryHoldExactlyTheirChanges compares with the lists of 10 and 12.
func TestTaskAndRetryHoldExactlyTheirChanges(t *testing.T) {
	for _, c := range []struct {
		table *lifecycle.Table
		want  string
		n     int
	}{{TaskLife, taskTable, 10}, {RetryLife, taskTable + " SUCCESS>RETRYING RETRYING>RUNNING", 12}} {
		got, n := ways(c.table)
		want := map[string]bool{}
		for _, way := range strings.Fields(c.want) {
			want[way] = true
		}
		if diff := cmp.Diff(want, got); diff != "" || n != c.n {
			t.Errorf("%s has %d transitions, want %d (-want +got):\n%s", c.table.Name(), n, c.n, diff)
		}
	}
}

// TestEventsOfTheFlow: one event has one meaning, and who may cause it is reported apart.
func TestEventsOfTheFlow(t *testing.T) {
	want := "run cancel stop finish fail revert suspend resume reset delete park"
	var got []string
	for _, e := range Life.Events() {
		if a, _ := Life.Transition(Running, e); a.Class != lifecycle.Loop || a.Ask {
			got = append(got, string(e))
		}
	}
	if strings.Join(got, " ") != want {
		t.Errorf("events %v, want %s", got, want)
	}
	if _, err := Life.Next(lifecycle.Position{State: Success}, Run, lifecycle.Worker); err == nil {
		t.Error("a worker ran a finished flow again")
	}
}

// TestEndsRunAgain: what an end decided is forgotten when it runs again, and REVERT_FAILURE never does.
func TestEndsRunAgain(t *testing.T) {
	for _, c := range []struct {
		table *lifecycle.Table
		state lifecycle.State
		event lifecycle.Event
		by    lifecycle.Actor
	}{
		{Life, Success, Run, lifecycle.Owner}, {Life, Success, Reset, lifecycle.Owner},
		{Life, FailureState, Run, lifecycle.Owner},
		{Life, Reverted, Reset, lifecycle.Owner}, {Life, FailureState, Reset, lifecycle.Owner},
		{TaskLife, Success, eventRevert, lifecycle.Engine}, {TaskLife, FailureState, eventRevert, lifecycle.Engine},
		{TaskLife, Reverted, Reset, lifecycle.Engine}, {TaskLife, Ignore, Reset, lifecycle.Engine},
		{RetryLife, Success, eventRetry, lifecycle.Engine},
	} {
		stage, _ := c.table.Stage(c.state)
		p, err := c.table.Next(lifecycle.Position{State: c.state, Outcome: stage.Outcome}, c.event, c.by)
		if err != nil || p.Outcome != lifecycle.None || !stage.Restartable {
			t.Errorf("%s: %s from %s gives %+v, %v", c.table.Name(), c.event, c.state, p, err)
		}
	}
	for _, table := range []*lifecycle.Table{TaskLife, RetryLife} {
		if s, _ := table.Stage(RevertFailure); s.Restartable || len(s.Transitions) > 0 ||
			s.Outcome != lifecycle.Failed {
			t.Errorf("%s: REVERT_FAILURE is %+v", table.Name(), s)
		}
	}
}
