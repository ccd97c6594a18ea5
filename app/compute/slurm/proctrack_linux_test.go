package slurm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
)

// TestClusterCgroup runs payloads on a real Slurm with proctrack/cgroup, which docs/compute.md advises. Slurm then
// sends TERM to the batch script and to none of its children.
func TestClusterCgroup(t *testing.T) {
	if !*realSlurm {
		t.Log("a real Slurm is used with -slurm only")
		return
	}
	if why := noCgroups(t); why != "" {
		t.Log("proctrack/cgroup cannot work here: " + why)
		return
	}
	c := newCluster(t, 300, byCgroup)
	o := options(filepath.Join(t.TempDir(), "shared dir's"))
	o.Conf = c.conf
	s := open(t, o)
	for _, test := range []struct {
		name string
		run  func(t *testing.T, c *cluster, s *Slurm)
	}{
		{"scancel by itself", realScancel}, {"term", realTerm}, {"kill", realKill},
		{"limits", realLimits}, {"disk", realDisk},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, c, s) })
	}
}

// noCgroups reports why slurmd cannot make control groups here. With version 1 it needs the freezer.
func noCgroups(t *testing.T) string {
	if os.Geteuid() != 0 {
		return "only root makes control groups"
	}
	for _, top := range []string{"/sys/fs/cgroup/freezer", "/sys/fs/cgroup"} {
		if top == "/sys/fs/cgroup" && !exists(top, "cgroup.controllers") {
			continue
		}
		dir, err := os.MkdirTemp(top, "stagepost-test-")
		if err == nil {
			return errText(os.Remove(dir))
		}
		t.Log(err)
	}
	return "there is no directory where a control group can be made"
}

func errText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// realScancel is the control of realTerm: without Stagepost's batch script, a child in the foreground gets no TERM.
func realScancel(t *testing.T, c *cluster, _ *Slurm) {
	dir := t.TempDir()
	batch := filepath.Join(dir, "batch.sh")
	text := "#!/bin/bash\ncd " + quote(dir) + "\n" +
		"bash -c 'trap \"touch signalled; exit 0\" TERM; touch ready; while :; do sleep 0.05; done'\n"
	if err := os.WriteFile(batch, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(c.try("sbatch", "--parsable", "--output=/dev/null", "--mem=10M", batch))
	c.until("it is ready", func() bool { return exists(dir, "ready") })
	c.try("scancel", id)
	c.until("it has ended", func() bool {
		return strings.TrimSpace(c.try("squeue", "-h", "-t", "R,CG", "-o", "%i", "--job="+id)) == ""
	})
	if exists(dir, "signalled") {
		t.Error("Slurm itself sends TERM to a child of the batch script: the other tests prove nothing here")
	}
}

// realTerm cancels payloads that end on TERM in their own way: what they write then, before KILL, is what comes back.
func realTerm(t *testing.T, c *cluster, s *Slurm) {
	for name, test := range map[string]struct{ script, out string }{
		"own":   {"trap 'echo got; exit 3' TERM; touch ready; sleep 600 & wait", "got\n"},
		"child": {"trap : TERM; bash -c 'trap \"echo got; exit 4\" TERM; touch ready; sleep 600 & wait'; echo $?", "got\n4\n"},
		"session": {"trap : TERM; (trap 'echo got; exit 5' TERM; touch ../tmp/a; sleep 600 & wait) & " +
			"until [ -e ../tmp/a ]; do sleep 0.05; done; touch ready; setsid -w sleep 600; wait; wait; echo end", "got\nend\n"},
	} {
		p := script("term_"+name, test.script)
		submit(t, s, p)
		c.until("it is ready", func() bool { return exists(s.o.Dir, string(p.Job)+".1", "work", "ready") })
		begun := time.Now()
		if err := s.Kill(context.Background(), handle(p)); err != nil {
			t.Fatal(err)
		}
		n := ended(t, s, p)
		t.Logf("%s ended %s after its cancel", name, time.Since(begun))
		if n.Ending.Cause != compute.CauseKilled || n.Ending.Signal != "" || !n.HasResult {
			t.Errorf("%s: got %+v, %+v", name, n, n.Ending)
		}
		if got := output(t, s, p, "stdout", false); got != test.out {
			t.Errorf("%s: it wrote %q, want %q: TERM did not arrive before KILL", name, got, test.out)
		}
	}
}

// realPartition has Slurm's own limit of time refuse a payload before sbatch is called.
func realPartition(t *testing.T, c *cluster, s *Slurm) {
	long := script("part_long", "exit 0")
	long.Limits.Wall = 2 * time.Hour
	_, err := s.Submit(context.Background(), long)
	no, ok := errors.AsType[*compute.Refusal](err)
	if !ok || !no.Here || !strings.Contains(no.Reason, "partition main") || !strings.Contains(no.Reason, "allows 60") {
		t.Errorf("got %v, want a refusal that names the partition and its limit", err)
	}
	if exists(s.o.Dir, "part_long.1") ||
		c.try("squeue", "-h", "-t", "all", "-o", "%i", "--name=stagepost-part_long-1") != "" {
		t.Error("it was handed over")
	}
	fits := script("part_fits", "exit 0")
	fits.Limits.Wall = 50 * time.Minute
	submit(t, s, fits)
	if n := ended(t, s, fits); n.Ending.Cause != "" {
		t.Errorf("one that fits: %+v", n.Ending)
	}
	// The control: Slurm takes such a job and never starts it.
	id := strings.TrimSpace(c.try("sbatch", "--parsable", "--time=122", "--output=/dev/null", "--mem=10M",
		"--wrap=true"))
	c.until("the job waits for the limit", func() bool {
		return strings.TrimSpace(c.try("squeue", "-h", "-o", "%T %r", "--job="+id)) == "PENDING PartitionTimeLimit"
	})
	c.try("scancel", id)
}

// realDisk runs payloads that write more than they may, each in its own way, and one that stays below.
func realDisk(t *testing.T, _ *cluster, s *Slurm) {
	tests := map[string]struct{ script, cause string }{
		"many":  {"for i in 1 2 3 4 5 6 7 8; do head -c 100000 /dev/zero > f$i; done; sleep 600", compute.CauseDisk},
		"fast":  {"for i in 1 2 3 4 5 6 7 8; do head -c 100000 /dev/zero > f$i; done; exit 0", compute.CauseDisk},
		"one":   {"exec head -c 1000000 /dev/zero > f", compute.CauseDisk},
		"child": {"head -c 1000000 /dev/zero > f; exit 0", compute.CauseDisk},
		"temp":  {"head -c 300000 /dev/zero > \"$TMPDIR/f\"; head -c 300000 /dev/zero > f; sleep 600", compute.CauseDisk},
		"below": {"head -c 300000 /dev/zero > f; exit 0", ""},
	}
	parcels := map[string]*compute.Parcel{}
	for name, test := range tests {
		p := script("disk_"+name, test.script)
		p.Limits.Disk = 400_000
		submit(t, s, p)
		parcels[name] = p
	}
	for name, test := range tests {
		if n := ended(t, s, parcels[name]); n.Ending.Cause != test.cause {
			t.Errorf("%s: got %+v, want %q", name, n.Ending, test.cause)
		}
	}
}
