//go:build linux

package trials

import (
	"fmt"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/agent"
)

// calls are the calls between a server and our agent.
var calls = []string{"submit", "look", "results", "partial", "kill", "forget", "room", "events", "log"}

// harms are what the network does to each.
var harms = map[string]harm{
	"request lost": requestHangs, "answer lost": answerLost, "answer cut": answerCut, "reset": reset,
	"never answered": answerHangs, "late": answerDelayed, "doubled": doubled,
}

// hurry is how long the server waits for an agent here. A slow machine may take longer: that is a fault like the
// others, and changes no end.
const hurry = time.Second

// TestFaults has each call go wrong in each way, twice and then no more, while a job goes through its life: it ends
// rightly, and ran once.
func TestFaults(t *testing.T) {
	for _, call := range calls {
		for name, h := range harms {
			t.Run(fmt.Sprintf("%s/%s", call, name), func(t *testing.T) { t.Parallel(); fault(t, call, h) })
		}
	}
}

func fault(t *testing.T, call string, h harm) {
	a := employ(t, nil)
	g := newGate(t, a.url)
	x, err := agent.Dial(agent.DialOptions{Name: "a1", URL: g.url, Patience: hurry, Silence: 2 * hurry})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	g.harm(call, h, 0, 2)
	s := open(t, with(x), func(s *setting) {
		s.compute.Answer, s.compute.Stall, s.compute.Silence, s.compute.Recheck = hurry, hurry, 200*time.Millisecond,
			500*time.Millisecond
	})
	l := newLatch(t)
	id := s.upload(script("echo begun; echo first >first.txt\n" + l.wait() + "echo made >made.txt"))
	l.arrived(1)
	s.await(id, compute.Running)
	want, cause := compute.Completed, ""
	switch call {
	case "partial":
		code, files := s.partialOrCut(id)
		t.Logf("the first answer: %d %v", code, files)
		eventually(t, "a partial result", func() bool {
			_, files := s.partialOrCut(id)
			return files["first.txt"] == "first\n"
		})
	case "log":
		eventually(t, "the log", func() bool { return s.log(id) == "begun\n" })
	case "kill":
		want, cause = compute.Killed, compute.CauseKilled
		eventually(t, "the job is cancelled", func() bool { code, _ := s.terminate(id); return code == 200 })
	}
	if call != "kill" {
		l.lift()
	}
	s.ends(id, want, cause)
	if want == compute.Completed {
		has(t, s.results(id), "made.txt", "stdout")
	}
	g.struck(call)
	a.gone()
	if n := len(a.payloads()); l.runs() != 1 || a.runs.count() != 1 || n != 1 {
		t.Errorf("%d runs, %d starts, %d payloads", l.runs(), a.runs.count(), n)
	}
	if s.holding() != 0 {
		t.Error("a slot is held")
	}
}
