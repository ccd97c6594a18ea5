package compute

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/engine/enginetest"
	"github.com/stagepost/stagepost/lifecycle"
)

const jobTable = `
Queued begin Processing worker
Queued cancel Killed operator,owner
Queued reject Invalid worker
Processing sent Submitted worker
Processing again Queued worker
Processing fail Failed worker,timer
Processing cancel Killing operator,owner
Submitted prepared Prepared worker
Submitted run Running worker
Submitted lose Unknown worker,timer
Submitted fetch Retrieving worker
Submitted cancel Killing operator,owner
Prepared run Running worker
Prepared lose Unknown worker,timer
Prepared fetch Retrieving worker
Prepared cancel Killing operator,owner
Prepared fail Failed worker,timer
Running fetch Retrieving worker
Running lose Unknown worker,timer
Running cancel Killing operator,owner
Running timeout Killing timer
Retrieving finish Completed worker
Retrieving fail Failed worker,timer
Retrieving lose Unknown worker
Retrieving cancel Killing operator,owner
Unknown seen [Submitted Prepared Running] worker
Unknown fetch Retrieving worker
Unknown timeout Failed timer
Unknown cancel Killing operator,owner
Killing killed Killed worker,timer
Killing fetch Retrieving worker
Completed clean Cleaned timer
Failed clean Cleaned timer
Invalid clean Cleaned timer
Killed clean Cleaned timer
`

const payloadTable = `
Prepared run Running worker
Prepared reject Invalid worker
Prepared kill Killed operator,owner,engine
Running finish Completed worker
Running fail Failed worker,timer
Running kill Killed operator,owner,engine
Completed clean Cleaned timer
Failed clean Cleaned timer
Invalid clean Cleaned timer
Killed clean Cleaned timer
`

// TestTransitionsOfTables compares the tables with a list written down apart from them.
func TestTransitionsOfTables(t *testing.T) {
	for _, c := range []struct {
		table *lifecycle.Table
		want  string
	}{{JobLife, jobTable}, {PayloadLife, payloadTable}} {
		want := strings.Split(strings.TrimSpace(c.want), "\n")
		if diff := cmp.Diff(want, enginetest.TransitionLines(c.table)); diff != "" {
			t.Errorf("%s (-law +table):\n%s", c.table.Name(), diff)
		}
	}
}

// TestBorder holds words and slots against the list of the statuses.
func TestBorder(t *testing.T) {
	want := map[lifecycle.State]string{
		Queued: "Queued no", Processing: "Processing yes", Submitted: "Submitted yes", Prepared: "Prepared yes",
		Running:    "Running yes",
		Retrieving: "Running yes", Unknown: "Unknown yes", Killing: "Locked yes", Completed: "Completed no",
		Failed:  "Failed no",
		Invalid: "Invalid no", Killed: "Killed no", Cleaned: "Cleaned no",
	}
	got := map[lifecycle.State]string{}
	slots := 0
	for _, s := range JobLife.Stages() {
		word := map[bool]string{true: "yes", false: "no"}[Slot(s.State)]
		got[s.State] = StatusOf(s.State) + " " + word
		if Slot(s.State) {
			slots++
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("words and slots (-want +got):\n%s", diff)
	}
	if len(SlotStates()) != slots || StatusOf("Elsewhere") != "Unknown" || Slot("Elsewhere") {
		t.Errorf("slot states %v; an unknown state is %s", SlotStates(), StatusOf("Elsewhere"))
	}
}

// TestLostJobComesBackWhereItWasLost, from each state in which an agent can stop answering.
func TestLostJobComesBackWhereItWasLost(t *testing.T) {
	for _, state := range []lifecycle.State{Submitted, Prepared, Running} {
		p, err := JobLife.Next(lifecycle.Position{State: state}, Lose, lifecycle.Timer)
		if err != nil || p.State != Unknown {
			t.Fatalf("%s: %+v, %v", state, p, err)
		}
		if p, err = JobLife.Next(p, Seen, lifecycle.Worker); err != nil || p.State != state {
			t.Errorf("seen again in %s, %v; want %s", p.State, err, state)
		}
	}
	p, err := JobLife.Next(lifecycle.Position{State: Retrieving}, Lose, lifecycle.Worker)
	if err != nil {
		t.Fatal(err)
	}
	if can := JobLife.Can(p, lifecycle.Worker); len(can) != 1 || can[0] != Fetch {
		t.Errorf("lost while retrieving: a worker can %v, want fetch only", can)
	}
}

// TestJobThatEndedBeforeItWasKilledCompletes: a cancellation that came too late decides nothing.
func TestJobThatEndedBeforeItWasKilledCompletes(t *testing.T) {
	p := lifecycle.Position{State: Running}
	for _, m := range []lifecycle.Taken{{Event: Cancel, By: lifecycle.Owner}, {Event: Fetch, By: lifecycle.Worker},
		{Event: Finish, By: lifecycle.Worker}} {
		next, err := JobLife.Next(p, m.Event, m.By)
		if err != nil {
			t.Fatal(err)
		}
		p = next
	}
	if p.State != Completed || p.Outcome != lifecycle.OK {
		t.Errorf("ended at %+v, want Completed with outcome ok", p)
	}
	p, err := JobLife.Next(lifecycle.Position{State: Killing}, KilledEvent, lifecycle.Timer)
	if err != nil || p.Outcome != lifecycle.Cancelled {
		t.Errorf("killed: %+v, %v; want outcome cancelled", p, err)
	}
}
