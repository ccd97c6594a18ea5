package computecli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

func newTestCall(errs io.Writer) *commands {
	return &commands{jobs.Commands{Call: cli.New(nil, cli.NewPrinter(io.Discard), cli.NewPrinter(errs), cli.NewCommon(),
		nil, Part)}}
}

// TestRejectedHint sends no one to retry with a job that would be refused again. The control failed in another way.
func TestRejectedHint(t *testing.T) {
	for cause, want := range map[string]string{compute.CauseRejected: "stagepost compute clone cmp_1 with",
		compute.CauseExit: "stagepost retry cmp_1 runs it again"} {
		var out bytes.Buffer
		c := newTestCall(&out)
		c.Root()
		c.exitRun(computeEnded{client.ComputeJob{ID: "cmp_1", State: "Failed", Cause: cause}, 1}, 1)
		if !strings.Contains(out.String(), want) ||
			cause == compute.CauseRejected && strings.Contains(out.String(), "stagepost retry") {
			t.Errorf("%s: the output is %q", cause, out.String())
		}
		if cause == compute.CauseRejected &&
			!strings.Contains(c.Hint(cli.FailedJob{Job: client.Job{Job: job.Job{ID: "cmp_1", Cause: cause}}},
				cli.ExitFailed), want) {
			t.Error("the output of watch differs")
		}
	}
}

// TestComputeExit holds every way to end against the exit code of run that its help promises.
func TestComputeExit(t *testing.T) {
	c := newTestCall(io.Discard)
	c.Root()
	ending := func(exit int, signal string) *client.ComputeEnding {
		return &client.ComputeEnding{ExitCode: exit, Signal: signal}
	}
	for _, test := range []struct {
		state       lifecycle.State
		cause       string
		ending      *client.ComputeEnding
		interrupted bool
		want        int
	}{
		{"Completed", "", ending(0, ""), false, 0},
		{"Completed", "", ending(0, ""), true, 0}, // it was faster than Ctrl-C
		{"Failed", "exit-code", ending(1, ""), false, 1},
		{"Failed", "exit-code", ending(255, ""), true, 255},
		{"Failed", "signal", ending(-1, "SIGSEGV"), false, 139},
		{"Failed", "signal", ending(-1, "SIGRTMIN+1"), false, 125},
		{"Failed", "memory", ending(-1, "SIGKILL"), false, 137},
		{"Failed", "timeout", ending(-1, "SIGKILL"), false, 124},
		{"Failed", "cpu", ending(-1, "SIGXCPU"), false, 124},
		{"Failed", "disk", ending(1, ""), false, 122},
		{"Failed", "results-lost", ending(0, ""), false, 121},
		{"Failed", "rejected", nil, false, 123},
		{"Invalid", "", nil, false, 123},
		{"Failed", "lost", nil, false, 125},
		{"Failed", "unreachable", nil, false, 125},
		{"Failed", "agent-died", ending(-1, "SIGKILL"), false, 125},
		{"Killed", "killed", ending(-1, "SIGKILL"), false, 143},
		{"Killed", "", nil, false, 143},
		{"Killed", "killed", ending(-1, "SIGKILL"), true, 130},
	} {
		outcome := lifecycle.Failed
		if test.state == "Completed" {
			outcome = lifecycle.OK
		}
		j := client.ComputeJob{State: test.state, Outcome: outcome, Cause: test.cause, Ending: test.ending}
		err := outside(endOf(&j, test.interrupted))
		if got := c.Code(err); got != test.want {
			t.Errorf("%+v: got %d (%v)", test, got, err)
		}
	}
	lost := resultsLost{job.Errorf(job.Unavailable, "results", "", "x")}
	failed := computeEnded{exit: 3}
	for want, err := range map[int]error{
		121: lost, 3: errors.Join(lost, failed), 125: job.Errorf(job.NotFound, "x", "", "x"), 130: errAbandoned,
		2: cli.Usagef("x"), 6: fmt.Errorf("y: %w", cli.ErrTimeout),
	} {
		if got := c.Code(outside(err)); got != want {
			t.Errorf("%v: got %d, want %d", err, got, want)
		}
	}
	if got := c.Code(job.Errorf(job.NotFound, "x", "", "x")); got != cli.ExitNotFound {
		t.Errorf("the control: other commands give %d", got)
	}
}
