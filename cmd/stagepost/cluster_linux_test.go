package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/internal/pgtest"
	"github.com/stagepost/stagepost/job"
)

var (
	clusterJobs  = flag.Int("cluster.jobs", 12, "jobs of each of the four kinds in TestCluster")
	clusterTurns = flag.Int("cluster.disturbances", 8, "how often TestCluster disturbs a server or a worker, at least")
	clusterTime  = flag.Duration("cluster.time", 0, "how long TestCluster disturbs servers and workers, at least")
	clusterSeed  = flag.Uint64("cluster.seed", 1, "of the disturbances of TestCluster")
)

// clusterLease is the lease of the servers: short, so that claims of a stopped one expire.
const clusterLease = 2 * time.Second

// member is one of the servers of a store, which reaches the database through a proxy of its own.
type member struct {
	*victim
	proxy *pgtest.Proxy
	front *relay // its present address, for workers
	data  string
}

// cluster is several servers on one database, and workers.
type cluster struct {
	t        *testing.T
	of       *pgtest.Server
	database string
	shared   string
	lives    string // lifecycle files
	servers  []*member
	workers  []*exec.Cmd
	links    []*relay // of each worker, to the front of its server
	chance   *rand.Rand
}

// clusterRole is the user of the database that the servers have. It is no superuser.
const clusterRole = "jobs"

// databaseURL is the URL of a database that a connection string names.
func databaseURL(connection string) string {
	u, q := url.URL{Scheme: "postgres", User: url.User(clusterRole)}, url.Values{}
	for _, field := range strings.Fields(connection) {
		switch key, value, _ := strings.Cut(field, "="); key {
		case "host":
			q.Set("host", value)
		case "dbname":
			u.Path = "/" + value
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}

func newCluster(t *testing.T, servers, workers int) *cluster {
	t.Helper()
	of, err := pgtest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := of.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, statement := range []string{"CREATE ROLE " + clusterRole + " LOGIN",
		"CREATE DATABASE cluster OWNER " + clusterRole} {
		if err := of.Exec("postgres", statement); err != nil {
			t.Fatal(err)
		}
	}
	c := &cluster{t: t, of: of, database: of.URL("cluster"), shared: t.TempDir(), lives: t.TempDir(),
		chance: rand.New(rand.NewPCG(*clusterSeed, 0))}
	count, err := os.ReadFile("../../examples/worker/count.yaml")
	patient := strings.Replace(tally, "timeout: 1m", "timeout: 1m\n    attempts: 20", 1)
	if err = errors.Join(err, os.WriteFile(filepath.Join(c.lives, "count.yaml"), count, 0o600),
		os.WriteFile(filepath.Join(c.lives, "tally.yaml"), []byte(patient), 0o600)); err != nil {
		t.Fatal(err)
	}
	for range servers {
		c.servers = append(c.servers, &member{proxy: of.Proxy(t), front: newRelay(t), data: t.TempDir()})
	}
	for _, m := range c.servers {
		c.begin(m)
	}
	for i := range workers {
		link := newRelay(t)
		link.to.Store(c.servers[i%servers].front.Addr().String())
		c.links = append(c.links, link)
		c.workers = append(c.workers, c.worker(i))
	}
	t.Cleanup(func() {
		for _, w := range c.workers {
			killWorker(w)
		}
		for _, m := range c.servers {
			_ = m.Process.Kill()
			_ = m.Wait()
		}
	})
	return c
}

// begin starts a server, again or for the first time.
func (c *cluster) begin(m *member) {
	c.t.Helper()
	m.victim = raise(c.t, m.data, "--store", databaseURL(m.proxy.Through(c.database)), "--shared", c.shared,
		"--lease", clusterLease.String(), "--lifecycle-dir", c.lives, "--lifecycle-remote", "--log-level", "error")
	m.front.to.Store(strings.TrimPrefix(m.url, "http://"))
}

// worker starts worker i: stagepost work, or one of the examples.
func (c *cluster) worker(i int) *exec.Cmd {
	c.t.Helper()
	address := c.links[i].Addr().String()
	if i%3 == 0 {
		return startWork(c.t, i, "http://"+address)
	}
	return startWorker(c.t, i, address)
}

// disturb kills a server or a worker, stops a server beyond its lease, cuts or delays its connections to the database,
// or delays what a worker and its server send.
func (c *cluster) disturb() string {
	m := c.servers[c.chance.IntN(len(c.servers))]
	i := c.chance.IntN(len(c.workers))
	switch c.chance.IntN(7) {
	case 0:
		m.kill(c.t)
		c.begin(m)
		return "kill a server"
	case 1:
		m.signal(c.t, syscall.SIGSTOP)
		<-time.After(2 * clusterLease) // that its claims expire is the experiment
		m.signal(c.t, syscall.SIGCONT)
		return "stop a server beyond its lease"
	case 2:
		m.proxy.Arm(1 + c.chance.IntN(20))
		return "cut a connection to the database"
	case 3:
		heal := m.proxy.Partition()
		<-time.After(2 * clusterLease) // as above
		heal()
		return "partition a server from the database"
	case 4:
		c.apart(i, toServer, fromServer)
		return "partition a worker from its server"
	case 5:
		c.apart(i, fromServer)
		return "lose the answers to a worker"
	}
	killWorker(c.workers[i])
	c.workers[i] = c.worker(i)
	return "kill a worker"
}

// apart partitions a worker from its server for longer than its claims last.
func (c *cluster) apart(worker int, directions ...direction) {
	heal := c.links[worker].partition(directions...)
	<-time.After(3 * clusterLease) // that claims expire is the experiment
	heal()
}

// TestCluster has three servers and six workers on one database, two of which are stagepost work. Depositors submit
// batches at any server, and jobs for the workers are ordered, while servers and workers are killed, stopped beyond
// their lease, partitioned from the database and from each other, and lose connections at random. Nothing acknowledged
// is lost, nothing is done twice, every batch is reported once, and records, histories and stored files are sound.
func TestCluster(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"python3", "curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	c := newCluster(t, 3, 6)
	limit := 30*time.Minute + *clusterTime + time.Duration(*clusterJobs)*time.Second/2
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	api, err := client.New("http://"+c.servers[0].front.Addr().String(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	d := &depositors{acked: map[string]job.ID{}}
	permits, stop := c.deposit(ctx, d)
	o := order(client.Persistent(ctx), t, api, permits)
	turns, begun := map[string]int{}, time.Now()
	for n := 0; n < *clusterTurns || time.Since(begun) < *clusterTime; n++ {
		share := float64(n+1) / float64(*clusterTurns)
		if *clusterTime > 0 {
			share = time.Since(begun).Seconds() / clusterTime.Seconds()
		}
		o.upTo(share) // these jobs are under way during the disturbance
		turns[c.disturb()]++
	}
	disturbed := time.Since(begun)
	texts, tallies := o.rest()
	waitAcked(ctx, t, d, *clusterJobs, permits)
	stop()
	waitEnded(ctx, t, api, len(texts))
	for i, id := range texts {
		checkText(ctx, t, api, id, i)
	}
	poisoned := finish(t, api, d)
	for _, id := range tallies {
		if c.poisoned(ctx, api, id) { // its workers were disturbed five times in turn, which is reported
			poisoned++
			continue
		}
		endedTally(ctx, t, api, id)
	}
	for key, id := range d.acked {
		reported(ctx, t, api, key, id)
	}
	for _, command := range []string{"verify", "fsck"} {
		out, err := exec.Command(c.servers[1].Path, "admin", command, "--server", c.servers[1].url).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
	t.Logf("seed %d: %v in %v; %d texts, %d tallies, %d batches acknowledged; %d jobs failed as poison; %v in all",
		*clusterSeed, turns, disturbed.Round(time.Second), len(texts), len(tallies), len(d.acked), poisoned,
		time.Since(begun).Round(time.Second))
}

// poisoned waits for the end of a job, and reports whether it failed because its workers were lost.
func (c *cluster) poisoned(ctx context.Context, api *client.Client, id job.ID) bool {
	c.t.Helper()
	if err := api.Watch(client.Persistent(ctx), id, 0, func(client.Update) error { return nil }); err != nil {
		c.t.Fatal(err)
	}
	j, err := api.Job(ctx, id)
	if err != nil {
		c.t.Fatal(err)
	}
	return j.Cause == "poison"
}

// orders are the jobs for the workers, which are ordered one after the other while servers are disturbed.
type orders struct {
	t              *testing.T
	due            chan int
	done           chan struct{}
	texts, tallies []job.ID // until done is closed, of its goroutine
}

// order begins to order jobs, and permits as many batches.
func order(ctx context.Context, t *testing.T, api *client.Client, permits chan<- struct{}) *orders {
	o := &orders{t: t, due: make(chan int, 1), done: make(chan struct{})}
	go func() {
		defer close(o.done)
		for due := range o.due {
			for i := len(o.texts); i < due; i++ {
				if i%2 == 0 {
					permits <- struct{}{} // for two batches
				}
				o.texts = append(o.texts, orderText(ctx, t, api, i))
				o.tallies = append(o.tallies, orderTally(ctx, t, api, i))
			}
		}
	}()
	return o
}

// upTo lets a share of the jobs be ordered, unless the share before is not ordered yet.
func (o *orders) upTo(share float64) {
	select {
	case o.due <- min(*clusterJobs, 1+int(share*float64(*clusterJobs))):
	default:
	}
}

// rest waits until all jobs are ordered.
func (o *orders) rest() (texts, tallies []job.ID) {
	o.t.Helper()
	select {
	case o.due <- *clusterJobs:
		close(o.due)
	case <-o.done: // it has failed
	}
	<-o.done
	if len(o.texts) != *clusterJobs {
		o.t.FailNow()
	}
	return o.texts, o.tallies
}

// deposit submits a batch or two at some server for each permit, until the returned function is called.
func (c *cluster) deposit(ctx context.Context, d *depositors) (permits chan<- struct{}, stop func()) {
	given := make(chan struct{}, 1+*clusterJobs)
	working, cancel := context.WithCancel(ctx)
	var busy sync.WaitGroup
	for _, m := range c.servers {
		busy.Go(func() {
			for {
				select {
				case <-working.Done():
					return
				case <-given:
					d.work(working, c.t, "http://"+m.front.Addr().String())
				}
			}
		})
	}
	return given, func() {
		cancel()
		busy.Wait()
	}
}

// count is how many submissions were acknowledged.
func (d *depositors) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.acked)
}

// waitAcked waits until so many submissions were acknowledged. It gives permits for those that are submitted again.
func waitAcked(ctx context.Context, t *testing.T, d *depositors, n int, permits chan<- struct{}) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for d.count() < n {
		select {
		case <-tick.C:
			if len(permits) == 0 {
				permits <- struct{}{}
			}
		case <-ctx.Done():
			t.Fatalf("%d of %d submissions were acknowledged: %v", d.count(), n, ctx.Err())
		}
	}
}

// reported requires that a batch which is complete has one report in its history.
func reported(ctx context.Context, t *testing.T, api *client.Client, key string, id job.ID) {
	t.Helper()
	history, err := api.History(ctx, id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for _, h := range history {
		times[fmt.Sprintf("%s to %s", h.From, h.To)]++
	}
	if times["Reporting to Completed"] != 1 {
		t.Errorf("%s (%s) was reported %d times: %v", id, key, times["Reporting to Completed"], times)
	}
}
