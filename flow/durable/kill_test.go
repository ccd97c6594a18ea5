package durable_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/sqlite"
)

var (
	killed     = flag.Int("flows", killedFlows, "flows that TestKilledFlows has run by workers that are killed")
	killedSeed = flag.Uint64("killseed", 0, "of TestKilledFlows; 0: another each time")
)

// The worker of TestKilledFlows is this test's own program, notified so by the environment.
const (
	workerDir = "STAGEPOST_TEST_WORKER" // directory of store and effects
	effects   = "effects"               // a line for each execution and revert, written before it is done
)

// behaviour is what a task does, by a number: it follows from the flow's seed, the atom and the attempt alone, so that
// a repetition after a kill does the same.
func behaviour(seed uint64, atom string, attempt int, undo bool) int {
	sum := seed
	for _, c := range fmt.Sprint(atom, attempt, undo) {
		sum = (sum ^ uint64(c)) * 1099511628211
	}
	return int(sum >> 33 % 100)
}

// randomFlow makes a flow of about ten tasks; with an even seed all of it is one line. note is notified of every
// execution and revert before it is done.
func randomFlow(seed uint64, note func(c *flow.Call, undo bool)) flow.Item {
	rnd := rand.New(rand.NewPCG(seed, 7))
	n := 0
	task := func() flow.Item {
		n++
		name := fmt.Sprintf("t%d", n)
		t := &flow.Task{Name: name}
		t.Execute = func(_ context.Context, c *flow.Call) (any, error) {
			note(c, false)
			if behaviour(seed, name, c.Attempt, false) < 12 {
				return nil, errors.New("it does not work")
			}
			return c.Attempt, nil
		}
		t.Revert = func(_ context.Context, c *flow.Call) (any, error) {
			note(c, true)
			if behaviour(seed, name, c.Attempt, true) < 4 {
				return nil, errors.New("it cannot be reverted")
			}
			return nil, nil
		}
		return t
	}
	var part func(depth int) *flow.Flow
	part = func(depth int) *flow.Flow {
		n++
		name := fmt.Sprintf("f%d", n)
		var items []flow.Item
		for range 2 + rnd.IntN(3) {
			if depth < 2 && rnd.IntN(3) == 0 {
				items = append(items, part(depth+1))
			} else {
				items = append(items, task())
			}
		}
		f := flow.Linear(name, items...)
		if seed%2 == 1 && rnd.IntN(2) == 0 {
			f = flow.Unordered(name, items...)
		}
		if rnd.IntN(2) == 0 {
			f.With(flow.Times(1 + rnd.IntN(3)))
		}
		return f
	}
	return part(0)
}

// killOptions are those of the flows, in the worker and in the test.
func killOptions(note func(c *flow.Call, undo bool)) durable.Options {
	policies := map[lifecycle.State]engine.Policy{}
	// killed workers are what this is about
	for _, state := range []lifecycle.State{flow.Pending, flow.Running, flow.Suspending, flow.Suspended,
		flow.Resuming} {
		policies[state] = engine.Policy{MaxStarts: 10_000,
			Backoff: engine.Backoff{First: time.Millisecond, Max: 5 * time.Millisecond}}
	}
	return durable.Options{
		MaxStarts: 10_000, Policies: policies,
		Factories: map[string]durable.Factory{"random": func(args json.RawMessage) (flow.Item, error) {
			var seed uint64
			if err := json.Unmarshal(args, &seed); err != nil {
				return nil, err
			}
			return randomFlow(seed, note), nil
		}},
	}
}

// TestKillWorker is the worker. It does nothing unless TestKilledFlows starts it.
func TestKillWorker(t *testing.T) {
	dir := os.Getenv(workerDir)
	if dir == "" {
		return
	}
	log, err := os.OpenFile(filepath.Join(dir, effects), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	flows, err := durable.New(killOptions(func(c *flow.Call, undo bool) {
		fmt.Fprintf(log, "%s undo=%v\n", c.Key(), undo) // one write: whole, or not there
	}))
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(store, []engine.Work{flows.Work()}, engine.Options{Slots: 8})
	if err != nil {
		t.Fatal(err)
	}
	flows.Bind(e)
	fmt.Println("working")
	t.Fatal(e.Run(context.Background())) // it is killed
}

// TestKilledFlows has flows run by a worker that is killed at random moments and started again: each ends as it would
// have without, and nothing whose success was on the disk when a worker crashed is executed again for the same attempt.
func TestKilledFlows(t *testing.T) {
	seed := cmp.Or(*killedSeed, rand.Uint64())
	rnd := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	ids := orderKilled(t, dir, seed)
	done := map[string]bool{} // executions, by key, whose success was stored when a worker crashed
	// idle grows with each kill that came before an effect: on a slow machine a worker needs longer to begin
	seen, kills, again, idle := 0, 0, 0, 1
	due := time.Time{}
	for open := len(ids); open > 0; kills++ {
		if kills > 20**killed {
			t.Fatalf("seed %d: %d flows have not ended after %d kills", seed, open, kills)
		}
		liveAndDie(t, dir, max(time.Until(due), 0)+time.Duration(rnd.IntN(idle*25_000))*time.Microsecond)
		lines := effectLines(t, dir)
		for _, line := range lines[seen:] {
			if key, forward := strings.CutSuffix(line, " undo=false"); forward && done[key] {
				t.Errorf("seed %d: %s was executed although its success was stored", seed, key)
			}
		}
		if idle = min(2*idle, 400); len(lines) > seen {
			idle = max(1, idle/4)
		}
		seen = len(lines)
		open, due = lookKilled(t, dir, ids, seed, done)
	}
	count := map[string]int{}
	for _, line := range effectLines(t, dir) {
		if count[line]++; count[line] > 1 {
			again++
		}
	}
	if *killed >= 200 && (kills < 3 || again == 0) { // of a few flows, none may be hit while it works
		t.Errorf("seed %d: %d kills and %d repetitions show nothing", seed, kills, again)
	}
	t.Logf("%d flows, %d kills, %d executions and reverts, %d of them repeated after a kill", *killed, kills, seen, again)
}

// orderKilled submits the flows and gives their seeds by id.
func orderKilled(t *testing.T, dir string, seed uint64) map[job.ID]uint64 {
	store, err := sqlite.Open(dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	flows, err := durable.New(killOptions(func(*flow.Call, bool) {}))
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(store, []engine.Work{flows.Work()}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[job.ID]uint64{}
	for i := range *killed {
		one := seed + uint64(i)
		j, err := flows.Submit(t.Context(), e, durable.Order{Factory: "random", Args: json.RawMessage(fmt.Sprint(one))})
		if err != nil {
			t.Fatal(err)
		}
		ids[j.ID] = one
	}
	return ids
}

// liveAndDie lets a worker work for a while and kills it.
func liveAndDie(t *testing.T, dir string, life time.Duration) {
	c := exec.Command(os.Args[0], "-test.run", "^TestKillWorker$")
	c.Env = append(os.Environ(), workerDir+"="+dir)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(out)
	working := false
	for !working && in.Scan() {
		working = in.Text() == "working"
	}
	if !working {
		_ = c.Wait()
		t.Fatal("the worker does not work")
	}
	<-time.After(life) // the moment of its death is what is random
	_ = c.Process.Kill()
	_ = c.Wait()
}

// effectLines gives what was begun, in order; a half line of a killed worker is left out.
func effectLines(t *testing.T, dir string) []string {
	text, err := os.ReadFile(filepath.Join(dir, effects))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	all := strings.SplitAfter(string(text), "\n")
	lines := make([]string, 0, len(all))
	for _, line := range all {
		if whole, ok := strings.CutSuffix(line, "\n"); ok {
			lines = append(lines, whole)
		}
	}
	return lines
}

// lookKilled reads what a dead worker left: successes go to done, flows that have ended are compared with the same flow
// run in memory. It gives how many have not ended, and when the first of them is due.
func lookKilled(t *testing.T, dir string, ids map[job.ID]uint64, seed uint64, done map[string]bool) (open int,
	due time.Time) {
	store, err := sqlite.Open(dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for id, one := range ids {
		j, err := store.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		tasks, err := store.Tasks(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		states := map[string]string{}
		for _, task := range tasks {
			if task.Kind != "flow.task" {
				continue
			}
			states[task.Name] = string(task.State)
			if task.State == flow.Success {
				done[fmt.Sprintf("%s/%s/%d", id, task.Name, task.Attempts)] = true
			}
		}
		if !j.Ended {
			if open++; open == 1 || j.Due.Before(due) {
				due = j.Due
			}
			continue
		}
		if one%2 == 0 { // a line: it goes the same way however often it is killed
			if want, wanted := undisturbed(t, one); string(j.State) != want || !maps.Equal(states, wanted) {
				t.Errorf("seed %d: flow %d ended in %s with %v, undisturbed it ends in %s with %v", seed, one, j.State, states, want, wanted)
			}
		}
		if untrue := truth(j.State, states); untrue != "" {
			t.Errorf("seed %d: flow %d ended in %s (%s: %s) with %v: %s", seed, one, j.State, j.Cause, j.Message, states, untrue)
		}
		delete(ids, id)
	}
	return open, due
}

// truth reports what is wrong with an end.
func truth(end lifecycle.State, states map[string]string) string {
	count := map[string]int{}
	for _, s := range states {
		count[s]++
	}
	busy := count[string(flow.Running)] + count[string(flow.Reverting)]
	switch {
	// what comes after a revert that failed is left
	case busy > 0, end != flow.FailureState && count[string(flow.FailureState)] > 0:
		return "something is not finished"
	case (end == flow.Success) != (count[string(flow.Success)] == len(states)):
		return "it is SUCCESS if all is, and only then"
	case (end == flow.FailureState) != (count[string(flow.RevertFailure)] > 0):
		return "it is FAILURE if something could not be reverted, and only then"
	}
	return ""
}

// undisturbed gives how a flow ends that no one kills.
func undisturbed(t *testing.T, seed uint64) (state string, states map[string]string) {
	r, err := flow.New(randomFlow(seed, func(*flow.Call, bool) {}), flow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Run(t.Context()) // its end reports
	states = map[string]string{}
	for _, a := range r.Atoms() {
		if a.Kind == flow.KindTask {
			states[a.Name] = string(a.State)
		}
	}
	return string(r.State()), states
}
