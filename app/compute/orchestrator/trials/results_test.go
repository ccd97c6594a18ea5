//go:build linux

package trials

import (
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire/wiretest"
)

// TestEmptyResults: an original client that answers 500 for the results and then gives a ZIP without a file, or gives
// such a ZIP at once, has lost them: the job has not completed, and what came is kept. One whose results come in
// another way, which is the control, has completed.
func TestEmptyResults(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults []wiretest.Fault
		state  string
		cause  string
	}{
		{"500, then empty", []wiretest.Fault{{Path: "/retrieve/", Code: 500},
			{Path: "/retrieve_partial/", Empty: true}}, "Failed", compute.CauseResults},
		{"empty", []wiretest.Fault{{Path: "/retrieve/", Empty: true}}, "Failed", compute.CauseResults},
		{"500, then all there is", []wiretest.Fault{{Path: "/retrieve/", Code: 500}}, "Completed", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := wiretest.Client(t, wiretest.ClientOptions{})
			for _, f := range c.faults {
				client.Break(f)
			}
			s := open(t, with(original(t, client, nil)), nil)
			j := s.await(s.upload(script("echo made >made.txt")), compute.Completed, compute.Failed)
			if string(j.State) != c.state || j.Cause != c.cause || s.holding() != 0 {
				t.Errorf("%s (%s: %s), %d slots", j.State, j.Cause, j.Message, s.holding())
			}
			d, err := compute.DataOf(&j)
			if err != nil || d.Results == nil {
				t.Errorf("what came is not kept: %+v, %v", d.Results, err)
			}
		})
	}
}
