package agent

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/store/sqlite"
)

// child is an agent in a process of its own, to be killed. It never returns.
func child(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	tier := os.Getenv(childVariable + "_TIER")
	fail(os.Unsetenv(childVariable)) // what it starts is no agent
	store, err := sqlite.Open(dir, sqlite.Options{})
	fail(err)
	box, err := sandbox.Open(context.Background(),
		sandbox.Options{Tier: tier, Name: "agent-test-" + filepath.Base(filepath.Dir(dir))})
	fail(err)
	app, err := New(Options{Dir: dir, Name: "child", Slots: 1, Runner: box, Sandbox: box.Tier(), Reserve: 1,
		Grace: 200 * time.Millisecond})
	fail(err)
	e, err := engine.New(store, app.Works(), engine.Options{Name: "agent", Lease: time.Minute})
	fail(err)
	app.Bind(e)
	fail(app.Fault())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fail(err)
	fmt.Println("http://" + l.Addr().String())
	go func() { fail(Server(app.Handler(HandlerOptions{}), app.log).Serve(l)) }()
	fail(e.Run(context.Background()))
}

// process is a child.
type process struct {
	*Remote
	command *exec.Cmd
}

// spawn starts a child and waits until it answers.
func spawn(t *testing.T, dir, tier string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), childVariable+"="+dir, childVariable+"_TIER="+tier)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{command: c}
	t.Cleanup(p.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the agent did not start: %v", err)
	}
	if p.Remote, err = Dial(DialOptions{URL: strings.TrimSpace(line)}); err != nil {
		t.Fatal(err)
	}
	return p
}

// kill ends the child by SIGKILL and waits for it.
func (p *process) kill() {
	if p.command.ProcessState == nil {
		_ = p.command.Process.Kill()
		_ = p.command.Wait()
	}
}

// standing waits until a payload stands so.
func (p *process) standing(t *testing.T, k compute.Ticket, want compute.Standing) compute.Notice {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond) // another process: asking is the only way
	defer tick.Stop()
	for deadline := time.Now().Add(enough); ; <-tick.C {
		n, err := p.Query(t.Context(), handle(k))
		if err == nil && n.Standing == want {
			return n
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is not %s: %+v, %v", want, n, err)
		}
	}
}

// wrote waits until a payload has written something to its standard output.
func (p *process) wrote(t *testing.T, k compute.Ticket, want string) {
	t.Helper()
	log, err := p.Log(t.Context(), handle(k), "stdout", 0, true)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if line, err := bufio.NewReader(log).ReadString('\n'); err != nil || line != want+"\n" {
		t.Fatalf("got %q, %v", line, err)
	}
}

// alive reports whether a process of the machine has a word in its command line.
func alive(t *testing.T, word string) bool {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if text, err := os.ReadFile(name); err == nil && bytes.Contains(text, []byte(word)) {
			return true
		}
	}
	return false
}

// comes waits until a process has the word: a shell that has reported something has not yet begun what comes next.
func comes(t *testing.T, word string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond) // no signal reports the beginning of a process that is not ours
	defer tick.Stop()
	for deadline := time.Now().Add(enough); !alive(t, word); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("no process with %q runs", word)
		}
	}
}

// gone waits until no process has the word any more.
func gone(t *testing.T, word string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond) // no signal reports the end of a process that is not ours
	defer tick.Stop()
	for deadline := time.Now().Add(enough); alive(t, word); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("a process with %q goes on", word)
		}
	}
}

// TestKilled kills a real agent by SIGKILL while one payload runs, with a daemon besides, and one waits. Nothing of
// them is left running; the next agent reports the first as dead with what it had written, within a second, runs the
// second once, and never runs the first again.
func TestKilled(t *testing.T) {
	for _, tier := range []string{sandbox.None, sandbox.Auto} {
		t.Run(tier, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "agent")
			word := fmt.Sprintf("7%d.%d", os.Getpid(), len(tier))
			first := spawn(t, dir, tier)
			runs, waits, ended := ticket(), ticket(), ticket()
			if _, err := first.Submit(t.Context(), parcel(ended, "echo done; exit 3")); err != nil {
				t.Fatal(err)
			}
			if n := first.standing(t, ended, compute.Ended); n.Ending.Exit != 3 || n.Ending.Cause != compute.CauseExit {
				t.Fatalf("got %+v", n.Ending)
			}
			script := "echo run >>runs\n(setsid sleep " + word + " &)\necho begun\nsleep " + word + "\n"
			if _, err := first.Submit(t.Context(), parcel(runs, script)); err != nil {
				t.Fatal(err)
			}
			first.wrote(t, runs, "begun")
			comes(t, word) // control
			if _, err := first.Submit(t.Context(), parcel(waits, "echo run >>runs")); err != nil {
				t.Fatal(err)
			}
			first.standing(t, waits, compute.Waits)
			first.kill()
			gone(t, word)
			began := time.Now()
			second := spawn(t, dir, tier)
			up := time.Now()
			n := second.standing(t, runs, compute.Ended)
			t.Logf("started in %s, reported %s later", up.Sub(began), time.Since(up))
			if n.Ending.Cause != compute.CauseAgent || !n.HasResult {
				t.Errorf("got %+v", n.Ending)
			}
			second.standing(t, waits, compute.Ended)
			for k, want := range map[compute.Ticket]string{runs: "run\n", waits: "run\n", ended: ""} {
				r, err := second.Results(t.Context(), handle(k))
				if got := unzip(t, r, err); got["runs"] != want {
					t.Errorf("got %q, want %q", got["runs"], want)
				}
			}
			if n := second.standing(t, ended, compute.Ended); n.Ending.Exit != 3 {
				t.Errorf("got %+v", n.Ending)
			}
			if alive(t, word) {
				t.Error("it runs again")
			}
		})
	}
}

// A payload that is killed is gone with its daemons, whatever it does about the signal.
func TestKillTree(t *testing.T) {
	p := spawn(t, filepath.Join(t.TempDir(), "agent"), sandbox.Auto)
	word := fmt.Sprintf("8%d.1", os.Getpid())
	k := ticket()
	script := "trap '' TERM\n(setsid sleep " + word + " &)\necho begun\nwhile :; do sleep " + word + "; done\n"
	if _, err := p.Submit(t.Context(), parcel(k, script)); err != nil {
		t.Fatal(err)
	}
	p.wrote(t, k, "begun")
	if err := p.Kill(t.Context(), handle(k)); err != nil {
		t.Fatal(err)
	}
	if n := p.standing(t, k, compute.Ended); n.Ending.Cause != compute.CauseKilled || !n.HasResult {
		t.Errorf("got %+v", n.Ending)
	}
	if alive(t, word) {
		t.Error("it ended, and something of it goes on")
	}
}
