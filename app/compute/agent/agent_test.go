package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// A payload goes its whole way over each of the two doors: taken, run, results, receipt.
func TestWholeWay(t *testing.T) {
	w := newHarness(t, writes(0), nil)
	remote, _ := w.remote(HandlerOptions{})
	for name, x := range map[string]compute.Executor{"local": w.app.Local(), "remote": remote} {
		t.Run(name, func(t *testing.T) {
			k := ticket()
			n := w.submit(x, parcel(k, "echo hello", "in.txt", "input", `we"ird ü\name.txt`, "x"))
			if n.Instance != w.app.Instance() || n.Remote == "" {
				t.Errorf("got %+v", n)
			}
			n = w.end(k)
			if n.Standing != compute.Ended || n.Ending.Exit != 0 || n.Ending.Cause != "" || !n.HasResult ||
				n.Bytes <= 0 || len(n.SHA256) != 64 {
				t.Fatalf("got %+v, %+v", n, n.Ending)
			}
			r, err := x.Results(t.Context(), handle(k))
			got := unzip(t, r, err)
			if got["exit.json"] == "" {
				t.Error("no exit.json")
			}
			delete(got, "exit.json")
			if diff := cmp.Diff(map[string]string{"stdout": "hello\n", "stderr": "oh\n", "made.txt": "made"},
				got); diff != "" {
				t.Errorf("inputs are left out, what was made is in: %s", diff)
			}
			log, err := x.Log(t.Context(), handle(k), "stdout", 2, true)
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			if text, err := io.ReadAll(log); err != nil || string(text) != "llo\n" {
				t.Errorf("got %q, %v", text, err)
			}
			if err := x.Forget(t.Context(), handle(k)); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(w.app.pathOf(idOf(k))); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the files are still there: %v", err)
			}
			if err := x.Forget(t.Context(), handle(k)); err != nil {
				t.Errorf("a second receipt: %v", err)
			}
			again := w.submit(x, parcel(k, "echo hello"))
			if again.Standing != compute.Ended || again.HasResult || again.Ending.Cause != "" {
				t.Errorf("a forgotten payload is run no more: %+v", again)
			}
		})
	}
	if got := w.runner.count(); got != 2 {
		t.Errorf("%d runs, want 2", got)
	}
}

// The results of a payload whose inputs are wanted hold them.
func TestInputsInResults(t *testing.T) {
	w := newHarness(t, writes(0), nil)
	k := ticket()
	p := parcel(k, "echo hello", "in.txt", "input")
	p.Inputs = true
	w.submit(w.app, p)
	w.end(k)
	r, err := w.app.Results(t.Context(), handle(k))
	if got := unzip(t, r, err); got["in.txt"] != "input" || got[scriptName] == "" {
		t.Errorf("got %v", got)
	}
}

// Failures keep their results, and report why.
func TestFailureKeepsResults(t *testing.T) {
	ending := sandbox.Ending{Exit: -1, Signal: "SIGKILL", Cause: sandbox.Memory, Sentence: "the command used more than its 1 MiB of memory"}
	w := newHarness(t, func(_ context.Context, c *sandbox.Command) (sandbox.Ending, error) {
		_, err := io.WriteString(c.Stdout, "half")
		return ending, err
	}, nil)
	k := ticket()
	w.submit(w.app, parcel(k, "x"))
	n := w.end(k)
	if n.Ending.Cause != compute.CauseMemory || n.Ending.Signal != "SIGKILL" || n.Ending.Sentence != ending.Sentence ||
		!n.HasResult {
		t.Errorf("got %+v", n.Ending)
	}
	r, err := w.app.Results(t.Context(), handle(k))
	if got := unzip(t, r, err); got["stdout"] != "half" {
		t.Errorf("got %v", got)
	}
}

// noCurl is a check of scripts.
func noCurl(script io.Reader) (compute.Verdict, error) {
	text, err := io.ReadAll(script)
	return compute.Verdict{Refused: bytes.Contains(text, []byte("curl")), Reason: "it contains curl"}, err
}

// What can never run is ended with a sentence, and is not run. The check of a service goes before that of the agent.
func TestRejected(t *testing.T) {
	w := newHarness(t, writes(0), func(o *Options) {
		o.Services = map[string]Service{"test": {Check: noCurl}}
	})
	for script, want := range map[string]string{"": "there is no run.sh",
		"curl x": "the script policy: it contains curl"} {
		k := ticket()
		w.submit(w.app, parcel(k, script, "other.txt", "x"))
		n := w.end(k)
		if n.Ending.Cause != compute.CauseRejected || !strings.Contains(n.Ending.Sentence, want) || n.HasResult {
			t.Errorf("%q: got %+v", script, n.Ending)
		}
	}
	k := ticket()
	w.submit(w.app, parcel(k, "echo"))
	if n := w.end(k); n.Ending.Cause != "" {
		t.Errorf("control: got %+v", n.Ending)
	}
	if got := w.runner.count(); got != 1 {
		t.Errorf("%d runs", got)
	}
}

// Many submissions of one ticket at once make one payload, which runs once.
func TestSubmitOnce(t *testing.T) {
	w := newHarness(t, writes(0), nil)
	remote, _ := w.remote(HandlerOptions{})
	k := ticket()
	remotes := make([]string, 24)
	var all sync.WaitGroup
	for i := range remotes {
		all.Go(func() {
			var x compute.Executor = w.app
			if i%2 == 0 {
				x = remote
			}
			n, err := x.Submit(t.Context(), parcel(k, "echo", "big.bin", strings.Repeat("x", 300_000)))
			if err != nil {
				t.Error(err)
			}
			remotes[i] = n.Remote
		})
	}
	all.Wait()
	w.end(k)
	if slices.Sort(remotes); remotes[0] == "" || remotes[0] != remotes[len(remotes)-1] {
		t.Errorf("got %v", remotes)
	}
	if got := w.runner.count(); got != 1 {
		t.Errorf("%d runs", got)
	}
	second := k
	second.Attempt = 2
	w.submit(w.app, parcel(second, "echo"))
	w.end(second)
	if got := w.runner.count(); got != 2 {
		t.Errorf("control: another attempt is another run: %d", got)
	}
}

// A caller without the secret learns of no payload, whatever it asks.
func TestWrongSecret(t *testing.T) {
	w := newHarness(t, writes(0), nil)
	remote, _ := w.remote(HandlerOptions{})
	k := ticket()
	w.submit(w.app, parcel(k, "echo"))
	w.end(k)
	wrong := k
	wrong.Secret = strings.Repeat("f", 32)
	for name, x := range map[string]compute.Executor{"local": w.app.Local(), "remote": remote} {
		h := handle(wrong)
		if n, err := x.Query(t.Context(), h); err != nil || n.Standing != compute.Stranger || n.Remote != "" ||
			n.Ending != nil {
			t.Errorf("%s query: %+v, %v", name, n, err)
		}
		_, results := x.Results(t.Context(), h)
		_, partial := x.Partial(t.Context(), h)
		_, log := x.Log(t.Context(), h, "stdout", 0, false)
		for what, err := range map[string]error{"results": results, "partial": partial, "log": log,
			"kill": x.Kill(t.Context(), h), "forget": x.Forget(t.Context(), h)} {
			if !errors.Is(err, compute.ErrNoPayload) {
				t.Errorf("%s %s: got %v", name, what, err)
			}
		}
		var refusal *compute.Refusal
		if _, err := x.Submit(t.Context(), parcel(wrong, "echo")); !errors.As(err, &refusal) {
			t.Errorf("%s submit: got %v", name, err)
		}
		if n, err := x.Query(t.Context(), handle(k)); err != nil || n.Standing != compute.Ended {
			t.Errorf("%s control: %+v, %v", name, n, err)
		}
	}
}

// A file that is not what was announced is not taken, and nothing of it stays.
func TestBrokenFiles(t *testing.T) {
	w := newHarness(t, writes(0), nil)
	remote, _ := w.remote(HandlerOptions{})
	for name, x := range map[string]compute.Executor{"local": w.app.Local(), "remote": remote} {
		k := ticket()
		p := parcel(k, "echo")
		p.Files[0].SHA256 = strings.Repeat("0", 64)
		if _, err := x.Submit(t.Context(), p); err == nil {
			t.Errorf("%s: a wrong digest was taken", name)
		}
		for _, bad := range []string{"", ".", "..", "a/b", "a\x00b", strings.Repeat("x", 256)} {
			if _, err := x.Submit(t.Context(), parcel(ticket(), "echo", bad, "x")); err == nil {
				t.Errorf("%s: the name %q was taken", name, bad)
			}
		}
		if n, err := x.Query(t.Context(), handle(k)); err != nil || n.Standing != compute.Stranger {
			t.Errorf("%s: got %+v, %v", name, n, err)
		}
		if n := w.submit(x, parcel(k, "echo")); n.Remote == "" {
			t.Errorf("%s control: %+v", name, n)
		}
		w.end(k)
	}
	if left, err := os.ReadDir(w.dir + "/" + stageName); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// A payload that is killed is at work until it is gone, keeps its results, and counts as killed; one that waits never
// runs.
func TestKill(t *testing.T) {
	begun := make(chan *sandbox.Command, 8)
	w := newHarness(t, blocks(begun, nil), func(o *Options) { o.Slots = 1 })
	remote, _ := w.remote(HandlerOptions{})
	first, second := ticket(), ticket()
	w.submit(remote, parcel(first, "sleep"))
	<-begun
	w.submit(remote, parcel(second, "sleep"))
	if n, err := remote.Query(t.Context(), handle(second)); err != nil || n.Standing != compute.Waits {
		t.Fatalf("got %+v, %v", n, err)
	}
	for _, k := range []compute.Ticket{second, first} {
		if err := remote.Kill(t.Context(), handle(k)); err != nil {
			t.Fatal(err)
		}
		n := w.end(k)
		if n.Ending.Cause != compute.CauseKilled {
			t.Errorf("got %+v", n.Ending)
		}
		if err := remote.Kill(t.Context(), handle(k)); err != nil {
			t.Errorf("a second time: %v", err)
		}
	}
	j, err := w.store.Get(t.Context(), idOf(first))
	if err != nil || j.State != compute.Killed {
		t.Errorf("got %s, %v", j.State, err)
	}
	r, err := remote.Results(t.Context(), handle(first))
	if got := unzip(t, r, err); got["stdout"] != "begun\n" {
		t.Errorf("got %v", got)
	}
	if _, err := remote.Results(t.Context(), handle(second)); !errors.Is(err, compute.ErrNoPayload) {
		t.Errorf("one that never ran has results: %v", err)
	}
	if got := w.runner.count(); got != 1 {
		t.Errorf("%d runs", got)
	}
}

// No one passes the first in line for memory, and all run in the end.
func TestRoom(t *testing.T) {
	begun, release := make(chan *sandbox.Command, 8), make(chan struct{})
	w := newHarness(t, blocks(begun, release), func(o *Options) { o.Memory = 100 << 20 })
	memory := func(mib int64) compute.Ticket {
		k := ticket()
		p := parcel(k, "x")
		p.Limits.Memory = mib << 20
		w.submit(w.app, p)
		return k
	}
	small := memory(60)
	<-begun
	big, late := memory(90), compute.Ticket{}
	w.waits(big, "of memory")
	late = memory(10)
	w.waits(late, "before it")
	var refusal *compute.Refusal
	huge := parcel(ticket(), "x")
	huge.Limits.Memory = 101 << 20
	if _, err := w.app.Submit(t.Context(), huge); !errors.As(err, &refusal) || !refusal.Here {
		t.Errorf("more than there is: got %v", err)
	}
	close(release)
	for _, k := range []compute.Ticket{small, big, late} {
		if n := w.end(k); n.Ending.Cause != "" {
			t.Errorf("got %+v", n.Ending)
		}
	}
}

// waits waits until a payload waits for a reason.
func (w *harness) waits(k compute.Ticket, reason string) {
	w.Helper()
	changes := w.app.hub.listen()
	defer w.app.hub.leave(changes)
	ctx, cancel := context.WithTimeout(w.Context(), enough)
	defer cancel()
	for {
		n, err := w.app.Query(ctx, handle(k))
		if err != nil {
			w.Fatal(err)
		}
		if n.Standing == compute.Waits && strings.Contains(n.Reason, reason) {
			return
		}
		if _, err := changes.next(ctx, w.app.life); err != nil {
			w.Fatalf("it does not wait: %+v", n)
		}
	}
}

// An agent that drains refuses, and what it has goes on.
func TestDrain(t *testing.T) {
	begun, release := make(chan *sandbox.Command, 8), make(chan struct{})
	w := newHarness(t, blocks(begun, release), nil)
	remote, _ := w.remote(HandlerOptions{})
	k := ticket()
	w.submit(remote, parcel(k, "x"))
	<-begun
	if room, err := remote.Drain(t.Context(), true); err != nil || !room.Draining || room.Slots-room.Free != 1 {
		t.Errorf("got %+v, %v", room, err)
	}
	var refusal *compute.Refusal
	if _, err := remote.Submit(t.Context(), parcel(ticket(), "x")); !errors.As(err, &refusal) || !refusal.Here {
		t.Errorf("got %v", err)
	}
	if n := w.submit(remote, parcel(k, "x")); n.Standing != compute.Works {
		t.Errorf("one that it has is no new one: %+v", n)
	}
	close(release)
	if n := w.end(k); n.Ending.Cause != "" {
		t.Errorf("got %+v", n.Ending)
	}
	if room, err := remote.Drain(t.Context(), false); err != nil || room.Draining {
		t.Errorf("got %+v, %v", room, err)
	}
	w.submit(remote, parcel(ticket(), "x"))
}

// Halt ends what does not end within the grace, with a cause of its own; what waits is run after the next start.
func TestHalt(t *testing.T) {
	begun := make(chan *sandbox.Command, 8)
	w := newHarness(t, blocks(begun, nil), func(o *Options) { o.Slots = 1 })
	runs, waits := ticket(), ticket()
	w.submit(w.app, parcel(runs, "x"))
	<-begun
	w.submit(w.app, parcel(waits, "x"))
	w.app.Halt(t.Context(), time.Millisecond)
	if n := w.end(runs); n.Ending.Cause != CauseStopped || !n.HasResult {
		t.Errorf("got %+v", n.Ending)
	}
	w.stop()
	w.runner.play = writes(0)
	w.start(nil)
	if n := w.end(waits); n.Ending.Cause != "" {
		t.Errorf("got %+v", n.Ending)
	}
	if got := w.runner.count(); got != 2 {
		t.Errorf("%d runs", got)
	}
}

// A parcel that was sent to another memory is not taken, and payloads that another memory had are lost rather than
// strangers.
func TestInstance(t *testing.T) {
	w := newHarness(t, writes(0), nil)
	remote, _ := w.remote(HandlerOptions{})
	old := w.app.Instance()
	for _, x := range []compute.Executor{w.app, remote} {
		p := parcel(ticket(), "x")
		p.Instance = "another"
		if n := w.submit(x, p); n.Standing != compute.Lost || n.Instance != old {
			t.Errorf("got %+v", n)
		}
		h := handle(p.Ticket)
		h.Instance = "another"
		if n, err := x.Query(t.Context(), h); err != nil || n.Standing != compute.Lost {
			t.Errorf("got %+v, %v", n, err)
		}
		h.Instance = old
		if n, err := x.Query(t.Context(), h); err != nil || n.Standing != compute.Stranger {
			t.Errorf("control: got %+v, %v", n, err)
		}
	}
	if got := w.runner.count(); got != 0 {
		t.Errorf("%d runs", got)
	}
	k := ticket()
	w.submit(w.app, parcel(k, "x"))
	w.end(k)
	w.stop()
	w.start(nil)
	if w.app.Instance() != old {
		t.Error("control: a restart is no new memory")
	}
	w.stop()
	fresh := &harness{T: t, store: mem.New(), dir: w.dir, runner: w.runner}
	fresh.start(nil)
	if fresh.app.Instance() == old {
		t.Error("a store that was emptied is a new memory")
	}
	if _, err := os.Stat(w.app.pathOf(idOf(k))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory without a record stays: %v", err)
	}
}

// The order of ids and the sameness for a ticket.
func TestID(t *testing.T) {
	k := ticket()
	if idOf(k) != idOf(compute.Ticket{Job: k.Job, Attempt: 1, Secret: "other"}) {
		t.Error("the secret is no part of the id")
	}
	other := k
	other.Attempt = 2
	if idOf(k) == idOf(other) || idOf(k)[4:14] != k.Job[4:14] {
		t.Errorf("got %s, %s for %s", idOf(k), idOf(other), k.Job)
	}
	if id := idOf(compute.Ticket{Job: job.ID("odd"), Attempt: 1}); len(id) != 30 {
		t.Errorf("got %s", id)
	}
}
