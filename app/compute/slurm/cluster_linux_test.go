package slurm

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

var realSlurm = flag.Bool("slurm", false, "TestCluster starts a Slurm on this machine (Debian: apt-get install slurmctld slurmd slurm-client)")

// conf is a cluster of one machine. It needs no cgroups, no accounting and no key: its ports are on loopback, and it
// lives for one test.
const conf = `ClusterName=stagepost
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=%d
SlurmdPort=%d
AuthType=auth/none
CredType=cred/none
SlurmUser=%s
SlurmdUser=%s
StateSaveLocation=%s/state
SlurmdSpoolDir=%s/spool
SlurmctldPidFile=%s/slurmctld.pid
SlurmdPidFile=%s/slurmd.pid
SlurmctldLogFile=%s/slurmctld.log
SlurmdLogFile=%s/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=%s
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=sched_min_interval=10000,bf_interval=1
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
KillWait=2
MinJobAge=%d
ReturnToService=2
NodeName=localhost NodeAddr=127.0.0.1 CPUs=4 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=localhost Default=YES MaxTime=60 DefMemPerCPU=50 OverSubscribe=NO State=UP
`

// cgroupConf is for proctrack/cgroup alone.
const cgroupConf = `CgroupPlugin=autodetect
IgnoreSystemd=yes
`

// cluster is a Slurm that runs.
type cluster struct {
	t    *testing.T
	dir  string
	conf string
	ctld *exec.Cmd
	port [2]int
}

// How Slurm finds a job's processes.
const (
	byParents = "proctrack/linuxproc"
	byCgroup  = "proctrack/cgroup"
)

// newCluster starts slurmctld and slurmd; they end with the test, and with its process.
func newCluster(t *testing.T, minJobAge int, proctrack string) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir()}
	c.conf = filepath.Join(c.dir, "slurm.conf")
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.port {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		c.port[i] = l.Addr().(*net.TCPAddr).Port
		l.Close()
	}
	d := c.dir
	text := fmt.Sprintf(conf, c.port[0], c.port[1], u.Username, u.Username, d, d, d, d, d, d, proctrack, minJobAge)
	if err := os.WriteFile(c.conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d, "cgroup.conf"), []byte(cgroupConf), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"state", "spool"} {
		if err := os.Mkdir(filepath.Join(d, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c.startController()
	t.Cleanup(func() { stop(c.ctld) })
	t.Cleanup(func() { _ = os.Remove("/sys/fs/cgroup/freezer/slurm_localhost") }) // it stays behind, empty
	node := c.start("slurmd", "-D", "-N", "localhost", "-f", c.conf)
	t.Cleanup(func() { stop(node) })
	c.until("the node is idle", func() bool { return strings.TrimSpace(c.try("sinfo", "-h", "-o", "%t")) == "idle" })
	t.Cleanup(c.empty) // before the daemons end
	return c
}

func (c *cluster) startController() { c.ctld = c.start("slurmctld", "-D", "-f", c.conf) }

func (c *cluster) start(name string, args ...string) *exec.Cmd {
	c.t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path = "/usr/sbin/" + name
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "SLURM_CONF="+c.conf)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		c.t.Fatalf("%v (Debian: apt-get install --no-install-recommends slurmctld slurmd slurm-client)", err)
	}
	return cmd
}

func stop(cmd *exec.Cmd) {
	if cmd.ProcessState != nil {
		return
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	late.Stop()
}

// empty ends all jobs and waits until their processes are gone.
func (c *cluster) empty() {
	c.try("scancel", "--user="+fmt.Sprint(os.Getuid()))
	c.try("scancel", "--full", "--signal=KILL", "--user="+fmt.Sprint(os.Getuid()))
	c.until("no jobs are left", func() bool { return strings.TrimSpace(c.try("squeue", "-h", "-o", "%i")) == "" })
}

// try gives what a command prints, whether it fails or not.
func (c *cluster) try(name string, args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "SLURM_CONF="+c.conf, "LC_ALL=C")
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// until waits for the cluster, which sends no notifications.
func (c *cluster) until(what string, ok func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(enough)
	for tick := time.NewTicker(50 * time.Millisecond); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(c.dir, "slurmctld.log"))
			node, _ := os.ReadFile(filepath.Join(c.dir, "slurmd.log"))
			c.t.Fatalf("not within %s: %s\n%s\n%s", enough, what, log, node)
		}
	}
}
