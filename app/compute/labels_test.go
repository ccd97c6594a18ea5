package compute_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// started is how many payloads an executor has begun.
func (f *fake) started() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.runs)
}

// requiring orders a job that requires labels.
func (w *harness) requiring(service string, labels ...string) job.Job {
	w.t.Helper()
	j, err := w.order(compute.Order{Owner: "ada", Service: service, Requires: labels},
		map[string]string{compute.Script: hello})
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

// labelled are options in which the agent cards has labels and plain has none.
func labelled(t *testing.T) compute.Options {
	o := quick(t)
	o.Services = append(o.Services, compute.Service{Name: "cards", RunsPerUser: 100, MaxRuns: 200,
		Requires: []string{"gpu"}})
	o.AgentLabels = map[string][]string{"cards": {"gpu", "zone=b"}, "plain": {"zone=a"}}
	return o
}

// TestAgentLabels: jobs run at agents that have the labels of the order and of the service, although another agent is
// free. The controls require nothing, or what the other one has.
func TestAgentLabels(t *testing.T) {
	for _, c := range []struct {
		name, service string
		labels        []string
		at            string
	}{
		{"none", "example", nil, "plain"},
		{"of the other", "example", []string{"zone=a"}, "plain"},
		{"one", "example", []string{"gpu"}, "cards"},
		{"two", "example", []string{"zone=b", "gpu"}, "cards"},
		{"of the service", "cards", nil, "cards"},
		{"of both", "cards", []string{"zone=b"}, "cards"},
	} {
		runInBubble(t, c.name, func(t *testing.T) {
			cards, plain := newFake(), newFake()
			cards.slots, plain.slots = 2, 9 // the plain one is preferred: it has more free slots
			w := newHarness(t, labelled(t), map[string]compute.Executor{"cards": cards, "plain": plain})
			eventually(t, "both are known", func() bool { return w.app.Agents()[0].Up && w.app.Agents()[1].Up })
			w.until(w.requiring(c.service, c.labels...).ID, compute.Completed)
			if got := map[bool]string{true: "cards", false: "plain"}[cards.started() == 1]; got != c.at ||
				cards.started()+plain.started() != 1 {
				t.Errorf("it ran at %s", got)
			}
		})
	}
}

// TestAgentLabelsWait: a job waits for the agent that has its labels while that one is full, drained or away, and is
// called when a slot is free; others pass it.
func TestAgentLabelsWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		cards, plain := newFake(), newFake()
		cards.slots, cards.auto = 1, false
		w := newHarness(t, labelled(t), map[string]compute.Executor{"cards": notifier{cards}, "plain": plain})
		eventually(t, "both are known", func() bool { return w.app.Agents()[0].Up && w.app.Agents()[1].Up })
		first := w.requiring("example", "gpu")
		w.until(first.ID, compute.Running)
		second := w.requiring("example", "gpu")
		eventually(t, "it waits for the one agent", func() bool {
			codes, text := w.whyOf(second.ID)
			return codes == "agents-full" && strings.Contains(text, "all slots of cards are taken")
		})
		w.until(w.requiring("example").ID, compute.Completed)
		if plain.started() != 1 {
			t.Errorf("%d jobs ran at the other one", plain.started())
		}
		cards.mu.Lock()
		cards.auto = true
		cards.mu.Unlock()
		cards.finish(first.ID, &compute.Ending{})
		w.until(second.ID, compute.Completed)
		if _, err := w.app.Drain(t.Context(), "cards", true, "op", "disks"); err != nil {
			t.Fatal(err)
		}
		third := w.requiring("example", "gpu")
		eventually(t, "it waits for the operator", func() bool {
			codes, text := w.whyOf(third.ID)
			return codes == "agents-drained" && strings.Contains(text, "op drains it")
		})
		if _, err := w.app.Drain(t.Context(), "cards", false, "op", ""); err != nil {
			t.Fatal(err)
		}
		w.until(third.ID, compute.Completed)
		if plain.started() != 1 || cards.started() != 3 {
			t.Errorf("%d jobs ran at the other one, %d at this one", plain.started(), cards.started())
		}
	})
}

// reporting is an executor that reports labels.
type reporting struct {
	*fake
	labels []string
}

func (r reporting) Capacity(ctx context.Context) (compute.Capacity, error) {
	room, err := r.fake.Capacity(ctx)
	room.Labels = slices.Clone(r.labels)
	return room, err
}

// TestLabelsOfNoAgent: a job that requires what no agent has waits without losing attempts, and reports which labels
// and what would help. It runs when an agent comes that reports them, or the server starts again with one that has them
// by its file.
func TestLabelsOfNoAgent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store, o := mem.New(), labelled(t)
		o.Retries = 1
		w := newHarnessOn(t, store, o, map[string]compute.Executor{"cards": newFake(), "plain": newFake()})
		apart := w.requiring("example", "gpu", "zone=a") // each of two agents has one of them
		j := w.requiring("example", "gpu", "tape")
		time.Sleep(10 * time.Minute)
		for _, c := range []struct {
			id    job.ID
			wants []string
			not   string
		}{
			{j.ID, []string{"no agent for example with labels gpu, tape; none has tape", "stagepost compute agents",
				"--requires LABEL", "compute agent --labels"}, "none has gpu"},
			{apart.ID, []string{"no agent for example with labels gpu, zone=a"}, "none has"},
		} {
			text := ""
			eventually(t, "the reason is shown", func() (is bool) {
				var codes string
				codes, text = w.whyOf(c.id)
				return codes == "agents-labels"
			})
			for _, want := range c.wants {
				if !strings.Contains(text, want) || strings.Contains(text, c.not) {
					t.Errorf("why: %q lacks %q", text, want)
				}
			}
		}
		w.app.Join("late", reporting{newFake(), []string{"tape", "gpu", "no label"}})
		w.until(j.ID, compute.Completed)
		w.stop()
		o.AgentLabels["cards"] = []string{"zone=a", "gpu"}
		again := newHarnessOn(t, store, o, map[string]compute.Executor{"cards": newFake(), "plain": newFake()})
		again.until(apart.ID, compute.Completed)
		for name, want := range map[string][]string{"late": {"gpu", "tape"}, "cards": {"zone=a", "gpu"}} {
			all := append(w.app.Workers(), again.app.Workers()...)
			if !slices.ContainsFunc(all, func(one api.WorkerInfo) bool {
				return one.Name == name && slices.Equal(one.Labels, want)
			}) {
				t.Errorf("%s has not the labels %q: %+v", name, want, all)
			}
		}
	})
}
