package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	computecli "github.com/stagepost/stagepost/app/compute/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// The service of the demo.
const (
	DemoService  = "demo"
	demoPerUser  = 2
	demoSlots    = 6
	demoServices = "services.yaml"
	demoMemory   = 64 << 20
)

// DemoJob is a job of one of the demo's users, and how it is to end.
type DemoJob struct {
	User, Name, script string
	memory             client.Bytes // that it may use
	cancel             bool         // it is cancelled when it runs
	State              lifecycle.State
	cause              string
}

// demoJobs are the jobs in the order in which they are submitted. The greedy one comes to hold 160 MB, and keeps them
// until it is ended: without control groups a watch of its size ends it.
func demoJobs() []DemoJob {
	var all []DemoJob
	for n := range 3 {
		script := fmt.Sprintf("#!/bin/bash\nseq 1 %d0000 | awk '{ s += $1 } END { print s }' > sum.txt\nsleep 0.3\n",
			n+1)
		all = append(all, DemoJob{User: "ann", Name: fmt.Sprintf("sum-%d", n+1), script: script,
			State: compute.Completed})
	}
	return append(all,
		DemoJob{User: "ben", Name: "exits", script: "#!/bin/bash\necho 'no such sample: 17' >&2\nexit 3\n",
			State: compute.Failed, cause: compute.CauseExit},
		DemoJob{User: "ben", Name: "greedy",
			script: "#!/bin/bash\nx=0123456789\nfor n in {1..24}; do x=$x$x; done\nsleep 20\n",
			memory: demoMemory, State: compute.Failed, cause: compute.CauseMemory},
		DemoJob{User: "cleo", Name: "endless", script: "#!/bin/bash\necho began\nwhile :; do sleep 1; done\n",
			cancel: true, State: compute.Killed, cause: compute.CauseKilled},
		DemoJob{User: "cleo", Name: "report", script: "#!/bin/bash\ndate -u > report.txt\n", State: compute.Completed},
	)
}

// computes reports whether jobs can be run here at all.
func (d *demo) computes() bool { return runtime.GOOS == "linux" }

// services writes the file of the demo's service and sets the flags of the server that runs the scripts itself.
func (d *demo) services() error {
	if !d.computes() {
		return nil
	}
	file := filepath.Join(d.dir, demoServices)
	d.service = []string{"--compute-local", strconv.Itoa(demoSlots), "--compute-services", file}
	if d.host.IsDefault("compute.sandbox") {
		d.service = append(d.service, "--compute-sandbox", sandbox.Auto)
	}
	text := fmt.Sprintf("services:\n  %s:\n    runs_per_user: %d\n    max_runs: %d\n    "+
		"limits: {wall: 1m, memory: 512MiB}\n"+
		"    max: {wall: 1m, memory: 512MiB}\n", DemoService, demoPerUser, demoSlots)
	return os.WriteFile(file, []byte(text), 0o600)
}

// confined finds what confines the scripts. Only if something does, a later server on the demo's directory runs
// scripts as well.
func (d *demo) confined(ctx context.Context) error {
	if !d.computes() {
		return nil
	}
	agents, err := d.agents(ctx)
	if err != nil {
		return err
	}
	for i := range agents {
		d.tier = cmp.Or(d.tier, agents[i].Sandbox)
	}
	if d.tier == sandbox.None || d.tier == "" {
		return nil
	}
	return d.configure(fmt.Sprintf("compute:\n  local: %d\n  sandbox: require\n  services: %q\n", demoSlots,
		filepath.Join(d.dir, demoServices)))
}

// agents returns the agents of the server. Its own one may join when the server answers already.
func (d *demo) agents(ctx context.Context) ([]client.ComputeAgent, error) {
	waiting, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	for {
		agents, err := d.api.ComputeAgents(waiting)
		known := func(a client.ComputeAgent) bool { return a.Sandbox != "" }
		if err != nil || slices.ContainsFunc(agents, known) {
			return agents, err
		}
		select {
		case <-waiting.Done():
			return nil, fmt.Errorf("the server has no agent: %w", waiting.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// compute has three users submit scripts, cancels one, and shows how all ended.
func (d *demo) compute(ctx context.Context) error {
	d.line("")
	switch {
	case !d.computes():
		d.line("Users' scripts need Linux; that part of the demo is left out.")
		return nil
	case d.tier == sandbox.None:
		d.line("Nothing confines users' scripts on this machine: those of the demo run with all")
		d.line("rights that you have. To see the reason: stagepost compute agent doctor")
	}
	d.line("Three users run scripts, each at most %d at once (sandbox: %s).", demoPerUser, d.tier)
	jobs := demoJobs()
	ids := make([]job.ID, len(jobs))
	for i := range jobs {
		var err error
		if ids[i], err = d.submitScript(ctx, &jobs[i]); err != nil {
			return err
		}
	}
	for i := range jobs {
		if jobs[i].cancel {
			if err := d.cancel(ctx, ids[i]); err != nil {
				return err
			}
		}
	}
	ended := make([]client.ComputeJob, len(jobs))
	for i, id := range ids {
		err := d.api.Watch(ctx, id, 0, func(client.Update) error { return nil })
		if err == nil {
			ended[i], err = d.api.ComputeJob(ctx, id)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(d.summary(ended), AsExpected(jobs, ended))
}

// submitScript submits one job.
func (d *demo) submitScript(ctx context.Context, j *DemoJob) (job.ID, error) {
	answer, err := d.api.SubmitCompute(ctx, client.ComputeOrder{
		Service: DemoService, Name: j.Name, Owner: j.User, Actor: j.User,
		Limits: client.ComputeLimits{Memory: j.memory}, Key: "demo-" + j.Name,
		Files: []client.ComputeInline{{Name: computecli.ScriptName, Text: j.script}},
	}, nil, nil)
	return answer.ID, err
}

// cancel cancels a job when it runs.
func (d *demo) cancel(ctx context.Context, id job.ID) error {
	err := d.api.Watch(ctx, id, 0, func(u client.Update) error {
		if u.Job != nil && u.Job.State == compute.Running {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		return errors.Join(errors.New("the job that was to be cancelled has never run"), err)
	}
	_, err = d.api.CancelCompute(ctx, id, client.Act{Actor: "cleo", Note: "it takes too long"})
	return err
}

// summary shows how the jobs ended.
func (d *demo) summary(jobs []client.ComputeJob) error {
	rows := make([][]string, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		rows[i] = []string{j.Owner, j.Name, string(j.State), j.Message}
	}
	return d.Out.Table([]string{"USER", "SCRIPT", "STATE", "MESSAGE"}, rows)
}

// AsExpected compares how the jobs ended with the story, and checks that no user had more running than the quota
// allows.
func AsExpected(jobs []DemoJob, ended []client.ComputeJob) error {
	var wrong []error
	byUser := map[string][]client.ComputeJob{}
	for i := range jobs {
		want, got := &jobs[i], &ended[i]
		if got.State != want.State || got.Cause != want.cause {
			wrong = append(wrong, fmt.Errorf("%s of %s ended as %s (%s); %s (%s) was to be expected", want.Name,
				want.User, got.State, got.Cause, want.State, want.cause))
		}
		byUser[want.User] = append(byUser[want.User], *got)
	}
	for user, all := range byUser {
		if n := atOnce(all); n > demoPerUser {
			wrong = append(wrong, fmt.Errorf("%d jobs of %s ran at once; the quota is %d", n, user, demoPerUser))
		}
	}
	return errors.Join(wrong...)
}

// atOnce gives how many jobs ran at the same time at most.
func atOnce(jobs []client.ComputeJob) int {
	most := 0
	for i := range jobs {
		n := 0
		for k := range jobs {
			if began := jobs[i].Started; !began.IsZero() && !jobs[k].Started.After(began) &&
				jobs[k].Finished.After(began) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
