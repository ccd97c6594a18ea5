//go:build linux

package trials

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire/wiretest"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/lifecycle"
)

// stand is a state in which a job is to be when a process is killed, and the harm to one call that keeps it there.
type stand struct {
	state lifecycle.State
	name  string // where two are of one state
	call  string
	harm  harm
	pass  int             // calls that are left alone before
	also  [2]string       // another call that is harmed first: its name and harm, once
	lift  bool            // the script may go on before the kill
	after lifecycle.State // of the agent's death; of the server's death it is Completed, unless it is set here
	cause string
}

// stands are the states, in the order of a job's life. The network keeps a job in those that are too short to be met.
var stands = []stand{
	{state: compute.Queued, call: "room", harm: reset, after: compute.Completed},
	{state: compute.Processing, call: "submit", harm: requestHangs, after: compute.Completed},
	{state: compute.Processing, name: "arrived", call: "submit", harm: answerHangs, after: compute.Failed,
		cause: compute.CauseAgent},
	{state: compute.Submitted, call: "look", harm: requestHangs, pass: 1, also: [2]string{"submit", string(answerLost)},
		after: compute.Failed, cause: compute.CauseAgent},
	{state: compute.Prepared, call: "look", harm: requestHangs, after: compute.Failed, cause: compute.CauseAgent},
	{state: compute.Running, after: compute.Failed, cause: compute.CauseAgent},
	{state: compute.Retrieving, call: "results", harm: answerHangs, lift: true, after: compute.Completed},
	{state: compute.Killing, call: "kill", harm: requestHangs, after: compute.Failed, cause: compute.CauseAgent},
	{state: compute.Completed, name: "not forgotten", call: "forget", harm: requestHangs, lift: true,
		after: compute.Completed},
}

// scarce is the memory that the agent has where a job waits for some.
const scarce = 1 << 30

// marks numbers the marks of the jobs' processes.
var marks atomic.Int64

// TestKills kills the real server and the real agent by SIGKILL in each state, starts them again on what they left, and
// sees that the job ends rightly, ran at most once, and left no process and no files with the agent.
func TestKills(t *testing.T) {
	for round := range *kills {
		for _, s := range stands {
			for _, who := range []string{"server", "agent"} {
				t.Run(fmt.Sprintf("%s/%s/%d", who, strings.TrimSpace(string(s.state)+" "+s.name), round),
					func(t *testing.T) { t.Parallel(); newDeath(t, s).strike(who) })
			}
		}
	}
}

// death is a trial: a server, an agent, and a gate between them.
type death struct {
	*testing.T
	stand
	server, agent *process
	gate          *gate
	latch         *latch
	mark          string // in the command line of the job's processes
	id            client.ComputeJob
	dir           string // of the agent
	service       string // defaults to example
}

func newDeath(t *testing.T, s stand) *death {
	t.Helper()
	d := &death{T: t, stand: s, latch: newLatch(t), dir: t.TempDir(),
		mark: fmt.Sprintf("86400.%d%d", os.Getpid(), marks.Add(1))}
	address := wiretest.Address(t)
	args := []string{"compute", "agent", "--listen", address, "--data", d.dir, "--sandbox", "none", "--slots", "2",
		"--name", fmt.Sprintf("a%d", marks.Load())}
	if s.state == compute.Prepared {
		args = append(args, "--memory", fmt.Sprint(scarce))
	}
	d.agent = launch(t, nil, args...)
	d.gate = newGate(t, "http://"+address)
	if s.state == compute.Prepared {
		d.gate.lose("events", reset) // what the agent reports would take the job on at once
	}
	services := written(t, "services.yaml", "services: {example: {}}\nagents: {a1: {url: '"+d.gate.url+"'}}\n")
	d.server = launch(t, nil, "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--compute-services", services,
		"--compute-retries", "16", "--compute-retry-for", "4m", "--log-level", "error")
	return d
}

// api speaks with the server as it is now.
func (d *death) api() *client.Client {
	d.Helper()
	c, err := client.New(d.server.url, client.Options{})
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { c.Close() })
	return c
}

// until waits until the job is in one of the states.
func (d *death) until(states ...lifecycle.State) client.ComputeJob {
	d.Helper()
	api := d.api()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * patience); ; <-tick.C {
		j, err := api.ComputeJob(d.Context(), d.id.ID)
		if err == nil && slices.Contains(states, j.State) {
			return j
		}
		if time.Now().After(deadline) {
			d.Fatalf("the job never was one of %v: %s (%s: %s; %s), %v", states, j.State, j.Cause, j.Message, j.Waits, err)
		}
	}
}

// submit submits the job. It starts a process with the mark, and one that is to outlive it.
func (d *death) submit() {
	d.Helper()
	d.hand("sleep " + d.mark + " &\n(setsid sleep " + d.mark + " &)\n" + d.latch.wait() + "echo made >made.txt\n")
}

// hand submits a script. Two that are submitted have no capacity at the agent together where that has a memory of its
// own.
func (d *death) hand(body string) {
	d.Helper()
	text, o := []byte("#!/bin/bash\n"+body), client.ComputeOrder{Service: cmp.Or(d.service, "example")}
	if d.state == compute.Prepared {
		o.Limits.Memory = scarce * 2 / 3
	}
	j, err := d.api().SubmitCompute(d.Context(), o,
		[]client.ComputeSource{{Name: "run.sh", Size: int64(len(text)), Content: bytes.NewReader(text)}}, nil)
	if err != nil {
		d.Fatal(err)
	}
	d.id = j
}

// behind has the job be Prepared: it waits at the agent for another's memory, and the server misses that it gets it.
func (d *death) behind() {
	d.Helper()
	other := newLatch(d.T)
	d.hand(other.wait())
	d.until(compute.Running)
	d.submit()
	d.until(compute.Prepared)
	d.gate.lose(d.call, d.harm)
	d.gate.struck(fmt.Sprintf("/v1/payloads/%s/1", d.id.ID))
	other.lift()
}

// reach brings the job to its state.
func (d *death) reach() {
	d.Helper()
	if d.also[0] != "" {
		d.gate.harm(d.also[0], harm(d.also[1]), 0, 1)
	}
	early := d.call != "" && d.state != compute.Killing && d.state != compute.Retrieving && d.state != compute.Prepared
	if early {
		d.gate.harm(d.call, d.harm, d.pass, 0)
	}
	if d.state == compute.Queued {
		d.gate.lose("events", reset)
		d.gate.struck("room")
		api := d.api()
		eventually(d.T, "the server has noticed that no agent is there", func() bool {
			all, err := api.ComputeAgents(d.Context())
			return err == nil && len(all) == 1 && !all[0].Up
		})
	}
	if d.state == compute.Prepared {
		d.behind()
	} else {
		d.submit()
	}
	switch d.state {
	case compute.Killing:
		d.until(compute.Running)
		d.gate.lose(d.call, d.harm)
		if _, err := d.api().CancelCompute(d.Context(), d.id.ID, client.Act{}); err != nil {
			d.Fatal(err)
		}
	case compute.Retrieving:
		d.gate.lose(d.call, d.harm)
	}
	if d.lift {
		d.latch.lift()
	}
	d.until(d.state)
	if d.call != "" {
		d.gate.struck(d.call)
	}
	if d.name == "arrived" || d.state == compute.Submitted || d.state == compute.Prepared ||
		d.state == compute.Running || d.state == compute.Killing {
		d.latch.arrived(1)
		eventually(d.T, "control: its process is seen", func() bool { return alive(d.T, d.mark) })
	}
}

// strike kills one of the processes and sees what becomes of the job.
func (d *death) strike(who string) {
	d.reach()
	want, cause := compute.Completed, ""
	if who == "server" {
		d.server.kill()
		d.gate.heal()
		d.server.start()
		if d.state == compute.Killing {
			want, cause = compute.Killed, compute.CauseKilled
		}
	} else {
		d.agent.kill()
		if d.latch.runs() > 0 {
			eventually(d.T, "the job's processes end with the agent", func() bool { return !alive(d.T, d.mark) })
		}
		d.agent.start()
		d.gate.heal()
		want, cause = d.after, d.cause
	}
	if d.state != compute.Killing { // nothing but the word is to end it
		d.latch.lift()
	}
	j := d.until(compute.Completed, compute.Failed, compute.Killed, compute.Invalid)
	if who == "agent" && d.state == compute.Killing && j.State == compute.Killed {
		// the held request reached the new agent before it had settled the payload
		want, cause = compute.Killed, compute.CauseKilled
	}
	if j.State != want || j.Cause != cause {
		d.Errorf("it is %s (%s: %s), want %s (%s)", j.State, j.Cause, j.Message, want, cause)
	}
	if n := d.latch.runs(); n != 1 {
		d.Errorf("it ran %d times", n)
	}
	if j.State == compute.Completed {
		d.made(j)
	}
	eventually(d.T, "no process is left", func() bool { return !alive(d.T, d.mark) })
	if who == "server" && d.state == compute.Completed && *kills == 1 {
		// a receipt that was under way is given again after its lease, two minutes: waited for with more rounds only
		return
	}
	within(d.T, 3*time.Minute, "the agent has forgotten it", func() bool {
		left, err := filepath.Glob(filepath.Join(d.dir, "payloads", "*"))
		return err == nil && len(left) == 0
	})
}

// made searches for the job's file in its results.
func (d *death) made(j client.ComputeJob) {
	d.Helper()
	f, err := d.api().ComputeFile(d.Context(), j.ID, "results", "made.txt", "", 0)
	if err != nil {
		d.Fatal(err)
	}
	defer f.Body.Close()
	if text, err := io.ReadAll(f.Body); string(text) != "made\n" || err != nil {
		d.Errorf("%q, %v", text, err)
	}
}
