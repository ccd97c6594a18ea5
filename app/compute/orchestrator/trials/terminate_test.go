//go:build linux

package trials

import (
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
)

// TestTerminateTwice: only the first one ends the job; after that it has ended already, whatever its end was.
func TestTerminateTwice(t *testing.T) {
	t.Parallel()
	terminate := func(s *server, id int, want wire.Status) {
		t.Helper()
		already, err := orchestrator.Users(s.app, s.store).Terminate(t.Context(), uint32(id))
		if err != nil || already != want {
			t.Errorf("got %q, %v, want %q", already, err, want)
		}
	}
	waits := open(t, nil, nil)
	id := waits.upload("true")
	terminate(waits, id, "")
	if j := waits.ends(id, compute.Killed, compute.CauseKilled); j.Message == "" {
		t.Error("it does not report why it ended")
	}
	terminate(waits, id, wire.Killed)
	ran := open(t, with(dial(t, employ(t, nil).url)), nil)
	id = ran.upload("true")
	ran.ends(id, compute.Completed, "")
	terminate(ran, id, wire.Completed)
}
