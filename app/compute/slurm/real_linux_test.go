package slurm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/internal/ziptest"
)

// TestCluster runs payloads on a real Slurm. It runs with -slurm, which make check gives.
func TestCluster(t *testing.T) {
	if !*realSlurm {
		t.Log("a real Slurm is used with -slurm only")
		return
	}
	c := newCluster(t, 300, byParents)
	o := options(filepath.Join(t.TempDir(), "shared dir's")) // quoting matters everywhere
	o.Conf = c.conf
	s := open(t, o)
	timed := realTimeLimit(t, c, s)
	for _, test := range []struct {
		name string
		run  func(t *testing.T, c *cluster, s *Slurm)
	}{
		{"endings", realEndings}, {"results", realResults}, {"environment", realEnvironment}, {"limits", realLimits},
		{"waiting", realWaiting}, {"kill", realKill},
		{"restart", realRestart}, {"step", realSteps}, {"twice", realTwice}, {"confined", realConfined}, {"refusal",
			realRefusal},
		{"partition", realPartition}, {"disk", realDisk}, {"time limit of Slurm", timed}, {"controller",
			realController},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, c, s) })
	}
}

func realEndings(t *testing.T, _ *cluster, s *Slurm) {
	for i, test := range []struct {
		script, cause, signal string
		exit                  int
	}{
		{"echo hello; exit 0", "", "", 0},
		{"exit 3", compute.CauseExit, "", 3},
		{"exit 137", compute.CauseExit, "", 137},
		{"kill -SEGV $$", compute.CauseSignal, "SIGSEGV", -1},
		{"kill -KILL $$", compute.CauseSignal, "SIGKILL", -1},
		{"sleep 1001 & exit 0", "", "", 0},
		{"trap '' TERM; setsid sleep 1001 & exit 5", compute.CauseExit, "", 5},
	} {
		p := script(fmt.Sprintf("end_%d", i), test.script)
		submit(t, s, p)
		n := ended(t, s, p)
		if n.Ending.Cause != test.cause || n.Ending.Signal != test.signal || n.Ending.Exit != test.exit ||
			n.Place != "localhost" || !n.HasResult {
			t.Errorf("%q: got %+v, %+v", test.script, n, n.Ending)
		}
		if n.Ending.Started.IsZero() || n.Ending.Finished.Before(n.Ending.Started) {
			t.Errorf("%q: from %v to %v", test.script, n.Ending.Started, n.Ending.Finished)
		}
	}
	if out, _ := exec.Command("pgrep", "-f", "^sleep 1001$").Output(); len(out) > 0 {
		t.Errorf("processes are left: %s", out)
	}
}

func realResults(t *testing.T, c *cluster, s *Slurm) {
	p := parcel("res_1", map[string]string{
		"run.sh": "echo out; echo err >&2; mkdir made; echo new > made/new; echo more >> changed; ln -s /etc/passwd leak; mkfifo pipe; until [ -e go ]; do sleep 0.05; done",
		"kept":   "as it was\n", "changed": "x\n",
	})
	submit(t, s, p)
	work := filepath.Join(s.o.Dir, "res_1.1", "work")
	c.until("its pipe is there", func() bool { return exists(work, "pipe") })
	if got := output(t, s, p, "stdout", false); got != "out\n" {
		t.Errorf("standard output while it runs: %q", got)
	}
	want := []string{"stdout=out\n", "stderr=err\n", "changed=x\nmore\n", "made/new=new\n"}
	if got := unzip(t, s.Partial, p); !same(got, want) {
		t.Errorf("partial results: %q", got)
	}
	if _, err := s.Results(context.Background(), handle(p)); !errors.Is(err, compute.ErrNoPayload) {
		t.Errorf("results while it runs: %v", err)
	}
	if err := os.WriteFile(filepath.Join(work, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := output(t, s, p, "stderr", true); got != "err\n" {
		t.Errorf("standard error, followed: %q", got)
	}
	ended(t, s, p)
	got := unzip(t, s.Results, p)
	if i := slices.IndexFunc(got, func(e string) bool {
		return strings.HasPrefix(e, "exit.json=")
	}); i < 0 || !strings.Contains(got[i], `"exit_code": 0`) {
		t.Errorf("no exit.json in %q", got)
	} else if got = slices.Delete(got, i, i+1); !same(got, append(want, "go=")) {
		t.Errorf("results: %q", got)
	}
	h := handle(p)
	h.Secret = "another"
	if _, err := s.Query(context.Background(), h); !errors.Is(err, compute.ErrNoPayload) {
		t.Errorf("another secret: %v", err)
	}
	for range 2 {
		if err := s.Forget(context.Background(), handle(p)); err != nil {
			t.Fatal(err)
		}
	}
	if exists(s.o.Dir, "res_1.1") {
		t.Error("it was forgotten, and its directory is there")
	}
	if n := submit(t, s, p); n.Standing != compute.Lost {
		t.Errorf("a late repetition: %+v", n)
	}
}

func same(got, want []string) bool {
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	return slices.Equal(got, want)
}

func unzip(t *testing.T, from func(context.Context, compute.Handle) (io.ReadCloser, error),
	p *compute.Parcel) (entries []string) {
	t.Helper()
	r, err := from(context.Background(), handle(p))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range ziptest.Files(t, raw) {
		if !strings.HasSuffix(name, "/") { // a directory
			entries = append(entries, name+"="+content)
		}
	}
	slices.Sort(entries)
	return entries
}

func realEnvironment(t *testing.T, _ *cluster, s *Slurm) {
	t.Setenv("STAGEPOST_CANARY", "of the server")
	p := script("env_1", "env -0 | sort -z | tr '\\0' '\\n' | grep -v ^SLURM; pwd; cat; echo $SLURM_JOB_ID")
	odd := "a'b\"c $(touch /tmp/stagepost-slurm-injected) `id`\n#SBATCH --array=1-9\nend\\"
	p.Env = map[string]string{"ODD": odd, "UID": "0", "LC_ALL": "C"}
	submit(t, s, p)
	n := ended(t, s, p)
	got := output(t, s, p, "stdout", false)
	work := filepath.Join(s.o.Dir, "env_1.1", "work")
	for _, want := range []string{"ODD=" + odd + "\n", "HOME=" + work + "\n", "\nLC_ALL=C\n", "JOB_ID=env_1\n",
		"\n" + work + "\n", "\n" + n.Remote + "\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
	if strings.Contains(got, "STAGEPOST_CANARY") || exists("/tmp/stagepost-slurm-injected") {
		t.Errorf("what is the server's is seen, or a value was run: %q", got)
	}
}

func realLimits(t *testing.T, _ *cluster, s *Slurm) {
	wall := script("lim_wall", "trap 'echo signalled' TERM; sleep 1000 & while :; do wait; done")
	wall.Limits.Wall = 5 * time.Second // it has set its trap by then
	loud := script("lim_out", "head -c 100000 /dev/zero; echo unharmed >&2; exit 4")
	loud.Limits.Output = 1000
	cpu := script("lim_cpu", "exec bash -c 'while :; do :; done'")
	cpu.Limits.CPU = time.Second
	disk := script("lim_disk", "for i in 1 2 3 4 5 6 7 8; do head -c 100000 /dev/zero > f$i; done; sleep 1000")
	disk.Limits.Disk = 400_000
	hog := script("lim_mem", `exec awk 'BEGIN { s = "x"; for (;;) { if (length(s) < 200000000) s = s s } }'`)
	hog.Limits.Memory = 30 << 20
	for _, p := range []*compute.Parcel{wall, loud, cpu, disk, hog} {
		submit(t, s, p)
	}
	for p, cause := range map[*compute.Parcel]string{
		wall: compute.CauseTimeout, loud: compute.CauseExit, cpu: compute.CauseCPU, disk: compute.CauseDisk,
		hog: compute.CauseMemory,
	} {
		if n := ended(t, s, p); n.Ending.Cause != cause {
			t.Errorf("%s: got %+v", p.Job, n.Ending)
		}
	}
	n := ended(t, s, loud)
	if got := output(t, s, loud, "stdout", false); len(got) != 1000 || !n.Ending.LogCut || n.Ending.Exit != 4 {
		t.Errorf("%d bytes of output are kept: %+v", len(got), n.Ending)
	}
	if got := output(t, s, loud, "stderr", false); got != "unharmed\n" {
		t.Errorf("standard error: %q", got)
	}
	if got := output(t, s, wall, "stdout", false); !strings.HasPrefix(got, "signalled\n") {
		t.Errorf("TERM did not come before KILL: %q", got)
	}
}

func realWaiting(t *testing.T, c *cluster, s *Slurm) {
	big := script("wait_big", "exit 0")
	big.Limits.Cores = 4
	holder := script("wait_holder", "until [ -e go ]; do sleep 0.05; done")
	holder.Limits.Cores = 3
	submit(t, s, holder)
	working(t, s, holder)
	submit(t, s, big)
	follow(t, s, handle(big), "waiting for resources", func(n compute.Notice) bool {
		return n.Standing == compute.Waits && strings.Contains(n.Reason, "(Slurm: Resources)")
	})
	n, err := s.Query(context.Background(), handle(big))
	if err != nil {
		t.Fatal(err)
	}
	c.try("scontrol", "hold", n.Remote)
	n = follow(t, s, handle(big), "held", func(n compute.Notice) bool { return strings.Contains(n.Reason, "JobHeld") })
	if n.Standing != compute.Waits || !strings.Contains(n.Reason, "holds it") {
		t.Errorf("held: %+v", n)
	}
	room, err := s.Capacity(context.Background())
	if err != nil || room.Slots != 4 || room.Free != 0 || room.Waiting != 1 || room.Load < 75 || room.Draining ||
		!strings.Contains(room.Detail, "1 JobHeld") {
		t.Errorf("capacity: %+v, %v", room, err)
	}
	c.try("scontrol", "suspend", mustLook(t, s, holder).Remote)
	n = follow(t, s, handle(holder), "suspended", func(n compute.Notice) bool {
		return strings.Contains(n.Reason, "suspended")
	})
	if n.Standing != compute.Works {
		t.Errorf("suspended: %+v", n)
	}
	c.try("scontrol", "resume", n.Remote)
	c.try("scontrol", "release", mustLook(t, s, big).Remote)
	if err := os.WriteFile(filepath.Join(s.o.Dir, "wait_holder.1", "work", "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*compute.Parcel{holder, big} {
		if n := ended(t, s, p); n.Ending.Cause != "" {
			t.Errorf("%s: %+v", p.Job, n.Ending)
		}
	}
}

func realKill(t *testing.T, c *cluster, s *Slurm) {
	polite := script("kill_polite", "trap 'echo bye; exit 0' TERM; touch ready; while :; do sleep 0.05; done")
	stubborn := script("kill_stubborn", "trap '' TERM; touch ready; while :; do sleep 0.05; done")
	pending := script("kill_pending", "exit 0")
	pending.Limits.Cores = 4
	for _, p := range []*compute.Parcel{polite, stubborn, pending} {
		submit(t, s, p)
	}
	for _, p := range []*compute.Parcel{polite, stubborn} {
		c.until("it is ready", func() bool { return exists(s.o.Dir, string(p.Job)+".1", "work", "ready") })
	}
	for _, p := range []*compute.Parcel{pending, polite, stubborn} {
		if err := s.Kill(context.Background(), handle(p)); err != nil {
			t.Fatal(err)
		}
		if n := ended(t, s, p); n.Ending.Cause != compute.CauseKilled || n.HasResult != (p != pending) {
			t.Errorf("%s: %+v, %+v", p.Job, n, n.Ending)
		}
	}
	if got := output(t, s, polite, "stdout", true); !strings.Contains(got, "bye\n") {
		t.Errorf("TERM did not arrive: %q", got)
	}
	byHand := script("kill_hand", "sleep 1000")
	submit(t, s, byHand)
	c.try("scancel", working(t, s, byHand).Remote)
	if n := ended(t, s, byHand); n.Ending.Cause != compute.CauseKilled {
		t.Errorf("cancelled manually: %+v", n.Ending)
	}
}

func realRestart(t *testing.T, _ *cluster, s *Slurm) {
	p := script("again_1", "until [ -e go ]; do sleep 0.05; done; exit 7")
	submit(t, s, p)
	first := working(t, s, p)
	other := open(t, s.o)
	n := submit(t, other, p)
	if n.Standing != compute.Works || n.Remote != first.Remote || n.Instance != first.Instance {
		t.Errorf("after a restart: %+v, want %+v", n, first)
	}
	if err := os.WriteFile(filepath.Join(s.o.Dir, "again_1.1", "work", "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if n := ended(t, other, p); n.Ending.Exit != 7 || n.Remote != first.Remote {
		t.Errorf("after a restart: %+v", n)
	}
}

// steps are the points at which a server may be killed in Submit.
var steps = []string{"staged", "recorded", "asked", "sent", "received"}

const dieVariable = "STAGEPOST_SLURM_TEST_DIES_AT"

// TestDies is the process that is killed; it does nothing unless it is started as that.
func TestDies(t *testing.T) {
	step, ok := os.LookupEnv(dieVariable)
	if !ok {
		return
	}
	o := options(os.Getenv("STAGEPOST_SLURM_TEST_DIR"))
	o.Bin, o.Conf = os.Getenv("STAGEPOST_SLURM_TEST_BIN"), os.Getenv("STAGEPOST_SLURM_TEST_CONF")
	s := open(t, o)
	s.step = func(name string) {
		if name == step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	_, err := s.Submit(context.Background(), counting(step, os.Getenv("STAGEPOST_SLURM_TEST_COUNT")))
	t.Fatal("it was to be killed", err)
}

// counting is a payload that writes down that it runs.
func counting(name, file string) *compute.Parcel {
	return script("count_"+name, "echo ran >> "+quote(file)+"; exit 9")
}

// die runs Submit in a process that is killed at a step.
func die(t *testing.T, o Options, step, count string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestDies$")
	cmd.Env = append(os.Environ(), dieVariable+"="+step, "STAGEPOST_SLURM_TEST_DIR="+o.Dir,
		"STAGEPOST_SLURM_TEST_BIN="+o.Bin, "STAGEPOST_SLURM_TEST_CONF="+o.Conf,
		"STAGEPOST_SLURM_TEST_COUNT="+count)
	out, err := cmd.CombinedOutput()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("%s: it was not killed: %v\n%s", step, err, out)
	}
}

func realSteps(t *testing.T, c *cluster, s *Slurm) {
	for _, step := range steps {
		count := filepath.Join(t.TempDir(), "count")
		die(t, s.o, step, count)
		p := counting(step, count)
		n, err := s.Query(context.Background(), handle(p))
		if was := n.Standing == compute.Stranger; err != nil ||
			was != (step == "staged" || step == "recorded" || step == "asked") {
			t.Errorf("killed at %s: %+v, %v", step, n, err)
		}
		submit(t, s, p)
		submit(t, s, p)
		if n := ended(t, s, p); n.Ending.Exit != 9 {
			t.Errorf("killed at %s: %+v", step, n.Ending)
		}
		if got := counted(t, count); got != 1 {
			t.Errorf("killed at %s: it ran %d times", step, got)
		}
		if jobs := strings.Fields(c.try("squeue", "-h", "-t", "all", "-o", "%i",
			"--name=stagepost-count_"+step+"-1")); len(jobs) != 1 {
			t.Errorf("killed at %s: Slurm had %d jobs of it", step, len(jobs))
		}
	}
}

// realTwice passes the same batch file to Slurm beside the executor: it must not run a second time, whatever happened.
func realTwice(t *testing.T, c *cluster, s *Slurm) {
	count := filepath.Join(t.TempDir(), "count")
	p := counting("twice", count)
	submit(t, s, p)
	first := ended(t, s, p)
	dir := filepath.Join(s.o.Dir, "count_twice.1")
	second := strings.TrimSpace(c.try("sbatch", "--parsable", "--job-name=stagepost-count_twice-1",
		"--output=/dev/null", "--mem=10M", filepath.Join(dir, "batch.sh")))
	c.until("the second has ended", func() bool {
		return strings.Contains(c.try("scontrol", "-o", "show", "job", second), "ExitCode=126:0")
	})
	if got := counted(t, count); got != 1 {
		t.Errorf("it ran %d times", got)
	}
	if n := mustLook(t, s, p); n.Ending.Exit != first.Ending.Exit || n.Remote != first.Remote {
		t.Errorf("after the second: %+v", n)
	}
	// The control: without the claim of the first, the second runs.
	if err := os.RemoveAll(filepath.Join(dir, "claim")); err != nil {
		t.Fatal(err)
	}
	c.try("sbatch", "--parsable", "--output=/dev/null", "--mem=10M", filepath.Join(dir, "batch.sh"))
	c.until("it has run again", func() bool { return counted(t, count) == 2 })
}

// realTimeLimit has Slurm itself end a payload for its time: an administrator moves the limit, which Slurm counts in
// minutes and checks each half minute, into the past.
func realTimeLimit(t *testing.T, c *cluster, s *Slurm) func(*testing.T, *cluster, *Slurm) {
	p := script("time_1", "touch ready; sleep 1000")
	submit(t, s, p)
	c.until("it is ready", func() bool { return exists(s.o.Dir, "time_1.1", "work", "ready") })
	c.try("scontrol", "update", "jobid="+mustLook(t, s, p).Remote, "EndTime=now")
	return func(t *testing.T, _ *cluster, s *Slurm) {
		if n := ended(t, s, p); n.Ending.Cause != compute.CauseTimeout {
			t.Errorf("got %+v", n.Ending)
		}
	}
}

func realConfined(t *testing.T, _ *cluster, s *Slurm) {
	o := s.o
	o.Dir, o.Bwrap = filepath.Join(t.TempDir(), "confined"), "/usr/bin/bwrap"
	confined := open(t, o)
	p := script("box_1", "ls /; ls "+quote(o.Dir)+"; cat /etc/shadow; echo hello > made; kill -KILL $$")
	submit(t, confined, p)
	n := ended(t, confined, p)
	if n.Ending.Signal != "SIGKILL" || n.Ending.Sandbox != "bubblewrap" {
		t.Errorf("got %+v", n.Ending)
	}
	got := output(t, confined, p, "stdout", false) + output(t, confined, p, "stderr", false)
	if strings.Contains(got, "root:") || strings.Contains(got, "ticket.json") ||
		!strings.Contains(got, "No such file") || !exists(o.Dir, "box_1.1", "work", "made") {
		t.Errorf("it sees %q", got)
	}
}

func realRefusal(t *testing.T, _ *cluster, s *Slurm) {
	o := s.o
	o.Partition = "nowhere"
	other := open(t, o)
	p := script("refused_1", "exit 0")
	_, err := other.Submit(context.Background(), p)
	var no *compute.Refusal
	if !errors.As(err, &no) || !no.Here || !strings.Contains(no.Reason, "artition") {
		t.Errorf("got %v", err)
	}
	if exists(o.Dir, "refused_1.1") {
		t.Error("its directory is there")
	}
	if _, err := other.Capacity(context.Background()); err == nil {
		t.Error("a partition that does not exist has capacity")
	}
	big := script("refused_2", "exit 0")
	big.Limits.Memory = 1 << 50
	if _, err := s.Submit(context.Background(), big); !errors.As(err, &no) || !no.Here {
		t.Errorf("a petabyte: %v", err)
	}
}

// realController takes slurmctld away: no answer is no answer, and what was handed over goes on.
func realController(t *testing.T, c *cluster, s *Slurm) {
	p := script("ctl_1", "until [ -e go ]; do sleep 0.05; done")
	submit(t, s, p)
	working(t, s, p)
	stop(c.ctld)
	o := s.o
	o.Timeout = 500 * time.Millisecond
	hasty := open(t, o)
	if n, err := hasty.Query(context.Background(), handle(p)); err == nil {
		t.Errorf("without slurmctld: %+v", n)
	}
	late := script("ctl_2", "exit 6")
	if _, err := hasty.Submit(context.Background(), late); err == nil {
		t.Error("it was handed over without slurmctld")
	}
	c.startController()
	c.until("slurmctld answers", func() bool {
		return strings.TrimSpace(c.try("squeue", "-h", "-t", "R", "-o", "%T")) == "RUNNING"
	})
	if err := os.WriteFile(filepath.Join(s.o.Dir, "ctl_1.1", "work", "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if n := ended(t, s, p); n.Ending.Cause != "" {
		t.Errorf("after a restart of slurmctld: %+v", n.Ending)
	}
	submit(t, s, late)
	if n := ended(t, s, late); n.Ending.Exit != 6 {
		t.Errorf("after a restart of slurmctld: %+v", n.Ending)
	}
}
