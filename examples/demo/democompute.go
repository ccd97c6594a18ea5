package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	computecli "github.com/stagepost/stagepost/app/compute/cli"
	computeserve "github.com/stagepost/stagepost/app/compute/serve"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/host"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/quantity"
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
	cancel             bool         // it is called off when it runs
	State              lifecycle.State
	cause              string
}

// demoJobs are the jobs in the order in which they are handed in. The greedy one comes to hold 160 MB, and keeps them until it
// is ended: where there are no control groups a watch has to see it.
func demoJobs() []DemoJob {
	var all []DemoJob
	for n := range 4 {
		script := fmt.Sprintf("#!/bin/bash\nseq 1 %d0000 | awk '{ s += $1 } END { print s }' > sum.txt\nsleep 0.3\n", n+1)
		all = append(all, DemoJob{User: "ann", Name: fmt.Sprintf("sum-%d", n+1), script: script, State: compute.Completed})
	}
	return append(all,
		DemoJob{User: "ben", Name: "exits", script: "#!/bin/bash\necho 'no such sample: 17' >&2\nexit 3\n", State: compute.Failed, cause: compute.CauseExit},
		DemoJob{User: "ben", Name: "greedy", script: "#!/bin/bash\nx=0123456789\nfor n in {1..24}; do x=$x$x; done\nsleep 20\n",
			memory: demoMemory, State: compute.Failed, cause: compute.CauseMemory},
		DemoJob{User: "cleo", Name: "endless", script: "#!/bin/bash\necho began\nwhile :; do sleep 1; done\n", cancel: true, State: compute.Killed, cause: compute.CauseKilled},
		DemoJob{User: "cleo", Name: "report", script: "#!/bin/bash\ndate -u > report.txt\n", State: compute.Completed},
	)
}

// computes tells whether jobs can be run here at all.
func (d *demo) computes() bool { return runtime.GOOS == "linux" }

// settle makes the settings of the demo's server: the service of its users, which the server runs itself.
func (d *demo) settle() (*host.Settings, error) {
	s := d.host
	s.Data, s.Listen, s.Store, s.LogLevel, s.Tokens = d.dir, "127.0.0.1:0", "sqlite", "error", ""
	d.settings.Listen, d.settings.Services, d.settings.Local = "", "", 0
	if !d.computes() {
		return s, nil
	}
	d.settings.Services, d.settings.Local = filepath.Join(d.dir, demoServices), demoSlots
	if s.IsDefault("compute.sandbox") {
		d.settings.Sandbox = sandbox.Auto
	}
	text := fmt.Sprintf("services:\n  %s:\n    runs_per_user: %d\n    max_runs: %d\n    limits: {wall: 1m, memory: 512MiB}\n    max: {wall: 1m, memory: 512MiB}\n", DemoService, demoPerUser, demoSlots)
	return s, os.WriteFile(d.settings.Services, []byte(text), 0o600)
}

// confined tells what confines the jobs. Only with walls a server that goes on with the demo's directory runs jobs, too: it is there for longer than the demo.
func (d *demo) confined(r *host.Server, s *host.Settings) error {
	c, ok := r.App("compute").(*computeserve.App)
	if !ok {
		return nil
	}
	tier := c.Tier()
	if tier == sandbox.None {
		d.Out.Line("Nothing confines users' jobs on this machine (stagepost agent doctor tells why): the demo's run with all that you may do.")
		return nil
	}
	d.Out.Line("Users' jobs run in a sandbox of the tier %s.", tier)
	text := fmt.Sprintf("compute:\n  local: %d\n  sandbox: require\n  services: %q\n", d.settings.Local, d.settings.Services)
	return os.WriteFile(filepath.Join(d.dir, "stagepost.yaml"), []byte(text), 0o600)
}

// compute has three users hand in jobs, calls one off, and shows how all ended.
func (d *demo) compute(ctx context.Context) error {
	d.Out.Line("")
	if !d.computes() {
		d.Out.Line("Users' jobs need Linux; that part of the demo is left out.")
		return nil
	}
	d.Out.Line("Three users hand in jobs for the service %s, which runs %d at once for each of them:", DemoService, demoPerUser)
	jobs := demoJobs()
	ids := make([]job.ID, len(jobs))
	for i := range jobs {
		var err error
		if ids[i], err = d.handIn(ctx, &jobs[i]); err != nil {
			return err
		}
	}
	for i := range jobs {
		if jobs[i].cancel {
			if err := d.callOff(ctx, ids[i]); err != nil {
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

// handIn hands in one job.
func (d *demo) handIn(ctx context.Context, j *DemoJob) (job.ID, error) {
	limit := ""
	if j.memory > 0 {
		limit = fmt.Sprintf(" --limit memory=%s", quantity.FormatBytes(int64(j.memory)))
	}
	d.Out.Line("$ stagepost run %s/run.sh --service %s --owner %s%s --detach", j.Name, DemoService, j.User, limit)
	answer, err := d.api.SubmitCompute(ctx, client.ComputeOrder{
		Service: DemoService, Name: j.Name, Owner: j.User, Actor: j.User, Limits: client.ComputeLimits{Memory: j.memory}, Key: "demo-" + j.Name,
		Files: []client.ComputeInline{{Name: computecli.ScriptName, Text: j.script}},
	}, nil, nil)
	return answer.ID, err
}

// errRuns says that a job runs.
var errRuns = errors.New("it runs")

// callOff cancels a job when it runs.
func (d *demo) callOff(ctx context.Context, id job.ID) error {
	err := d.api.Watch(ctx, id, 0, func(u client.Update) error {
		if u.Job != nil && u.Job.State == compute.Running {
			return errRuns
		}
		return nil
	})
	if !errors.Is(err, errRuns) {
		return errors.Join(errors.New("the job that was to be cancelled has never run"), err)
	}
	d.Out.Line("$ stagepost cancel %s", id)
	_, err = d.api.CancelCompute(ctx, id, client.Act{Actor: "cleo", Note: "it takes too long"})
	return err
}

// summary shows how the jobs ended.
func (d *demo) summary(jobs []client.ComputeJob) error {
	rows := make([][]string, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		rows[i] = []string{j.Owner, j.Name, string(j.State), j.Cause, computecli.ExitText(j), computecli.RuntimeOf(j, time.Now()), j.Message}
	}
	d.Out.Line("")
	return d.Out.Table([]string{"USER", "JOB", "STATE", "CAUSE", "EXIT", "RAN", "WHY"}, rows)
}

// AsExpected compares how the jobs ended with the story, and looks whether a user ever had more running than the quota allows.
func AsExpected(jobs []DemoJob, ended []client.ComputeJob) error {
	var wrong []error
	byUser := map[string][]client.ComputeJob{}
	for i := range jobs {
		want, got := &jobs[i], &ended[i]
		if got.State != want.State || got.Cause != want.cause {
			wrong = append(wrong, fmt.Errorf("%s of %s ended as %s (%s); %s (%s) was to be expected", want.Name, want.User, got.State, got.Cause, want.State, want.cause))
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
			if began := jobs[i].Started; !began.IsZero() && !jobs[k].Started.After(began) && jobs[k].Finished.After(began) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
